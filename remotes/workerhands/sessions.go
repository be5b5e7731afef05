package workerhands

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/proxy/turn"
	"codex-proxy/runner/client"
	"codex-proxy/workers/codexhome"
)

// Options configures Sessions.
type Options struct {
	Worker string
	Dir    string // of the records, of which each session has a directory
	Hands  *codexhome.Hands
	Client *client.Client // of codex-runner
	// Program is the worker's codex, as a session sees it.
	Program func() (string, error)
	// Send makes a directory known to codex-runner, see hands.Options.
	Send   func(ctx context.Context, dir, ref string) (repository, commit string, err error)
	Logger *slog.Logger
}

// Sessions are the sessions of a worker. Their methods are safe for concurrent use.
type Sessions struct {
	Options

	base    context.Context // of the tasks, which outlive a request; it ends with Run
	tasks   sync.WaitGroup
	changed chan struct{} // has a token when a session may be due
	rest    time.Duration // restAfter, but in tests
	// write is the function of that name, but in tests. No caller holds mu, for which the watchdog asks.
	write func(dir string, r record) error

	mu   sync.Mutex
	all  map[string]*session // by idOf
	over bool                // Run ends
}

const (
	// restAfter is how long the exec-server of a session runs on after the last turn: it takes one of the places of
	// codex-runner.
	restAfter = time.Minute
	// retryFull is when a client may try again to get a session.
	retryFull = time.Minute
)

// New reads the records of an earlier process. ctx ends with Run.
func New(ctx context.Context, o Options) (*Sessions, error) {
	s := &Sessions{Options: o, base: ctx, changed: make(chan struct{}, 1), rest: restAfter, write: write,
		all: map[string]*session{}}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the records of sessions: %w", err)
	}
	for _, entry := range entries {
		dir := filepath.Join(o.Dir, entry.Name())
		one, err := readSession(dir)
		if err == nil && entry.Name() == idOf(one.Key, one.Name) {
			s.all[entry.Name()] = one
			continue
		}
		o.Logger.Warn("the record of a session is lost", "file", dir, "error", err)
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// enter waits until the session of a conversation serves. It makes a missing session, or with there returns an
// error. The turn has the session until leave.
func (s *Sessions) enter(ctx context.Context, q question, there bool) (one *session, leave func(), err error) {
	if one, err = s.hold(ctx, q, there); err != nil {
		return nil, nil, err
	}
	leave = sync.OnceFunc(func() { s.leave(one) })
	if err = s.serve(ctx, one); err != nil {
		leave()
		return nil, nil, err
	}
	return one, leave, nil
}

// hold makes a turn a user of a session, which does not end then. One that is about to end makes way for the next one.
func (s *Sessions) hold(ctx context.Context, q question, there bool) (*session, error) {
	for {
		s.mu.Lock()
		one, err := s.find(q, there)
		if err == nil && (one.change == nil || one.change.kind != finishing) {
			one.users++
		}
		var ends *change
		if err == nil && one.change != nil && one.change.kind == finishing {
			ends = one.change
		}
		s.mu.Unlock()
		if ends == nil {
			return one, err
		}
		if err := await(ctx, ends); err != nil {
			return nil, err
		}
	}
}

// serve waits until the exec-server of a session runs, which it starts if that rests. The caller holds the session.
func (s *Sessions) serve(ctx context.Context, one *session) error {
	for {
		s.mu.Lock()
		c, over, ended := one.change, s.over, s.all[filepath.Base(one.dir)] != one
		if c == nil && one.hands == nil && !over && !ended {
			c = s.begin(one, opening, lifecycle{s}.open)
		}
		s.mu.Unlock()
		switch {
		case over:
			return errOver
		case ended:
			return unavailable("the session has ended; send the request again")
		case c == nil:
			return nil
		}
		if err := await(ctx, c); err != nil {
			return err
		}
	}
}

// await waits for the end of a change, and returns its error.
func await(ctx context.Context, c *change) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns the session, or a new one within the bounds. The caller holds the lock.
func (s *Sessions) find(q question, there bool) (*session, error) {
	id := idOf(q.Key, q.Name)
	if one := s.all[id]; one != nil {
		return one, nil
	}
	if there {
		return nil, &turn.HandsError{Code: noSession, Words: fmt.Sprintf("there is no session %q", q.Name)}
	}
	if s.over {
		return nil, errOver
	}
	ofKey, slots := 0, make([]bool, s.Hands.Sessions)
	for _, one := range s.all {
		if one.Key == q.Key {
			ofKey++
		}
		if one.Slot < len(slots) {
			slots[one.Slot] = true
		}
	}
	switch {
	case len(s.all) >= s.Hands.Sessions:
		return nil, full(turn.HandsFull, fmt.Sprintf("the worker has %d sessions, which is its bound "+
			"(hands.sessions); end one by DELETE /v1/hands/NAME, or wait until one was idle for %s",
			len(s.all), s.Hands.Idle))
	case ofKey >= s.Hands.KeySessions:
		return nil, full(turn.HandsOfKeyFull, fmt.Sprintf("this API key has %d sessions, which is its bound "+
			"(hands.key_sessions); end one by DELETE /v1/hands/NAME, or wait until one was idle for %s",
			ofKey, s.Hands.Idle))
	}
	slot := 0
	for slot < len(slots)-1 && slots[slot] {
		slot++
	}
	one := &session{record: record{Key: q.Key, Name: q.Name, OfTurn: q.OfTurn, Slot: slot},
		dir: filepath.Join(s.Dir, id), used: time.Now()}
	s.all[id] = one
	return one, nil
}

// errOver is the error of a turn while Run ends.
var errOver = unavailable("the hands of the worker stop; send the request again")

func full(code turn.HandsCode, words string) error {
	return &turn.HandsError{Code: code, Words: words, Retry: retryFull}
}

func unavailable(words string) error {
	return &turn.HandsError{Code: turn.HandsUnavailable, Words: words, Retry: 5 * time.Second}
}

// begin begins a change of a session. The caller holds the lock.
func (s *Sessions) begin(one *session, kind changeKind, do func(context.Context, *session) error) *change {
	c := &change{kind: kind, done: make(chan struct{})}
	one.change = c
	s.tasks.Go(func() {
		err := do(s.base, one)
		s.mu.Lock()
		defer s.mu.Unlock()
		one.change = nil
		switch {
		case kind == opening:
			c.err, one.used = err, time.Now()
		case err != nil:
			s.Logger.Warn("hands do not end", "key", one.Key, "conversation", one.Name, "error", err)
		}
		close(c.done)
		s.nudge()
	})
	return c
}

// nudge wakes Run, which ends the sessions that are due.
func (s *Sessions) nudge() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// leave ends the use of a session by a turn.
func (s *Sessions) leave(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.users--
	one.used = time.Now()
	s.nudge()
}

func (s *session) place() place {
	return place{Environment: fmt.Sprintf("hands-%d", s.Slot), URL: "ws://" + paths.HandsAddress + "/" + s.Run,
		Token: s.Token, Checkout: s.checkouts, New: s.checkouts > s.told}
}
