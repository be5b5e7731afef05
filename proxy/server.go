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
	memory  *memory // of requests

	remembered  *memory // of WebSockets
	imagePlaces imagePlaces

	startTimeout time.Duration // of tests, else the constant
}

// New builds a server and registers its metrics.
func New(settings Settings) *Server {
	s := &Server{
		Settings: settings, startTimeout: startTimeout, metrics: newMetrics(settings), exits: newExits(),
		memory: newMemory(settings.RequestMemory, settings.QueueTimeout), remembered: newMemory(settings.RequestMemory/4, 0),
		threads: newThreads(settings.ThreadCache), limiter: newLimiter(settings.Keys, settings.Usage),
		aliases: &aliases{names: settings.Aliases, known: settings.Pool.Known, logger: settings.Logger, told: map[string]bool{}},
	}
	s.limiter.claim, s.limiter.changed = settings.Claim, settings.OnKeyUse
	settings.Registry.MustRegister(newKeyCollector(s.limiter), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_request_memory_bytes", Help: "Bytes that requests hold: bodies as they come and decoded, images, stored conversations, and answers that are not sent yet.",
	}, func() float64 { return float64(s.memory.bytes.Load()) }))
	s.exits.most, s.exits.crowded = connectionLimit(), func(most int) {
		settings.Logger.Warn("too many connections: those without a request are closed", "limit", most)
	}
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
	return s.identify(s.log(s.recover(http.HandlerFunc(s.dispatch))))
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
	err := s.http.Shutdown(ctx)
	if errors.Is(err, net.ErrClosed) {
		err = nil // StopAccepting came first, and Serve has not noticed yet
	}
	if err = errors.Join(err, s.exits.awaitSockets(ctx)); err != nil {
		s.Abort() // of WebSockets, nobody else knows
		return errors.Join(err, s.http.Close())
	}
	return nil
}
