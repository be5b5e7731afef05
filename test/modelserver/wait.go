package modelserver

import (
	"context"
	"fmt"
	"net/http"
)

// Requests lists the received requests, oldest first.
func (s *Server) Requests() []Request {
	list, _ := s.log.snapshot()
	return list
}

// Turns lists the requests for a model's answer: POSTs to /v1/responses.
func (s *Server) Turns() []Request { return turns(s.Requests()) }

func turns(all []Request) []Request {
	list := make([]Request, 0, len(all))
	for _, r := range all {
		if r.Method == http.MethodPost {
			list = append(list, r)
		}
	}
	return list
}

// OpenStreams counts answers under way.
func (s *Server) OpenStreams() int {
	n := 0
	for _, r := range s.Turns() {
		if r.Open() {
			n++
		}
	}
	return n
}

// Wait returns the turns as soon as enough returns true for them. It fails if ctx ends first.
func (s *Server) Wait(ctx context.Context, enough func(turns []Request) bool) ([]Request, error) {
	for {
		all, changed := s.log.snapshot()
		list := turns(all)
		if enough(list) {
			return list, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return list, fmt.Errorf("the expected turns are not among %d requests: %w", len(list), ctx.Err())
		}
	}
}

// AtLeast is for Wait: n turns have arrived.
func AtLeast(n int) func([]Request) bool {
	return func(turns []Request) bool { return len(turns) >= n }
}

// CutAtLeast is for Wait: the client has closed n turns before their end.
func CutAtLeast(n int) func([]Request) bool {
	return func(turns []Request) bool {
		cut := 0
		for _, r := range turns {
			if !r.Cut.IsZero() {
				cut++
			}
		}
		return cut >= n
	}
}

// AtGate is for Wait: n turns wait at the gate.
func AtGate(gate string, n int) func([]Request) bool {
	return func(turns []Request) bool {
		at := 0
		for _, r := range turns {
			if r.Gate == gate && r.Open() {
				at++
			}
		}
		return at >= n
	}
}
