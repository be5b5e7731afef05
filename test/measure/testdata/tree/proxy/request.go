package proxy

import "example/workers"

type request struct{ name string }

// runner runs a request.
type runner interface{ run(name string) }

type now struct{}

func (now) run(name string) { workers.Acquire(name) }

func (s *Server) begin(name string) {
	s.limit++
	s.last.name = name
	finish(now{}, name)
}
