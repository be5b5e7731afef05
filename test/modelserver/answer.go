package modelserver

import (
	"context"
	"io"
	"net/http"
	"time"
)

// maxBody bounds a request; codex itself caps a turn's text at 1 MiB but not what is injected.
const maxBody = 256 << 20

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := s.log.add(r, raw)
	var body Body
	s.log.change(id, func(req *Request) { body = req.Body })
	name, steps, err := s.choose(body)
	if err != nil {
		name, steps = "marker", []Step{{Verb: "error", N: 400, Text: err.Error()}}
	}
	s.log.change(id, func(req *Request) { req.Script = name })
	a := &answer{Server: s, id: id, w: w, body: body, account: r.Header.Get(AccountHeader)}
	a.run(r.Context(), steps)
}

// Play answers a request by these steps, whatever the scripts. It panics if a step cannot be read.
func (s *Server) Play(w http.ResponseWriter, r *http.Request, steps ...string) {
	parsed, err := ParseSteps(steps)
	if err != nil {
		panic(err)
	}
	id := s.log.add(r, nil)
	s.log.change(id, func(req *Request) { req.Script = "play" })
	a := &answer{Server: s, id: id, w: w, account: r.Header.Get(AccountHeader)}
	a.run(r.Context(), parsed)
}

// answer plays the steps of one request. It belongs to the request's goroutine.
type answer struct {
	*Server
	id      int
	w       http.ResponseWriter
	body    Body
	status  int
	account string  // of the request
	stream  *stream // nil until the first event
}

func (a *answer) run(ctx context.Context, steps []Step) {
	defer a.log.change(a.id, func(r *Request) { r.Status = a.status })
	for _, step := range steps {
		ended, err := a.play(ctx, step)
		if err != nil || !ended && ctx.Err() != nil {
			a.cut()
		}
		if ended {
			a.log.finish(a.id, a.status)
			return
		}
	}
	if a.open().finish("completed", nil) != nil {
		a.cut()
	}
	a.log.finish(a.id, a.status) // a client may close as soon as it has the last event
}

// cut records that the client has closed, and ends the request.
func (a *answer) cut() {
	a.log.change(a.id, func(r *Request) { r.Cut, r.Status = time.Now(), a.status })
	panic(http.ErrAbortHandler)
}

// play does one step, and returns whether it was the answer's end.
func (a *answer) play(ctx context.Context, step Step) (ended bool, err error) {
	switch step.Verb {
	case "error":
		a.reject(step)
		return true, nil
	case "garbage":
		a.head(http.StatusOK, "text/html")
		_, err = io.WriteString(a.w, "<html><body>502 Bad Gateway</body></html>")
		return true, err
	case "hang":
		<-ctx.Done()
		return false, ctx.Err()
	case "silence":
		a.open()
		<-ctx.Done()
		return false, ctx.Err()
	case "drop":
		a.open()
		a.log.finish(a.id, a.status)
		panic(http.ErrAbortHandler) // net/http then closes the connection without the last chunk
	case "end":
		a.open()
		return true, nil
	case "failed":
		return true, a.open().finish("failed", failure(step))
	case "incomplete":
		return true, a.open().finish("incomplete", incomplete(step))
	case "delay":
		return false, pause(ctx, step.Every)
	case "gate":
		return false, a.gate(ctx, step.Name)
	default:
		return false, a.open().emit(ctx, step)
	}
}

// gate sends the headers, then waits for the gate.
func (a *answer) gate(ctx context.Context, name string) error {
	a.open()
	a.log.change(a.id, func(r *Request) { r.Gate = name })
	defer a.log.change(a.id, func(r *Request) { r.Gate = "" })
	return a.gates.wait(ctx, name)
}

func (a *answer) reject(step Step) {
	if step.Retry != "" {
		a.w.Header().Set("Retry-After", step.Retry)
	}
	a.head(step.N, "application/json")
	_, _ = io.WriteString(a.w, step.Text)
}

func (a *answer) head(status int, contentType string) {
	a.status = status
	a.w.Header().Set("Content-Type", contentType)
	a.w.WriteHeader(status)
}

// open starts the stream, headers first, if it has not.
func (a *answer) open() *stream {
	if a.stream == nil {
		a.head(http.StatusOK, "text/event-stream")
		a.stream = newStream(a.w, a.id, a.body.Model, a.account)
	}
	return a.stream
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
