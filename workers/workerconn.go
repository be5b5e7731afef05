package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/internal/fault"
	"codex-proxy/workers/login"
)

// workerConn runs in addition to the turns on one connection, from its handshake to
// its end.
type workerConn struct {
	worker    *Worker
	conn      *appserver.Conn
	connector *connector
	began     time.Time

	tasks     sync.WaitGroup // they end with the connection
	examining atomic.Bool
}

// errStopping ends the connection to a worker that is being stopped.
var errStopping = errors.New("the worker is being stopped, and its last turn has ended")

// run blocks until the connection has ended and marks it lost at once. Its loop
// makes no call that may block: systemd can take seconds to answer.
func (s *workerConn) run(ctx context.Context) {
	w := s.worker
	defer w.update(func(s *state) { s.disconnected(time.Now()) })
	healthy := time.NewTimer(w.settings.ResetAfter)
	defer healthy.Stop()
	reset, refusal := make(chan error, 1), slog.LevelWarn
	s.tasks.Go(func() { s.closeWhenStopped(ctx) })
	session := w.reader.Begin(s.conn, s.began, &s.tasks)
	if socket := loginSocket(w); socket != "" {
		session.Ask(login.Account{Socket: socket})
	}
	account := time.NewTimer(0)
	defer account.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.conn.Done():
			return
		case <-healthy.C:
			s.tasks.Go(func() { reset <- w.resetRestartDelay(ctx) })
		case err := <-reset:
			if err != nil && ctx.Err() == nil { // systemd may just be busy, or the bus away
				w.logger.Log(ctx, refusal,
					"cannot reset the restart delay; is the polkit rule of codex-proxy installed?", "error", err)
				refusal = slog.LevelDebug // once a connection
				healthy.Reset(w.settings.ResetAfter)
			}
		case suspect := <-s.connector.suspects:
			if suspect == s.conn && s.examining.CompareAndSwap(false, true) {
				s.tasks.Go(func() { defer s.examining.Store(false); s.examine(ctx) })
			}
		case <-account.C:
			session.ReadDue(ctx, account)
		case <-w.reader.Due():
			session.ReadDue(ctx, account)
		case <-s.connector.beat:
			fault.Point("worker")
		}
	}
}

// closeWhenStopped closes the connection to a worker that is being stopped when its
// last turn has ended. The worker's shim may wait for that.
func (s *workerConn) closeWhenStopped(ctx context.Context) {
	for {
		now, changed := s.worker.view()
		if now.unit.ActiveState == "deactivating" && now.unit.SubState == "stop-sigterm" &&
			now.inflight == 0 && now.bus == busCurrent {
			s.conn.Close(errStopping)
			return
		}
		select {
		case <-changed:
		case <-s.conn.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// resetRestartDelay resets systemd's next restart delay to the shortest one.
// systemd never does this by itself while a unit runs.
func (w *Worker) resetRestartDelay(ctx context.Context) error {
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
