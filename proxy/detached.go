package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
)

// detached counts the exchanges that go on without a client.
type detached struct {
	changed chan struct{} // holds a token after the end of one

	mu      sync.Mutex
	running int
}

func (d *detached) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running += n
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *detached) left() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running
}

// await waits until none is left, or returns why ctx ended.
func (d *detached) await(ctx context.Context) error {
	for {
		left := d.left()
		if left == 0 {
			return nil
		}
		select {
		case <-d.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d background responses have not ended: %w", left, context.Cause(ctx))
		}
	}
}

// Detach begins an exchange that makes the background response with that id, for which the request of x asks. It takes
// over the grant of x; x gets a new one. run runs on a goroutine of its own, until which ctx does not end but by Abort.
// A stop of the service waits for it, as for a request, until run calls answered.
func (s *Server) Detach(x *Exchange, response string, run func(ctx context.Context, own *Exchange, answered func())) {
	own := &Exchange{
		Key: x.Key, Accounts: x.Accounts, Session: x.Session, HistoryField: x.HistoryField, Grant: x.Grant,
		Record: Record{
			ID: x.ID, Began: x.Began, Route: x.Route, Model: x.Model, Outcome: "ok", Response: response,
			Span: s.Traces.Within(x.Span),
		},
	}
	x.Grant = s.Limiter.Grant(x.Key, s.Memory)
	ended := sync.OnceFunc(s.Connections.BeginMessage(x.Began))
	s.detached.add(1)
	go func() {
		defer s.detached.add(-1)
		defer ended()
		defer s.endDetached(own)
		defer recoverDetached(own, s.Logger)
		run(s.base, own, ended)
	}()
}

// recoverDetached keeps a panic within its exchange.
func recoverDetached(x *Exchange, logger *slog.Logger) {
	if p := recover(); p != nil {
		logger.Error("panic in a request", "request_id", x.ID, "panic", p, "stack", string(debug.Stack()))
		x.Outcome = "internal_error"
	}
}

// endDetached settles an exchange, and writes its log line, metrics and span.
func (s *Server) endDetached(x *Exchange) {
	x.Grant.Release()
	x.Settle()
	s.metrics.count(x)
	endSpan(http.MethodPost, x)
	attrs := append([]slog.Attr{slog.String("request_id", x.ID), slog.String("response_id", x.Response)}, common(x)...)
	s.Logger.LogAttrs(context.Background(), levelOf(x), "background response", attrs...)
	s.ended(http.MethodPost, x)
}
