package recent

import (
	"maps"
	"math"
	"time"
)

// Point is the numbers of ten seconds.
type Point struct {
	At time.Time `json:"at"` // its first moment
	// Turns are the requests for which a turn was begun, and that have ended.
	Turns int `json:"turns"`
	// Errors counts the requests that have ended in an error, by its code.
	Errors map[string]int `json:"errors,omitempty"`
	// FirstTextP50MS and FirstTextP95MS are the times to the first text of the model, within a tenth; 0: there was
	// none.
	FirstTextP50MS float64 `json:"first_text_p50_ms,omitempty"`
	FirstTextP95MS float64 `json:"first_text_p95_ms,omitempty"`
	// Queue and InFlight are the most requests that waited, and turns that ran, at any look.
	Queue        int    `json:"queue"`
	InFlight     int    `json:"in_flight"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Restarts     uint64 `json:"restarts"` // of workers
}

// maxCodes bounds the codes of one point. The rest counts as "other".
const maxCodes = 32

// sample is a point that still counts. It holds the times to the first text as a histogram, which can be added up.
type sample struct {
	Point
	// FirstTexts counts the times by the index of their bucket.
	FirstTexts map[int]int `json:"first_texts,omitempty"`
}

// The buckets grow by a tenth each, from one millisecond to a day.
const (
	growth     = 1.1
	lastBucket = 192
)

func bucketOf(ms float64) int {
	return min(lastBucket, max(0, int(math.Ceil(math.Log(ms)/math.Log(growth)))))
}

func (s *sample) add(r Request) {
	if r.Attempts > 0 {
		s.Turns++
	}
	if r.Failed() {
		s.fail(r.Outcome, 1)
	}
	s.InputTokens += r.InputTokens
	s.OutputTokens += r.OutputTokens
	if r.FirstTextMS > 0 {
		s.text(bucketOf(r.FirstTextMS), 1)
	}
}

func (s *sample) fail(code string, n int) {
	if s.Errors == nil {
		s.Errors = map[string]int{}
	}
	if _, known := s.Errors[code]; !known && len(s.Errors) >= maxCodes {
		code = "other"
	}
	s.Errors[code] += n
}

func (s *sample) text(bucket, n int) {
	if s.FirstTexts == nil {
		s.FirstTexts = map[int]int{}
	}
	s.FirstTexts[min(lastBucket, max(0, bucket))] += n
}

// look takes over the numbers of one moment.
func (s *sample) look(g Gauges) {
	s.Queue, s.InFlight = max(s.Queue, g.Queue), max(s.InFlight, g.InFlight)
}

// plus adds the numbers of another process in the same ten seconds.
func (s *sample) plus(o sample) {
	s.Turns += o.Turns
	for code, n := range o.Errors {
		s.fail(code, n)
	}
	for bucket, n := range o.FirstTexts {
		s.text(bucket, n)
	}
	s.look(Gauges{Queue: o.Queue, InFlight: o.InFlight})
	s.InputTokens += o.InputTokens
	s.OutputTokens += o.OutputTokens
	s.Restarts += o.Restarts
}

// published is the point as readers get it.
func (s *sample) published() Point {
	p := s.Point
	p.Errors = maps.Clone(s.Errors)
	p.FirstTextP50MS, p.FirstTextP95MS = s.quantile(0.5), s.quantile(0.95)
	return p
}

// quantile is the upper bound of the bucket with that share of the first texts below it.
func (s *sample) quantile(share float64) float64 {
	total := 0
	for _, n := range s.FirstTexts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(total)))
	for bucket := 0; bucket <= lastBucket; bucket++ {
		if rank -= s.FirstTexts[bucket]; rank <= 0 {
			return math.Round(math.Pow(growth, float64(bucket))*10) / 10
		}
	}
	return 0
}
