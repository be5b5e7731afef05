// Package usage counts what each API key has used of each model on each day, in
// UTC: in metrics, in memory for limits, and in a database that survives. It
// knows names and numbers, never what a request was about.
package usage

import (
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are what requests have used, as the workers reported it.
type Counts struct {
	Requests        int64 `json:"requests"`
	InputTokens     int64 `json:"input_tokens"`
	CachedTokens    int64 `json:"cached_tokens"` // of the input
	OutputTokens    int64 `json:"output_tokens"`
	ReasoningTokens int64 `json:"reasoning_tokens"` // of the output
}

// Tokens are all tokens: input and output.
func (c Counts) Tokens() int64 { return c.InputTokens + c.OutputTokens }

func (c Counts) plus(o Counts) Counts {
	return Counts{
		c.Requests + o.Requests, c.InputTokens + o.InputTokens, c.CachedTokens + o.CachedTokens,
		c.OutputTokens + o.OutputTokens, c.ReasoningTokens + o.ReasoningTokens,
	}
}

// Settings of a Store.
type Settings struct {
	// Path of the database; empty means that nothing is kept.
	Path string
	// Retention is how many days are kept, today included.
	Retention int
	Registry  prometheus.Registerer
	Logger    *slog.Logger
}

// row names what is counted together.
type row struct{ day, key, model string }

// maxRows bounds what waits to be written. Rows come from closed sets, so that
// only a database that cannot be written for days reaches it.
const maxRows = 10_000

// Store counts. Create it with New; Add and Today never wait for the database,
// and are safe for concurrent use. A nil Store counts nothing.
type Store struct {
	Settings

	metrics *metrics
	dirty   chan struct{} // holds a token when rows wait to be written
	db      *sql.DB       // belongs to Load, and then to Run; nil until it could be opened
	failing bool          // likewise: the last write has failed, and that was logged

	mu      sync.Mutex
	waiting map[row]Counts   // not in the database yet, or in writing
	day     string           // of written
	written map[string]int64 // tokens of each key on that day, whoever wrote them
	full    bool             // a row was dropped, and that was logged
}

// New builds a store and registers its metrics. It opens nothing: see Load.
func New(s Settings) *Store {
	return &Store{
		Settings: s, metrics: newMetrics(s.Registry), dirty: make(chan struct{}, 1),
		waiting: map[row]Counts{}, written: map[string]int64{},
	}
}

// today is the day on which something that happens now is counted.
func today() string { return dayOf(time.Now()) }

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Add counts what a request of that key and model has used. Both names must be
// from closed sets: they are labels of metrics.
func (s *Store) Add(key, model string, c Counts) {
	if s == nil {
		return
	}
	s.metrics.add(key, model, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := row{today(), key, model}
	if _, known := s.waiting[r]; !known && len(s.waiting) >= maxRows {
		s.drop(c)
		return
	}
	s.waiting[r] = s.waiting[r].plus(c)
	s.touch()
}

func (s *Store) drop(c Counts) {
	s.metrics.dropped.Add(float64(c.Requests))
	if !s.full {
		s.Logger.Error("usage is lost, as the usage database cannot be written", "error", "too much waits")
	}
	s.full = true
}

// Today is how many tokens the key has used on this day. What another process
// has counted is in it after the next write.
func (s *Store) Today(key string) int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	day, n := today(), int64(0)
	if s.day == day {
		n = s.written[key]
	}
	for r, c := range s.waiting {
		if r.day == day && r.key == key {
			n += c.Tokens()
		}
	}
	return n
}
