package appservertest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Handler plays the model in one turn: it calls the methods of t in order. Returning nil completes the turn; a *Failure
// fails it; when ctx ends the turn was interrupted and the error does not matter.
type Handler func(ctx context.Context, t *Turn) error

// Fault changes how a request is answered. It returns true when it has handled the request, and false when the server
// has to answer as usual.
type Fault func(ctx context.Context, p *Peer, id json.RawMessage) bool

// Server is the fake. Set the fields before Serve.
type Server struct {
	// Models are the models in model/list; none means one model called "demo".
	Models []Model
	// Handler runs every turn; nil means Demo.
	Handler Handler
	// Faults are keyed by method.
	Faults map[string]Fault
	// Older has it speak as codex 0.140: the model's items have no ids, and the ends of its responses are not reported.
	Older bool
	// Logger, if any, logs every request.
	Logger *slog.Logger

	mu       sync.Mutex
	peers    map[*Peer]struct{}
	closed   bool
	draining bool
	requests []string
	traces   map[string][]Trace // by method
	serving  sync.WaitGroup
	turns    sync.WaitGroup
}

type connKey struct{}

// Serve accepts connections from l until ctx ends, then does as codex does on
// SIGTERM: it refuses new turns, lets the running ones finish, and closes. It
// returns nil then, and after Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{
		Handler:           http.HandlerFunc(s.accept),
		ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	stop := context.AfterFunc(ctx, func() {
		s.drain()
		s.Close()
		_ = web.Close()
	})
	defer stop()
	err := web.Serve(l)
	s.Close()
	_ = web.Close()
	s.serving.Wait()
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain waits for the running turns.
func (s *Server) drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.turns.Wait()
}

// Close closes every connection at once, as a SIGKILL of codex would.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	peers := make([]*Peer, 0, len(s.peers))
	for p := range s.peers {
		peers = append(peers, p)
	}
	s.mu.Unlock()
	for _, p := range peers {
		p.Disconnect()
	}
}

// Requests returns the methods received so far, in order, over all connections.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// Trace is the trace context that came with a request.
type Trace struct {
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate"`
}

// Traced returns those that came with requests of that method.
func (s *Server) Traced(method string) []Trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Trace(nil), s.traces[method]...)
}

func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(context.Background()) // net/http does not track hijacked connections
	defer cancel()
	p, err := upgrade(s, w, r, cancel)
	if err != nil {
		return
	}
	if !s.addPeer(p) {
		p.Disconnect()
		return
	}
	defer s.removePeer(p)
	p.run(ctx)
}

func (s *Server) addPeer(p *Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.peers == nil {
		s.peers = map[*Peer]struct{}{}
	}
	s.peers[p] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *Server) removePeer(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	s.serving.Done()
}

// received records a request; draining means that new turns are refused.
func (s *Server) received(method string, trace *Trace) (draining bool) {
	if s.Logger != nil {
		s.Logger.Debug("request", "method", method)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, method)
	if trace != nil {
		if s.traces == nil {
			s.traces = map[string][]Trace{}
		}
		s.traces[method] = append(s.traces[method], *trace)
	}
	return s.draining
}

// begin counts a turn, unless the server is draining.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.turns.Add(1)
	return true
}

func (s *Server) handler() Handler {
	if s.Handler == nil {
		return Demo(40 * time.Millisecond)
	}
	return s.Handler
}
