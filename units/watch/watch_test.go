package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/units"
	"codex-proxy/units/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

var worker = units.Worker("default")

// callback is one call of OnState or OnBus.
type callback struct {
	state units.State
	isBus bool
	up    bool
	err   error
}

// running is a running watcher and its callbacks.
type running struct {
	t       *testing.T
	watcher *watch.Watcher
	calls   chan callback
	stop    func()
}

func startWatch(t *testing.T, cfg watch.Config) *running {
	t.Helper()
	w := &running{t: t, calls: make(chan callback, 10_000)}
	if cfg.OnState == nil {
		cfg.OnState = func(s units.State) { w.calls <- callback{state: s} }
	}
	cfg.OnBus = func(up bool, err error) { w.calls <- callback{isBus: true, up: up, err: err} }
	w.watcher = watch.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.watcher.Run(ctx) }()
	w.stop = func() {
		cancel()
		select {
		case err := <-done:
			assert.NoError(t, err)
			done <- nil
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	}
	t.Cleanup(w.stop)
	return w
}

func (w *running) next() callback {
	w.t.Helper()
	select {
	case x := <-w.calls:
		return x
	case <-time.After(patience):
		require.Fail(w.t, "the watcher calls nothing")
		return callback{}
	}
}

// state returns the state of the next callback, which must be OnState.
func (w *running) state() units.State {
	w.t.Helper()
	x := w.next()
	require.False(w.t, x.isBus, "OnBus instead of OnState: %v %v", x.up, x.err)
	return x.state
}

// until returns all states up to the first for which ok is true.
func (w *running) until(ok func(units.State) bool) []units.State {
	w.t.Helper()
	var states []units.State
	for {
		s := w.state()
		if states = append(states, s); ok(s) {
			return states
		}
	}
}

// untilUp returns all states until the watcher reports that the bus is up. On a busy machine
// it first reports why an attempt has failed.
func (w *running) untilUp() []units.State {
	w.t.Helper()
	var states []units.State
	for {
		x := w.next()
		switch {
		case !x.isBus:
			states = append(states, x.state)
		case x.up:
			return states
		}
	}
}

func (w *running) untilDown() error {
	w.t.Helper()
	for {
		if x := w.next(); x.isBus {
			require.False(w.t, x.up)
			return x.err
		}
	}
}

func (w *running) alive() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.watcher.Alive(ctx)
}

func status(text string) func(units.State) bool {
	return func(s units.State) bool { return s.StatusText == text }
}

func subStates(states []units.State) []string {
	var names []string
	for _, s := range states {
		name := s.ActiveState + "/" + s.SubState
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}
