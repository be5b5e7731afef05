// Package ondemand serves HTTP on a socket that systemd passes to a unit which runs
// only while it has requests.
package ondemand

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ReasonHeader has the reason why such a unit refuses, for the log of the daemon.
const ReasonHeader = "X-Codex-Reason"

// requestTimeout bounds the arrival of a request: the daemon is on the same machine.
const requestTimeout = 5 * time.Second

// Server ends when it is idle. Create it with NewServer.
type Server struct {
	http http.Server
	idle *Idle
}

// NewServer builds a server that ends after a time without a connection, unused. The
// answer to a request may take answer.
func NewServer(handler http.Handler, answer, unused time.Duration, logger *slog.Logger) *Server {
	s := &Server{idle: NewIdle(unused)}
	s.http = http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      answer + requestTimeout,
		ConnState:         s.idle.ConnState,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Run accepts until ctx ends or the server is unused, and finishes the requests it has
// accepted; then it returns nil.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.idle.Stop()
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("cannot accept: %v", err)
	case <-ctx.Done():
	case <-s.idle.Over():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.http.WriteTimeout)
	defer cancel()
	err := s.http.Shutdown(grace)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
