package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// streamChat answers in server-sent events as the turns go on. Nothing is sent
// before the model's first word or the first keepalive, so that a failure until
// then is a real HTTP status.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, req *openai.ChatRequest, answer openai.Answer) error {
	st := &stream{w: w, control: http.NewResponseController(w), timeout: s.IdleTimeout}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	err := s.choices(w, r, req, func(c *choice, turn *appserver.Turn) error {
		if req.N > 1 {
			st.turns.Add(1)
		}
		sc := &streamChoice{stream: st, answer: answer, choice: c}
		silence := sc.keepalive
		if keepaliveOff(r) {
			silence = nil
		}
		if err := s.hear(c, turn, req, sc, st.flush, silence); err != nil || req.N == 1 { // what ends the answer comes at once
			return err
		}
		return st.flush()
	}, func() error {
		return st.send(func(w io.Writer) error {
			if usage := exchangeOf(r).usage; answer.Usage && usage != nil {
				if err := openai.WriteEvent(w, answer.UsageChunk(usage)); err != nil {
					return err
				}
			}
			return openai.WriteDone(w)
		})
	})
	if err != nil {
		return s.streamError(st, r, err)
	}
	return nil
}

// streamError reports an error in the way that is still open: the HTTP status
// before the first byte, an error frame after it. [DONE] never follows. A client
// that leaves gets no error: one that has only shut down its sending side would
// read it.
func (s *Server) streamError(st *stream, r *http.Request, err error) error {
	if !st.begun || errors.Is(err, errClientGone) {
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

// stream writes the events of one answer, whose choices take turns.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // bounds each write
	turns   atomic.Int64  // that were begun, if there are several choices

	mu      sync.Mutex
	begun   bool // the header is out
	pending bool // something was written since the last flush
}

// send writes and flushes within the timeout. What fails is the client's
// connection.
func (st *stream) send(write func(io.Writer) error) error {
	if err := st.write(write); err != nil {
		return err
	}
	return st.flush()
}

// write leaves the flush to whoever knows that nothing follows at once, as what
// comes together should leave together: each flush is a system call here and one
// more at the client. It must come, or the client waits for what it has.
func (st *stream) write(write func(io.Writer) error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begin()
	if err := st.control.SetWriteDeadline(time.Now().Add(st.timeout)); err != nil {
		return fmt.Errorf("cannot bound a write to the client: %w", err)
	}
	st.pending = true
	if write(st.w) != nil {
		return errClientGone
	}
	return nil
}

// flush sends what was written.
func (st *stream) flush() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.pending {
		return nil
	}
	st.pending = false
	if st.control.Flush() != nil {
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
	if n := st.turns.Load(); n > 0 {
		h.Set("X-Codex-Attempts", strconv.FormatInt(n, 10))
	}
	h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	st.w.WriteHeader(http.StatusOK)
}
