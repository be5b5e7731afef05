// Package proxy is the HTTP server: routes, access, the error envelope, and the metrics,
// log line and span of each request. It knows no endpoint: each mounts its routes.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/connections"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/traces"
)

// Limits on connections that a client holds open without sending anything useful.
const (
	readHeaderTimeout = 10 * time.Second
	idleConnTimeout   = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// BodyTimeout bounds the reading of a request body.
	BodyTimeout = time.Minute
)

// ErrDeadline is the cause with which Abort ends turns that outlived the grace.
var ErrDeadline = errors.New("the service stopped before the turn was finished")

// Settings is the configuration of a Server. All fields are required but Traces and OnEnd, which
// may be nil, and CORSOrigins.
type Settings struct {
	// Report is the current health; probes, Retry-After and errors use it.
	Report func() probes.Report
	// NextPlace is when a new request can expect a place on a worker.
	NextPlace func() time.Duration
	// NoModel is the answer for a model that the key of the exchange cannot use on its accounts.
	NoModel func(x *Exchange, model string) *openai.Error
	// Accounts are the names of all workers, each of which has an account.
	Accounts []string
	// Hands reports whether a worker has hands; nil: none has.
	Hands func(worker string) bool
	// Keys are the API keys; without any, requests need none.
	Keys *auth.Keys
	// Limiter and Memory bound requests.
	Limiter *limits.Limiter
	Memory  *limits.Memory
	// Connections are the connections of this server's clients.
	Connections *connections.Connections
	// CORSOrigins are the origins of pages that may use the API, or "*".
	CORSOrigins []string
	// OnEnd is called with each request that has ended, if the journal has it; nil: not at all. It must not wait.
	OnEnd func(method string, x *Exchange)
	// WriteTimeout is the longest time in which a client takes nothing of its answer.
	WriteTimeout time.Duration
	// Traces records spans of requests; nil: nothing does.
	Traces   *traces.Tracer
	Registry *prometheus.Registry
	Logger   *slog.Logger
}

// Server serves the routes that are mounted on it. Create it with New; its methods are
// safe for concurrent use.
type Server struct {
	Settings

	routes   routes
	envelope envelope
	metrics  *metrics
	http     http.Server
	base     context.Context // parent of every request; Abort cancels it
	abort    context.CancelCauseFunc
	trips    trips
	detached detached
}

// New creates a server with the routes of probes and metrics, and registers its own
// metrics.
func New(settings Settings) *Server {
	s := &Server{Settings: settings, metrics: newMetrics(settings.Registry)}
	s.envelope = envelope{settings.Report, settings.NextPlace, settings.NoModel, settings.Logger}
	s.base, s.abort = context.WithCancelCause(context.Background())
	s.routes, s.detached.changed = operations(settings), make(chan struct{}, 1)
	s.http = http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       BodyTimeout, // also for bodies that no handler reads
		IdleTimeout:       idleConnTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnState:         settings.Connections.Track,
		ErrorLog:          slog.NewLogLogger(settings.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Mount adds the routes of an endpoint. It must be called before the server serves.
func (s *Server) Mount(routes ...Route) { s.routes = append(s.routes, routes...) }

// Handler is the whole HTTP surface, for a listener that the caller serves.
func (s *Server) Handler() http.Handler { return identify(s.log(s.envelope.recover(s.dispatch))) }

// Serve accepts on one listener until Connections.StopAccepting or Shutdown; then it
// returns nil. It may be called for several listeners at the same time.
func (s *Server) Serve(l net.Listener) error {
	loop, ok := s.Connections.Listen(l)
	if !ok {
		return nil
	}
	if err := s.http.Serve(loop); !errors.Is(err, http.ErrServerClosed) && !s.Connections.Closed() {
		return fmt.Errorf("cannot accept on %s: %w", l.Addr(), err)
	}
	return nil
}

// Abort ends every turn in flight with an error that the client sees.
func (s *Server) Abort() { s.abort(ErrDeadline) }

// Shutdown stops accepting and waits for open requests until ctx ends; then it
// closes the connections that are left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Connections.BeginLeaving()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, net.ErrClosed) {
		err = nil // StopAccepting was called first, and Serve has not noticed yet
	}
	if err = errors.Join(err, s.Connections.AwaitSockets(ctx), s.detached.await(ctx)); err != nil {
		s.Abort() // ends WebSockets, which http.Server does not know
		return errors.Join(err, s.http.Close())
	}
	return nil
}
