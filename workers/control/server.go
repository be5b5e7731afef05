package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"codex-proxy/probes"
	"codex-proxy/workers"
)

const (
	readTimeout = 5 * time.Second
	bodyLimit   = 64 << 10
)

// Server serves operators. Create it with New; its methods are safe for
// concurrent use.
type Server struct {
	pool     *workers.Pool
	report   func() probes.Report
	keys     KeyTable
	drains   DrainTable
	accounts AccountTable
	http     http.Server
	stop     context.CancelFunc // ends the requests that wait
	changes  *Changes
}

// New builds a server. report is the report that all probes share.
func New(
	pool *workers.Pool, report func() probes.Report, changes *Changes, keys KeyTable, drains DrainTable,
	accounts AccountTable, logger *slog.Logger,
) *Server {
	base, stop := context.WithCancel(context.Background())
	s := &Server{
		pool: pool, report: report, changes: changes, keys: keys, drains: drains, accounts: accounts, stop: stop,
	}
	s.http = http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       readTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s
}

// routes are the routes of the control socket. The TCP side has none of them.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/status/watch", s.watch)
	mux.HandleFunc("POST /v1/drain", s.drain)
	mux.HandleFunc("POST /v1/undrain", s.undrain)
	mux.HandleFunc("GET /v1/accounts", s.getAccounts)
	mux.HandleFunc("POST /v1/accounts", s.orderAccount)
	mux.HandleFunc("GET /v1/keys", s.getKeys)
	mux.HandleFunc("PUT /v1/keys", s.putKeys)
	return mux
}

// Serve accepts until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot accept on the control socket: %w", err)
	}
	return nil
}

// Shutdown answers the requests that wait with the current state, and closes the
// remaining connections when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// failure is the body of an answer that is not 200.
type failure struct {
	Error string `json:"error"`
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The status line is sent: an error here can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(body)
}
