package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/fault"
)

// Run keeps a connection to the worker whenever systemd calls its unit active,
// until ctx ends; then it returns nil.
func (w *Worker) Run(ctx context.Context) error {
	for w.awaitDialable(ctx) {
		if err := w.session(ctx); err != nil && ctx.Err() == nil {
			w.settings.Logger.Log(ctx, lossLevel(err), "worker connection ended", "worker", w.name, "unit", w.unit, "error", err)
		}
	}
	return nil
}

// lossLevel keeps the plain end of a worker out of the journal: what systemd
// says of it a moment later tells more.
func lossLevel(err error) slog.Level {
	if errors.Is(err, io.EOF) || errors.Is(err, errLeft) || errors.Is(err, errWedged) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// Alive returns nil when Run's loop has answered and the connection's is not
// stuck. It says nothing of the worker itself: the loop answers while a hung
// worker is waited for, but not once that wait has outlived HandshakeTimeout.
func (w *Worker) Alive(ctx context.Context) error {
	select {
	case w.alive <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the loop of worker %s does not answer: %w", w.name, ctx.Err())
	}
	s, _ := w.view()
	if s.conn == nil {
		return nil
	}
	if err := s.conn.Alive(w.settings.HandshakeTimeout); err != nil {
		return fmt.Errorf("the connection of worker %s: %w", w.name, err)
	}
	return nil
}

// awaitDialable blocks until the worker may be dialled; false means that ctx ended.
func (w *Worker) awaitDialable(ctx context.Context) bool {
	for {
		s, changed := w.view()
		var due <-chan time.Time
		switch wait := time.Until(s.dialAfter); {
		case !s.mayDial() && !w.runs(&s):
			if s.unasked() {
				due = time.After(maxDialPause) // no event reports when its unit starts
			}
		case wait <= 0:
			return ctx.Err() == nil
		default:
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-due:
		case <-w.alive:
		}
	}
}

// runs reports whether a worker of which systemd cannot be asked runs all the same, so
// that connecting starts nothing. It is for the first connection: what was lost since
// may be on its way out.
func (w *Worker) runs(s *state) bool {
	return s.unasked() && w.settings.Runs != nil && w.settings.Runs(w.name)
}

// session is the life of one connection. Its goroutines end with it.
func (w *Worker) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	greeting, stop := context.WithTimeout(ctx, w.settings.HandshakeTimeout)
	defer stop()
	conn, err := w.dial(greeting)
	if err != nil {
		w.update(func(s *state) { s.dialFailed(err, time.Now()) })
		return err
	}
	var g sync.WaitGroup
	g.Go(func() { _ = conn.Run(ctx) }) // what it returns is conn.Err, unless we have ended it
	if w.greet(greeting, conn) {
		w.awaitLoss(ctx, conn, &g)
	}
	// The order matters: whoever sees the connection closed must already find
	// the worker not ready.
	cancel()
	conn.Close(errSessionEnded)
	w.annotator.disconnect()
	g.Wait()
	w.account.forget()
	return conn.Err()
}

var (
	errSessionEnded = errors.New("the proxy closes the connection")
	// errLeft is of a worker that is being stopped.
	errLeft = errors.New("the worker is being stopped, and its last turn has ended")
)

func (w *Worker) dial(ctx context.Context) (conn *appserver.Conn, err error) {
	err = w.meanwhile(ctx, func() (err error) {
		options := w.settings.Client
		options.OnNotification = w.account.notified
		conn, err = appserver.Dial(ctx, w.socket, options)
		return err
	})
	return conn, err
}

// greet shakes hands; false means that this failed and the connection is closed.
func (w *Worker) greet(ctx context.Context, conn *appserver.Conn) bool {
	var h *probes.Handshake
	var models []appserver.Model
	err := w.meanwhile(ctx, func() (err error) {
		h, models, err = w.shakeHands(ctx, conn)
		return err
	})
	if err != nil {
		conn.Close(err)
		w.update(func(s *state) { s.dialFailed(err, time.Now()) })
		return false
	}
	w.annotator.connect(w.socket) // before the first turn
	w.update(func(s *state) { s.connected(conn, h, models) })
	w.settings.Logger.Debug("worker connected", "worker", w.name, "unit", w.unit, "user_agent", h.UserAgent)
	return true
}

// meanwhile runs task and answers Alive until ctx, which must bound the task,
// ends. A task that outlives it is a loop that is stuck.
func (w *Worker) meanwhile(ctx context.Context, task func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- task() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return <-ended
		case <-w.alive:
		}
	}
}

func (w *Worker) shakeHands(ctx context.Context, conn *appserver.Conn) (*probes.Handshake, []appserver.Model, error) {
	answer, err := conn.Initialize(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot shake hands with worker %s: %w", w.name, err)
	}
	models, err := conn.Models(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("worker %s: %w", w.name, err)
	}
	return &probes.Handshake{At: time.Now(), UserAgent: answer.UserAgent, Models: listed(models)}, models, nil
}

// listed are the ids of the models that are not hidden.
func listed(models []appserver.Model) []string {
	ids := []string{}
	for _, m := range models {
		if !m.Hidden {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// awaitLoss blocks until the connection has ended and marks it lost at once.
// Nothing else may hold it up: systemd can take seconds to answer.
func (w *Worker) awaitLoss(ctx context.Context, conn *appserver.Conn, g *sync.WaitGroup) {
	defer w.update(func(s *state) { s.disconnected(time.Now()) })
	healthy := time.NewTimer(w.settings.ResetAfter)
	defer healthy.Stop()
	reset, refusal := make(chan error, 1), slog.LevelWarn
	g.Go(func() { w.leave(ctx, conn) })
	var examining atomic.Bool
	account := time.NewTimer(0)
	defer account.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-conn.Done():
			return
		case <-healthy.C:
			g.Go(func() { reset <- w.resetRamp(ctx) })
		case err := <-reset:
			if err != nil && ctx.Err() == nil { // systemd may just be busy, or the bus away
				w.settings.Logger.Log(ctx, refusal, "cannot reset the restart delay; is the polkit rule of codex-proxy installed?",
					"worker", w.name, "unit", w.unit, "error", err)
				refusal = slog.LevelDebug // once a connection
				healthy.Reset(w.settings.ResetAfter)
			}
		case suspect := <-w.suspects:
			if suspect == conn && examining.CompareAndSwap(false, true) {
				g.Go(func() { defer examining.Store(false); w.examine(ctx, conn) })
			}
		case <-account.C:
			g.Go(func() { w.readAccount(ctx, conn) })
			account.Reset(accountInterval)
		case <-w.alive:
			fault.Point("worker")
		}
	}
}

// leave ends the connection to a worker that is being stopped when its last turn has
// ended, for which its shim may wait.
func (w *Worker) leave(ctx context.Context, conn *appserver.Conn) {
	for {
		s, changed := w.view()
		if s.unit.ActiveState == "deactivating" && s.unit.SubState == "stop-sigterm" &&
			s.inflight == 0 && s.bus == busCurrent {
			conn.Close(errLeft)
			return
		}
		select {
		case <-changed:
		case <-conn.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// resetRamp makes systemd's next restart delay the first of the ramp again.
// systemd never does so by itself while a unit runs.
func (w *Worker) resetRamp(ctx context.Context) error {
	s, _ := w.view()
	if s.failures == 0 && s.unit.NRestarts == 0 {
		return nil
	}
	w.update((*state).healthy)
	if w.settings.ResetFailed == nil || s.bus == busNone {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.settings.HandshakeTimeout)
	defer cancel()
	return w.settings.ResetFailed(ctx, w.unit)
}
