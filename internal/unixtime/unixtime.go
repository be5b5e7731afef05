// Package unixtime turns a number from outside into a time: a reset of a limit, the end of a token.
package unixtime

import "time"

// latest is the last second of the year 9999: a later time has no form in JSON (RFC 3339), and would break its writers,
// such as the file of accounts or a hand-off to the next process.
const latest = 253402300799

// Of is the time of a number of seconds since 1970, in UTC. A number beyond the year 9999 is one of milliseconds,
// microseconds or nanoseconds: servers mix them up. 0 and negative numbers are no time: the zero Time.
func Of(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	for seconds > latest {
		seconds /= 1000
	}
	return time.Unix(seconds, 0).UTC()
}
