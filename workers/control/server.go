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

// Settings configure a Server.
type Settings struct {
	Pool *workers.Pool
	// Report is the report that all probes share.
	Report   func() probes.Report
	Changes  *Changes
	Keys     KeyTable
	Drains   DrainTable
	Accounts AccountTable
	// Routes are further routes, by their patterns (net/http.ServeMux).
	Routes map[string]http.HandlerFunc
	Logger *slog.Logger
}

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

// New builds a server.
func New(settings Settings) *Server {
	base, stop := context.WithCancel(context.Background())
	s := &Server{
		pool: settings.Pool, report: settings.Report, changes: settings.Changes, keys: settings.Keys,
		drains: settings.Drains, accounts: settings.Accounts, stop: stop,
	}
	s.http = http.Server{
		Handler:           s.routes(settings.Routes),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       readTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(settings.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// routes are the routes of the control socket. The TCP side has none of them.
func (s *Server) routes(further map[string]http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/status/watch", s.watch)
	mux.HandleFunc("POST /v1/drain", s.drain)
	mux.HandleFunc("POST /v1/undrain", s.undrain)
	mux.HandleFunc("GET /v1/accounts", s.getAccounts)
	mux.HandleFunc("POST /v1/accounts", s.orderAccount)
	mux.HandleFunc("GET /v1/keys", s.getKeys)
	mux.HandleFunc("PUT /v1/keys", s.putKeys)
	for pattern, handler := range further {
		mux.HandleFunc(pattern, handler)
	}
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

// Answer sends the answer of a further route.
func Answer(w http.ResponseWriter, body any) { write(w, http.StatusOK, body) }

// Refuse sends an error to an operator.
func Refuse(w http.ResponseWriter, status int, err error) { write(w, status, failure{err.Error()}) }
