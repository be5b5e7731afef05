package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
	"codex-proxy/workers/sharing"
)

// connector keeps a connection to one worker. Its methods but alive are for the
// goroutine of run.
type connector struct {
	worker   *Worker
	beat     chan struct{}        // a receive by run's loop proves that it is not stuck
	suspects chan *appserver.Conn // capacity 1: a turn on it had no message for too long
	unserved bool                 // the last attempt ended with a notServedError
}

func newConnector(w *Worker) connector {
	return connector{worker: w, beat: make(chan struct{}), suspects: make(chan *appserver.Conn, 1)}
}

// run keeps a connection to the worker whenever systemd reports its unit active,
// until ctx ends.
func (c *connector) run(ctx context.Context) {
	for c.awaitDialable(ctx) {
		err := c.connect(ctx)
		var unserved *notServedError
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &unserved) && c.unserved: // it is tried again until then
		default:
			c.worker.logger.Log(ctx, lossLevel(err), "worker connection ended", "error", err)
		}
		c.unserved = unserved != nil
	}
}

// lossLevel keeps the plain end of a worker out of the journal: systemd reports it a
// moment later, with more detail.
func lossLevel(err error) slog.Level {
	if errors.Is(err, io.EOF) || errors.Is(err, errStopping) || errors.Is(err, errWedged) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// alive returns nil when run's loop has answered and the connection's is not
// stuck. It does not depend on the worker's health: the loop answers while it
// waits for a hung worker, but not once that wait has outlived HandshakeTimeout.
func (c *connector) alive(ctx context.Context) error {
	w := c.worker
	select {
	case c.beat <- struct{}{}:
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
func (c *connector) awaitDialable(ctx context.Context) bool {
	for {
		s, changed := c.worker.view()
		var due <-chan time.Time
		switch wait, kick := time.Until(s.dialAfter), time.Until(s.standby.kickAfter); {
		case s.mayKick() && kick <= 0:
			c.kick(ctx)
			continue
		case s.mayKick():
			due = time.After(kick)
		case s.standby.rests(s.unit.InvocationID) && s.unit.Active() && time.Until(s.standby.restBy) > 0:
			due = time.After(time.Until(s.standby.restBy))
		case s.standby.rests(s.unit.InvocationID) && s.unit.Active():
			c.worker.cannotRest()
			continue
		case !s.mayDial() && !c.unitRuns(&s):
			if s.neverReported() {
				due = time.After(maxDialPause) // no event reports the start of its unit
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
		case <-c.beat:
		}
	}
}

// unitRuns reports whether the worker runs although systemd has never reported its
// unit, so that connecting starts nothing. It serves the first connection only: a
// worker that was lost since may be ending.
func (c *connector) unitRuns(s *state) bool {
	runs := c.worker.settings.Runs
	return s.neverReported() && runs != nil && runs(c.worker.host)
}

// connect runs one connection until it ends.
func (c *connector) connect(ctx context.Context) error {
	w := c.worker
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	greeting, stop := context.WithTimeout(ctx, w.settings.HandshakeTimeout)
	defer stop()
	conn, err := c.dial(greeting)
	if err != nil {
		w.update(func(s *state) { s.dialFailed(err, time.Now()) })
		return err
	}
	s := &workerConn{worker: w, conn: conn, connector: c, began: time.Now()}
	s.tasks.Go(func() { _ = conn.Run(ctx) }) // conn.Err has its error, unless this process ends it
	if c.greet(greeting, conn) {
		s.run(ctx)
	}
	// The order matters: a request that sees the connection closed must already
	// find the worker not ready.
	cancel()
	conn.Close(errSessionEnded)
	w.annotator.Disconnect()
	s.tasks.Wait()
	w.reader.End()
	return conn.Err()
}

var errSessionEnded = errors.New("the proxy closes the connection")

func (c *connector) dial(ctx context.Context) (conn *appserver.Conn, err error) {
	options, err := optionsOf(c.worker)
	if err != nil {
		return nil, err
	}
	err = c.answering(ctx, func() (err error) {
		conn, err = appserver.Dial(ctx, c.worker.socket, options)
		return err
	})
	return conn, err
}

// greet makes the handshake; false means that it failed and the connection is closed.
func (c *connector) greet(ctx context.Context, conn *appserver.Conn) bool {
	w := c.worker
	var h *probes.Handshake
	var models []appserver.Model
	err := c.answering(ctx, func() (err error) {
		h, models, err = handshake(ctx, w.name, conn)
		return err
	})
	if err != nil {
		conn.Close(err)
		w.update(func(s *state) { s.dialFailed(err, time.Now()) })
		return false
	}
	w.annotator.Connect(w.socket) // before the first turn
	w.update(func(s *state) {
		s.wedge = wedge{}
		s.standby.wantedAt = time.Time{}
		s.connected(conn, h, models)
	})
	w.logger.Debug("worker connected", "user_agent", h.UserAgent)
	return true
}

// answering runs task and answers alive until ctx, which must bound the task, ends.
// A task that outlives ctx is a loop that is stuck.
func (c *connector) answering(ctx context.Context, task func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- task() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return <-ended
		case <-c.beat:
		}
	}
}

func handshake(ctx context.Context, worker string, conn *appserver.Conn) (*probes.Handshake, []appserver.Model, error) {
	answer, err := conn.Initialize(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot shake hands with worker %s: %w", worker, err)
	}
	models, err := conn.Models(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("worker %s: %w", worker, err)
	}
	return &probes.Handshake{At: time.Now(), UserAgent: answer.UserAgent, Models: listed(models)}, models, nil
}

// leastPrestart is how many threads an account has ready at least that shares its codex.
const leastPrestart = 2

// notServedError is why an account has no connection: the codex that is to serve it has started before that was known.
type notServedError struct{ account, unit string }

// Error implements error.
func (e *notServedError) Error() string {
	return fmt.Sprintf("%[1]s does not serve the account %[2]s yet: systemctl restart %[1]s", e.unit, e.account)
}

// optionsOf returns the options of a connection to the worker's codex. If that serves several accounts, each has a
// connection, and its broker reports their limits: codex does not know the account of those that it reports.
func optionsOf(w *Worker) (appserver.Options, error) {
	o := w.settings.Client
	o.OnNotification = w.reader.Notified
	var served []string
	if w.settings.Serving != nil {
		served = w.settings.Serving(w.host)
	}
	switch {
	case slices.Contains(served, w.name):
		o.OnNotification, o.ThreadConfig = nil, sharing.ThreadConfig(w.name)
		o.Prestart = min(o.Prestart, max(o.Prestart/len(served), leastPrestart))
	case w.host != w.name:
		return o, &notServedError{w.name, w.unit}
	}
	return o, nil
}
