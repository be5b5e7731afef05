package control

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"codex-proxy/probes"
	"codex-proxy/workers"
)

// Request is the body of /v1/drain and /v1/undrain.
type Request struct {
	// Worker is a worker's name; empty means all.
	Worker string `json:"worker,omitempty"`
	// Invocation makes the drain part of the stop of this invocation of the
	// worker's unit, with which it ends. An empty one makes it hold until it is
	// undone.
	Invocation string `json:"invocation,omitempty"`
	// WaitMS is how long the answer waits for the last turn in flight, in
	// milliseconds. The answer is sent as soon as there is none.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// Drain is a change of the workers that get new turns.
type Drain struct {
	Workers    []string `json:"workers"`
	Invocation string   `json:"invocation,omitempty"` // as in Request
	Undo       bool     `json:"undo,omitempty"`
	All        bool     `json:"all,omitempty"` // also of the workers that only earlier processes have
}

// Apply makes the change in a pool, for the workers that it has.
func (d Drain) Apply(pool *workers.Pool) (err error) {
	names := d.Workers
	if d.All {
		names = pool.Names()
	}
	for _, name := range names {
		switch {
		case d.Undo:
			err = errors.Join(err, pool.UndrainWorker(name))
		case d.Invocation != "":
			err = errors.Join(err, pool.DrainForStop(name, d.Invocation))
		default:
			err = errors.Join(err, pool.DrainWorker(name))
		}
	}
	return err
}

// DrainTable has the drains of the daemon.
type DrainTable interface {
	// Drain puts a change into force, also in earlier processes that still finish
	// their work. The error may be ErrMoved. It is workers.ErrUnknown for a worker
	// that no process has.
	Drain(Drain) error
	// Before is how many turns the earlier processes have in flight on each worker,
	// as far as drains have made them report it. A change of it is a change of the
	// report.
	Before() map[string]int
}

// drain answers with the report after the drain, which has the turns that are still
// in flight.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) { s.change(w, r, false) }

func (s *Server) undrain(w http.ResponseWriter, r *http.Request) { s.change(w, r, true) }

func (s *Server) change(w http.ResponseWriter, r *http.Request, undo bool) {
	var req Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&req); err != nil {
		write(w, http.StatusBadRequest, failure{"cannot read the request: " + err.Error()})
		return
	}
	names := s.pool.Names()
	if req.Worker != "" {
		names = []string{req.Worker}
	}
	drain := Drain{Workers: names, Invocation: req.Invocation, Undo: undo, All: req.Worker == ""}
	if err := s.drains.Drain(drain); err != nil {
		write(w, statusOf(err), failure{err.Error()})
		return
	}
	if req.Worker == "" {
		for _, name := range slices.Sorted(maps.Keys(s.drains.Before())) {
			if !s.has(name) {
				names = append(names, name)
			}
		}
	}
	s.report() // a change of readiness is reported before anything else happens
	s.await(r.Context(), names, time.Duration(req.WaitMS)*time.Millisecond)
	report := s.report()
	for _, name := range names {
		if !s.has(name) { // another process has it
			report.Workers = append(report.Workers, probes.Worker{Name: name, Reason: probes.NoWorker})
		}
	}
	before := s.drains.Before()
	for i := range report.Workers {
		report.Workers[i].Inflight += before[report.Workers[i].Name]
	}
	write(w, http.StatusOK, report)
}

func (s *Server) has(worker string) bool { return slices.Contains(s.pool.Names(), worker) }

// await waits for the last turn of these workers. The report has the reason why it ended.
func (s *Server) await(ctx context.Context, names []string, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	busy := func(name string) bool { return s.drains.Before()[name] > 0 }
	var ours []string
	for _, name := range names {
		if s.has(name) {
			ours = append(ours, name)
		}
	}
	for {
		changed := s.changes.Next()
		if s.pool.AwaitIdle(ctx, ours...) != nil || !slices.ContainsFunc(names, busy) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, workers.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrMoved):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// Drain makes workers get no new turns, and waits for the time in req.
func (c *Client) Drain(ctx context.Context, req Request) (probes.Report, error) {
	return c.change(ctx, "/v1/drain", req)
}

// Undrain undoes drains.
func (c *Client) Undrain(ctx context.Context, req Request) (probes.Report, error) {
	return c.change(ctx, "/v1/undrain", req)
}

func (c *Client) change(ctx context.Context, path string, req Request) (probes.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.WaitMS)*time.Millisecond+answerTimeout)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return probes.Report{}, err
	}
	var r probes.Report
	err = untilSettled(ctx, func() error {
		_, err := c.ask(ctx, http.MethodPost, path, body, &r)
		return err
	})
	return r, err
}
