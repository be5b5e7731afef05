package proxy

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// streamChat answers in server-sent events as the turn goes on. Nothing is
// sent before the model's first word or the first keepalive, so that a failure
// until then is a real HTTP status.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, turn *appserver.Turn, answer openai.Answer, includeUsage bool) error {
	x := exchangeOf(r)
	st := &stream{w: w, control: http.NewResponseController(w), answer: answer, timeout: s.IdleTimeout}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	l := listener{text: st.text, silence: st.keepalive}
	if keepaliveOff(r) {
		l.silence = nil
	}
	finish, err := s.follow(r.Context(), turn, x, l)
	if err != nil {
		return s.streamError(st, r, err)
	}
	if !includeUsage {
		return st.end(finish, nil)
	}
	return st.end(finish, x.usage)
}

// streamError reports an error in the way that is still open: the HTTP status
// before the first byte, an error frame after it. [DONE] never follows.
func (s *Server) streamError(st *stream, r *http.Request, err error) error {
	if !st.begun {
		return err
	}
	// A client that is not there any more cannot be told.
	_ = st.send(func(w io.Writer) error { return openai.WriteEvent(w, s.clientError(r, err)) })
	return err
}

// keepaliveOff lets a client that cannot skip comments do without them.
func keepaliveOff(r *http.Request) bool {
	return r.Header.Get("X-No-Keepalive") == "1" || r.URL.Query().Get("no_keepalive") == "1"
}

// stream writes one answer's events. It belongs to the request's goroutine.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	answer  openai.Answer
	timeout time.Duration // bounds each write

	begun bool // the header is out
	role  bool // the role chunk is out
}

func (st *stream) text(_, delta string) error {
	return st.send(func(w io.Writer) error {
		if err := st.writeRole(w); err != nil {
			return err
		}
		return openai.WriteEvent(w, st.answer.TextChunk(delta))
	})
}

func (st *stream) keepalive() error { return st.send(openai.WriteKeepalive) }

func (st *stream) end(finish string, usage *openai.Usage) error {
	return st.send(func(w io.Writer) error {
		if err := st.writeRole(w); err != nil {
			return err
		}
		if err := openai.WriteEvent(w, st.answer.FinishChunk(finish)); err != nil {
			return err
		}
		if usage != nil {
			if err := openai.WriteEvent(w, st.answer.UsageChunk(usage)); err != nil {
				return err
			}
		}
		return openai.WriteDone(w)
	})
}

func (st *stream) writeRole(w io.Writer) error {
	if st.role {
		return nil
	}
	st.role = true
	return openai.WriteEvent(w, st.answer.RoleChunk())
}

// send writes and flushes within the timeout. What fails is the client's
// connection.
func (st *stream) send(write func(io.Writer) error) error {
	st.begin()
	if err := st.control.SetWriteDeadline(time.Now().Add(st.timeout)); err != nil {
		return fmt.Errorf("cannot bound a write to the client: %w", err)
	}
	if write(st.w) != nil || st.control.Flush() != nil {
		return errClientGone
	}
	return nil
}

func (st *stream) begin() {
	if st.begun {
		return
	}
	st.begun = true
	h := st.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	st.w.WriteHeader(http.StatusOK)
}
