package api

import (
	"net/http"
	"strconv"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
)

// session is the session that a request of a caller is for.
type session struct {
	*Server
	caller
	id string
}

// session is the route of a request for the session that its path names.
func (s *Server) session(serve func(s *session, w http.ResponseWriter, r *http.Request) error) route {
	return func(w http.ResponseWriter, r *http.Request, c caller) error {
		id := r.PathValue("id")
		if paths.CheckID(id) != nil {
			return &wire.Error{Code: wire.NotFound, Message: strconv.Quote(id) + " is no session",
				Remedy: "an ID has 16 characters of a-z and 2-7; `codex-runner sessions` lists yours"}
		}
		return serve(&session{s, c, id}, w, r)
	}
}

func (s *session) get(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Runner.Session(r.Context(), s.viewer(), s.id)
	if err == nil {
		answer(w, http.StatusOK, v)
	}
	return err
}

func (s *session) addCommand(w http.ResponseWriter, r *http.Request) error {
	var body wire.NewCommand
	if err := decode(w, r, &body); err != nil {
		return err
	}
	command, err := s.Runner.Add(r.Context(), s.viewer(), s.id, body)
	if err == nil {
		answer(w, http.StatusCreated, command)
	}
	return err
}

func (s *session) getCommand(w http.ResponseWriter, r *http.Request) error {
	n, err := commandOf(r)
	if err != nil {
		return err
	}
	command, err := s.Runner.Command(r.Context(), s.viewer(), s.id, n)
	if err == nil {
		answer(w, http.StatusOK, command)
	}
	return err
}

func (s *session) putStdin(w http.ResponseWriter, r *http.Request) error {
	n, err := commandOf(r)
	if err != nil {
		return err
	}
	command, err := s.Runner.PutStdin(r.Context(), s.viewer(), s.id, n, r.Body)
	if err == nil {
		answer(w, http.StatusOK, command)
	}
	return err
}

func (s *session) cancel(w http.ResponseWriter, r *http.Request) error {
	var body wire.Cancel
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if body.Command < 0 {
		return invalid("command", "use the number of a command, or 0 for all")
	}
	if err := s.Runner.Cancel(r.Context(), s.viewer(), s.id, body.Command, s.by()); err != nil {
		return err
	}
	return s.get(w, r)
}

func (s *session) release(w http.ResponseWriter, r *http.Request) error {
	if err := s.Runner.Release(r.Context(), s.viewer(), s.id); err != nil {
		return err
	}
	return s.get(w, r)
}

func commandOf(r *http.Request) (int, error) {
	n, err := paths.ParseCommand(r.PathValue("n"))
	if err != nil {
		return 0, &wire.Error{Code: wire.NotFound, Message: "the session has no such command",
			Remedy: "use the number of a command, from 1"}
	}
	return n, nil
}
