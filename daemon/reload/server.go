package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// acceptPause follows a request for a reload that could not be accepted.
const acceptPause = time.Second

// Server answers `codex-proxy reload`, one at a time. A connection is the request.
// The answer is a line with the time that the reload may take, and then a line with the
// verdict: "ok", or the reason of the failure.
type Server struct {
	Requests chan<- chan<- error
	Limit    time.Duration // of one reload
	Logger   *slog.Logger
}

// Run answers requests on l until ctx ends or a successor serves.
func (s Server) Run(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			if s.answer(ctx, conn) {
				return nil // the next one is the successor's
			}
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return nil
		default: // such as too many open files, which ends no request either
			s.Logger.Warn("cannot accept reloads", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

// answer reports whether a successor serves now.
func (s Server) answer(ctx context.Context, conn net.Conn) (replaced bool) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(s.Limit))
	fmt.Fprintln(conn, s.Limit)
	verdict := make(chan error, 1)
	select {
	case s.Requests <- verdict:
	case <-ctx.Done():
		fmt.Fprintln(conn, "the service is stopping")
		return false
	}
	if err := <-verdict; err != nil {
		fmt.Fprintln(conn, err)
		return false
	}
	fmt.Fprintln(conn, "ok")
	return true
}
