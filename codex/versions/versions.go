// Package versions is the range of codex's versions that this project takes and that its tests run.
package versions

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// Oldest is the first minor version of codex 0.x with an app-server that this project supports.
	Oldest = 140
	// OldestForRemotes is the oldest for remotes: the first one with own clients that reconnect after a cut.
	OldestForRemotes = 153
	// MarksResponses is the first one of those that the tests run that reports the end of a response of the model. An
	// older one has a turn go on until the calls in it are answered.
	MarksResponses = 153
	// Tested is the newest minor version that the tests have run.
	Tested = 171
)

// OfAgent is the version in the user agent by which codex answers a client: NAME/VERSION and more.
func OfAgent(agent string) string {
	_, rest, _ := strings.Cut(agent, "/")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

// minor is the second number of a version 0.x; ok is false for a text that is no version, and for a later major version.
func minor(version string) (n int, ok bool) {
	rest, zero := strings.CutPrefix(version, "0.")
	text, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(text)
	return n, zero && err == nil
}

// Before reports whether a version is older than 0.n.
func Before(version string, n int) bool {
	m, ok := minor(version)
	return ok && m < n
}

// Standing says of a version such as 0.172.0 that it is newer than the tested ones; it is empty of those and of a text
// that is no version.
func Standing(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	ma, err := strconv.Atoi(major)
	mi, err2 := strconv.Atoi(minor)
	if err != nil || err2 != nil || ma == 0 && mi <= Tested {
		return ""
	}
	return fmt.Sprintf("newer than 0.%d, the newest that this release was tested with", Tested)
}
