// Package usage counts the tokens and requests of each API key, model, account and day
// (UTC): in metrics, in memory for limits, and in a database that survives. It holds names and
// numbers, never the content of a request.
package usage

import (
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/steady"
)

// Counts are the use of requests, as the workers reported it.
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

// Share is the part of a request's use that one account served.
type Share struct {
	Account string // the name of its worker; empty: none is known
	Counts
}

// Total is the use of all shares together.
func Total(shares []Share) Counts {
	var sum Counts
	for _, s := range shares {
		sum = sum.plus(s.Counts)
	}
	return sum
}

// Settings of a Store.
type Settings struct {
	// Path of the database; empty: no database.
	Path string
	// Retention is how many days are kept, today included.
	Retention int
	// Shared records for an Outbox the rows that other hosts do not know of yet.
	Shared   bool
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// row names one line of the database: its requests are counted together.
type row struct{ hour, day, key, model, account string }

// maxRows bounds the rows that wait to be written. Rows have values of closed sets, so only a database that cannot be
// written for days reaches it.
const maxRows = 10_000

// Store counts. Create it with New; Add and Today never wait for the database,
// and are safe for concurrent use. A nil Store counts nothing.
type Store struct {
	Settings

	metrics *metrics
	clock   steady.Clock  // by which usage is old
	dirty   chan struct{} // holds a token when rows wait to be written
	db      *sql.DB       // belongs to Load, and then to Run; nil until it could be opened
	failing bool          // belongs to Load and Run, too: the last write has failed, and that was logged

	mu      sync.Mutex
	waiting map[row]Counts   // not in the database yet, or being written
	day     string           // of written
	written map[string]int64 // tokens of each key on that day, of all processes
	full    bool             // a row was dropped, and that was logged
}

// New builds a store and registers its metrics. Load opens the database.
func New(s Settings) *Store {
	return &Store{
		Settings: s, metrics: newMetrics(s.Registry), dirty: make(chan struct{}, 1),
		waiting: map[row]Counts{}, written: map[string]int64{},
	}
}

// today is the day on which usage counts now.
func today() string { return dayOf(time.Now()) }

func hourOf(t time.Time) string { return t.UTC().Format("2006-01-02T15") }

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Add counts the use of a request of that key and model. All names must be from closed
// sets: they are labels of metrics.
func (s *Store) Add(key, model string, shares ...Share) {
	if s == nil {
		return
	}
	s.metrics.add(key, model, shares)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, share := range shares {
		s.add(row{hourOf(now), dayOf(now), key, model, share.Account}, share.Counts)
	}
}

// add is called under the lock.
func (s *Store) add(r row, c Counts) {
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

// Today is how many tokens the key has used on this day. It has the counts of other
// processes after the next write.
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
