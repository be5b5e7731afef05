// Package turn runs one turn of the model on a worker. It acquires a place on a
// worker, starts the turn, reads its events to the end, runs it again if it was lost
// before the client received any output of the model, or on another account if it was
// refused for quota until then, and keeps its thread for a request that continues the
// conversation. The package knows neither HTTP nor the wire of an API: a
// Sink receives the events of the turn.
package turn

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/traces"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

// StartTimeout bounds the three calls that start a turn.
const StartTimeout = 30 * time.Second

// Settings is the configuration of a Runner. All durations must be positive.
type Settings struct {
	// Pool has the workers.
	Pool *workers.Pool
	// IdleTimeout is the longest silence of a worker during a turn.
	IdleTimeout time.Duration
	// Keepalive is the time without output after which Sink.Silence is called.
	Keepalive time.Duration
	// StartTimeout replaces the constant in tests; 0 keeps the constant.
	StartTimeout time.Duration
	// ThreadCache is the number of threads of answered requests that are kept for
	// requests that continue them; 0 turns that off.
	ThreadCache int
	// Hands has the sessions of workers with [hands]; nil: no worker has any.
	Hands Hands
	// Codexes judges the codex of each worker by its turns; nil: nothing does.
	Codexes Codexes
	// Brokered reports whether a broker sends the requests of the worker to the model endpoint; nil: of none.
	Brokered func(worker string) bool
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Codexes judges the codex of a worker.
type Codexes interface {
	// Ended takes over the end of a turn of a request, which a number of this process identifies; fault is that of
	// codex itself, empty if there is none. crash is the same for all turns that were lost in one end of codex; nil:
	// the fault is of this turn alone.
	Ended(worker string, request int64, fault string, crash any)
	// OnProbation reports whether the worker runs a codex that is new.
	OnProbation(worker string) bool
}

// Runner runs turns. Create it with New; it is safe for concurrent use.
type Runner struct {
	Settings

	threads *threads
	metrics *metrics
	store   *accounts.Store // of Pool
	rotates bool            // by the policy of the store
}

// New creates a runner and registers its metrics.
func New(settings Settings) *Runner {
	if settings.StartTimeout == 0 {
		settings.StartTimeout = StartTimeout
	}
	store := settings.Pool.AccountStore()
	return &Runner{Settings: settings, threads: newThreads(settings.ThreadCache),
		metrics: newMetrics(settings.Registry, settings.Pool.Names()), store: store, rotates: store.Policy().On()}
}

// Request is one turn that a client requests.
type Request struct {
	ID      string    // of the client's request
	Key     string    // name of its API key, or empty
	Arrived time.Time // of the client's request
	Name    string    // of the model, as the client wrote it

	// Turn is the request to codex. Run takes it over, and empties it at Attempt.Commit.
	Turn *appserver.TurnRequest
	// CacheKey is the request's prompt_cache_key; empty: the beginning of the turn identifies its conversation.
	CacheKey string
	// Opening are the instructions with which the conversation began; nil: Turn has them.
	Opening *string
	// Prefer names a worker; empty prefers the worker that has the conversation's thread.
	Prefer string
	// Accounts are the only workers that may run the turn; nil: all may.
	Accounts []string
	// Session is the name of the session in which a worker with hands executes commands; empty: one of this turn alone.
	// Accounts has one worker then. WithoutHands has codex execute none.
	Session      string
	WithoutHands bool
	// Decoding is the number of bytes that codex needs to decode the images of the turn.
	Decoding int64
	// Fit returns the items that fit a worker; nil: all do.
	Fit func(worker string, items []history.Item) []history.Item
	// Reasoning delivers the summary of the model's reasoning to the sink.
	Reasoning bool
	// FirstSilence is how long after the start of a turn Sink.Silence is called if nothing was delivered until then,
	// whether BreakSilence is set or not; 0: it is not.
	FirstSilence time.Duration
	// BreakSilence lets the sink break later silences.
	BreakSilence bool
	// Starts has room for one turn. Turns with the same channel start one after
	// another; nil: at the same time.
	Starts chan struct{}

	Span   *traces.Span // of the client's request; nil: it is not traced
	Report *Report      // is filled by Run; nil: not wanted
}

// Report is the use of a turn, all attempts together. It belongs to the goroutine of Run until Run returns.
type Report struct {
	Worker   string // of the last attempt; empty before the first
	Thread   string // codex's id, of the last attempt
	Attempts int    // turns that began on a worker
	// Session is the name of the session of the hands; NewSession means that it had just begun.
	Session    string
	NewSession bool
	Queued     time.Duration    // waiting for a place on a worker
	Usage      *appserver.Usage // tokens of the last attempt; nil: codex reported none
	// FirstText is when the last attempt had the first text of the model; zero: there was none.
	FirstText time.Time
	Parts     []Part // the turns that were added; none: the report is of one turn
}

// Part is the worker of one of several turns of a request, and the tokens of its last
// attempt there.
type Part struct {
	Worker string
	Usage  *appserver.Usage
	Thread string
}

// Threads are codex's ids of the threads of the last attempts.
func (r *Report) Threads() (all []string) {
	if r.Thread != "" && len(r.Parts) == 0 {
		return []string{r.Thread}
	}
	for _, part := range r.Parts {
		if part.Thread != "" {
			all = append(all, part.Thread)
		}
	}
	return all
}

// Add adds the report of another turn of the same request.
func (r *Report) Add(o Report) {
	if r.Thread == "" {
		r.Worker, r.Thread = o.Worker, o.Thread
	}
	if o.Worker != "" {
		r.Parts = append(r.Parts, Part{o.Worker, o.Usage, o.Thread})
	}
	if r.FirstText.IsZero() || !o.FirstText.IsZero() && o.FirstText.Before(r.FirstText) {
		r.FirstText = o.FirstText
	}
	r.Attempts += o.Attempts
	r.Session, r.NewSession = cmp.Or(r.Session, o.Session), r.NewSession || o.NewSession
	r.Queued = max(r.Queued, o.Queued)
	switch {
	case r.Usage == nil:
		r.Usage = o.Usage
	case o.Usage != nil:
		sum := r.Usage.Plus(*o.Usage)
		r.Usage = &sum
	}
}

// Sink receives a turn. Run calls its methods from its own goroutine; an error of a
// method ends the turn with that error, and ErrEnough ends it well.
type Sink interface {
	// Begin starts an attempt. The events of the attempt before are void.
	Begin(*Attempt)
	// Reserve is called before so many bytes of output are delivered.
	Reserve(ctx context.Context, bytes int) error
	// Text delivers a piece of a message.
	Text(item, delta string) error
	// Reasoning delivers a piece of a part of a summary, if Request.Reasoning is set.
	Reasoning(item string, part int, delta string) error
	// Item delivers a finished item of the model's output.
	Item(appserver.ResponseItem) error
	// Flush is called when no further event has arrived yet.
	Flush() error
	// Silence is called when nothing was delivered for Request.FirstSilence, and each time
	// nothing was delivered for Settings.Keepalive, also in the queue before the first
	// Begin, if Request.BreakSilence is set.
	Silence() error
	// Finish ends the answer. The turn is closed after it: the client does not wait
	// for the worker's confirmation.
	Finish(context.Context, Finish) error
	// Fail ends the answer after an error, possibly before the first Begin. It returns the error of Run: err itself,
	// unless the sink answered it.
	Fail(ctx context.Context, err error) error
}

// Attempt is one run of a turn on a worker.
type Attempt struct {
	Number int // from 1
	Worker string

	run *run
}

// Commit must be called before any output of the model is sent to the client. The turn
// does not run again after that, and the items of the request are released. The header of
// a stream, its comments and the events before the first output need no Commit.
func (a *Attempt) Commit() {
	if !a.run.output.committed {
		a.run.estimate.commit(a.run.Turn, a.run.Decoding > 0)
	}
	a.run.output.committed = true
	*a.run.Turn, a.run.Fit = appserver.TurnRequest{}, nil // Fit knows items, too
}

// Finish is how a turn ended that did not fail.
type Finish int

// The ends of a turn.
const (
	Stop          Finish = iota // the model has finished
	ToolCalls                   // it called tools of the client
	Length                      // the model endpoint cut it short at a limit on tokens
	ContentFilter               // or for its content
	Enough                      // the sink ended it with ErrEnough
)
