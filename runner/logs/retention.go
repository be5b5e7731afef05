package logs

import (
	"slices"
	"time"
)

// Kept is a log that is kept. ID is the caller's.
type Kept[ID any] struct {
	ID    ID
	Bytes int64     // of its files
	Ended time.Time // zero while it is written
}

// Retention says which logs are kept: those that ended within Age, as long as all logs together, with those that are
// written, have at most Bytes. A log that is written is kept.
type Retention struct {
	Age   time.Duration
	Bytes int64
}

// Expired returns the IDs of the logs that are not kept at the time now, those that ended first before the others.
func Expired[ID any](logs []Kept[ID], keep Retention, now time.Time) []ID {
	var total int64
	var ended []Kept[ID]
	for _, log := range logs {
		total += log.Bytes
		if !log.Ended.IsZero() {
			ended = append(ended, log)
		}
	}
	slices.SortStableFunc(ended, func(a, b Kept[ID]) int { return a.Ended.Compare(b.Ended) })
	var expired []ID
	for _, log := range ended {
		if total <= keep.Bytes && now.Sub(log.Ended) <= keep.Age {
			break
		}
		expired = append(expired, log.ID)
		total -= log.Bytes
	}
	return expired
}
