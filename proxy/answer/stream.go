package answer

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// Stream writes the server-sent events of one answer. The header is sent with the first
// event: a failure until then is a real HTTP status. It is safe for concurrent use, as
// several turns may write to it.
type Stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	timeout  time.Duration // bounds each write
	attempts atomic.Int64

	mu      sync.Mutex
	begun   bool // the header is out
	pending bool // something was written since the last flush
}

// Stream creates the stream of an answer.
func (a *Writer) Stream(w http.ResponseWriter) *Stream {
	return &Stream{w: w, control: http.NewResponseController(w), timeout: a.timeout}
}

// CountAttempt counts an attempt of one of several turns, for the header.
func (s *Stream) CountAttempt() { s.attempts.Add(1) }

// Begun reports whether something was written.
func (s *Stream) Begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// Send writes and flushes. It returns turn.ErrClientGone if the client does not take it.
func (s *Stream) Send(write func(io.Writer) error) error {
	if err := s.Write(write); err != nil {
		return err
	}
	return s.Flush()
}

// Write leaves the flush to the caller, so that events that arrive together leave together: each flush is a system call
// here and another one at the client.
func (s *Stream) Write(write func(io.Writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return fmt.Errorf("cannot bound a write to the client: %w", err)
	}
	s.pending = true
	if write(s.w) != nil {
		return turn.ErrClientGone
	}
	return nil
}

// Flush sends the pending writes.
func (s *Stream) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pending {
		return nil
	}
	s.pending = false
	if s.control.Flush() != nil {
		return turn.ErrClientGone
	}
	return nil
}

// Keepalive sends a comment.
func (s *Stream) Keepalive() error { return s.Send(openai.WriteKeepalive) }

func (s *Stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	if n := s.attempts.Load(); n > 0 {
		h.Set("X-Codex-Attempts", strconv.FormatInt(n, 10))
	}
	h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	s.w.WriteHeader(http.StatusOK)
}

// KeepaliveOff reports whether a client switched comments off, as it cannot skip them.
func KeepaliveOff(r *http.Request) bool {
	return r.Header.Get("X-No-Keepalive") == "1" || r.URL.Query().Get("no_keepalive") == "1"
}
