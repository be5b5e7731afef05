package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"codex-proxy/runner/api/wire"
)

// unlessStopping returns a context of a request that may fetch: it ends when the server shuts down, too, as a fetch may
// take longer than that.
func (s *Server) unlessStopping(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(s.done, func() {
		cancel(&wire.Error{Code: wire.Unavailable, Message: "the service stops", Remedy: "try again"})
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func (s *Server) addRepository(w http.ResponseWriter, r *http.Request, c caller) error {
	var body wire.NewRepository
	if err := decode(w, r, &body); err != nil {
		return err
	}
	added, err := s.Runner.Repositories.Add(r.Context(), c.Owner, body)
	if err == nil {
		answer(w, http.StatusOK, added)
	}
	return err
}

func (s *Server) listRepositories(w http.ResponseWriter, r *http.Request, c caller) error {
	list, err := s.Runner.Repositories.List(r.Context(), c.Owner)
	if err == nil {
		answer(w, http.StatusOK, list)
	}
	return err
}

func (s *Server) putBundle(w http.ResponseWriter, r *http.Request, c caller) error {
	ctx, cancel := s.unlessStopping(r)
	defer cancel()
	from := &patient{r.Body, http.NewResponseController(w)}
	has, err := s.Runner.Repositories.PutBundle(ctx, c.Owner, r.PathValue("key"), from)
	if err == nil {
		answer(w, http.StatusOK, has)
	}
	return err
}

// quiet is how long a client may take for the next bytes of a bundle: git may count and compress objects before.
const quiet = 10 * time.Minute

// patient reads a body from a client that may be slow, but not stop.
type patient struct {
	io.Reader
	control *http.ResponseController
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(quiet)); err != nil {
		return 0, err
	}
	n, err := p.Reader.Read(b)
	if err != nil {
		_ = p.control.SetReadDeadline(time.Time{}) // of the next request
	}
	return n, err
}
