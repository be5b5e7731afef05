// Package modelserver is a model provider for tests: the OpenAI Responses API on loopback, as codex
// uses it, with answers and faults that a test scripts. It uses real sockets, so codex meets the same
// faults as with a failing provider.
//
// A test needs two lines:
//
//	models := modelserver.Start(t)
//	require.NoError(t, models.Script("text hello", "gate first", "text world"))
//
// and points a codex model provider (wire_api "responses") at models.URL()+"/v1". The verbs of a script
// are listed at [Step].
package modelserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// shutdownGrace bounds the wait for open streams when serving ends; after it they are cut.
const shutdownGrace = 100 * time.Millisecond

// Server answers scripted requests and records each. Its methods may be called from any goroutine.
type Server struct {
	scripts scripts
	gates   gates
	log     record
	models  []string
	url     string
}

// New makes a server that answers every request with a short text until it is scripted. models are the
// names that GET /v1/models lists.
func New(models ...string) *Server {
	if len(models) == 0 {
		models = []string{"test-model"}
	}
	s := &Server{models: models}
	s.gates.init()
	s.log.init()
	return s
}

// Handler serves the API below /v1, and the control paths (see control.go) beside it.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", s.responses)
	mux.HandleFunc("GET /v1/responses", s.webSocket)
	mux.HandleFunc("GET /v1/models", s.listModels)
	mux.HandleFunc("/", s.unknown)
	s.control(mux)
	return mux
}

// Serve answers connections of ln until ctx ends, then cuts open streams and returns nil.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		short, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		if srv.Shutdown(short) != nil {
			_ = srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve models on %s: %w", ln.Addr(), err)
	}
	<-closed // Serve of net/http returns when the shutdown begins
	return nil
}

// URL is the address of a server made by Start, without a trailing slash.
func (s *Server) URL() string { return s.url }

// webSocket refuses codex's first attempt the way the real API does when it has no WebSocket: 426 makes
// codex fall back to SSE at once.
func (s *Server) webSocket(w http.ResponseWriter, r *http.Request) {
	s.log.finish(s.log.add(r, nil), http.StatusUpgradeRequired)
	w.Header().Set("Upgrade", "h2c")
	http.Error(w, "use POST and SSE", http.StatusUpgradeRequired)
}

// unknown records codex's requests outside of the API for the tests.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	s.log.finish(s.log.add(r, nil), http.StatusNotFound)
	http.NotFound(w, r)
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	s.log.finish(s.log.add(r, nil), http.StatusOK)
	data := make([]map[string]string, 0, len(s.models))
	for _, m := range s.models {
		data = append(data, map[string]string{"id": m, "object": "model", "owned_by": "modelserver"})
	}
	writeJSON(w, map[string]any{"object": "list", "data": data})
}
