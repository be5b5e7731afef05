package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"codex-proxy/proxy/workers"
)

// Request is the body of /v1/drain and /v1/undrain.
type Request struct {
	// Worker is a worker's name; empty means all.
	Worker string `json:"worker,omitempty"`
	// Invocation says that the drain is part of the stop of this invocation of
	// the worker's unit, with which it ends. Otherwise it holds until it is
	// taken back.
	Invocation string `json:"invocation,omitempty"`
	// WaitMS is how long the answer waits for the last turn in flight, in
	// milliseconds. It comes as soon as there is none.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// drain answers with the report after the drain, in which the turns that are
// still in flight stand.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(req Request, name string) error {
		if req.Invocation != "" {
			return s.pool.DrainForStop(name, req.Invocation)
		}
		return s.pool.DrainWorker(name)
	})
}

func (s *Server) undrain(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(_ Request, name string) error { return s.pool.UndrainWorker(name) })
}

func (s *Server) change(w http.ResponseWriter, r *http.Request, change func(Request, string) error) {
	var req Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&req); err != nil {
		write(w, http.StatusBadRequest, failure{"cannot read the request: " + err.Error()})
		return
	}
	names := s.pool.Names()
	if req.Worker != "" {
		names = []string{req.Worker}
	}
	for _, name := range names {
		if err := change(req, name); err != nil {
			write(w, statusOf(err), failure{err.Error()})
			return
		}
	}
	s.report() // a flip of readiness is told before anything else happens
	s.await(r.Context(), names, time.Duration(req.WaitMS)*time.Millisecond)
	write(w, http.StatusOK, s.report())
}

// await waits for the last turn of these workers. Why it ended is in the report.
func (s *Server) await(ctx context.Context, names []string, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_ = s.pool.AwaitIdle(ctx, names...)
}

func statusOf(err error) int {
	if errors.Is(err, workers.ErrUnknown) {
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}
