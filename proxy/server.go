package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits on what a client may hold open without sending anything useful.
const (
	readHeaderTimeout = 10 * time.Second
	idleConnTimeout   = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// ErrDeadline is the cause with which Abort ends turns that outlived the grace.
var ErrDeadline = errors.New("the service stopped before the turn was finished")

// Server serves the OpenAI API. Create it with New; its methods are safe for
// concurrent use.
type Server struct {
	Settings

	metrics *metrics
	table   []route
	http    http.Server
	base    context.Context // parent of every request; Abort cancels it
	abort   context.CancelCauseFunc
	pulse   pulse
	limiter *limiter
	aliases *aliases
	exits   exits
	running responsesRunning
	threads *threads

	imagePlaces imagePlaces
}

// New builds a server and registers its metrics.
func New(settings Settings) *Server {
	s := &Server{
		Settings: settings, metrics: newMetrics(settings), exits: newExits(),
		threads: newThreads(settings.ThreadCache), limiter: newLimiter(settings.Keys, settings.Usage),
		aliases: &aliases{names: settings.Aliases, known: settings.Pool.Known, logger: settings.Logger, told: map[string]bool{}},
	}
	settings.Registry.MustRegister(newKeyCollector(s.limiter))
	s.base, s.abort = context.WithCancelCause(context.Background())
	s.table = s.routes()
	s.http = http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       bodyTimeout, // also for bodies that no handler reads
		IdleTimeout:       idleConnTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnState:         s.exits.follow,
		ErrorLog:          slog.NewLogLogger(settings.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Handler is the whole HTTP surface, for a listener of one's own.
func (s *Server) Handler() http.Handler {
	return s.exits.show(s.identify(s.log(s.recover(http.HandlerFunc(s.dispatch)))))
}

// Serve accepts on one listener until Leave or Shutdown; then it returns nil. It may be
// called for several listeners at the same time.
func (s *Server) Serve(l net.Listener) error {
	if !s.exits.accepts(l) {
		return nil
	}
	if err := s.http.Serve(s.pulse.listen(l)); !errors.Is(err, http.ErrServerClosed) && !s.exits.left() {
		return fmt.Errorf("cannot accept on %s: %w", l.Addr(), err)
	}
	return nil
}

// Abort ends every turn in flight with an error that the client sees.
func (s *Server) Abort() { s.abort(ErrDeadline) }

// Shutdown stops accepting and waits for open requests until ctx ends; then it
// closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.exits.begin()
	err := errors.Join(s.http.Shutdown(ctx), s.exits.awaitSockets(ctx))
	if err != nil {
		s.Abort() // of WebSockets, nobody else knows
		return errors.Join(err, s.http.Close())
	}
	return nil
}
