package responses

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/turn"
)

// answer serves one message response.create.
func (s *socket) answer(ctx context.Context, m message) {
	x, end, err := s.Server.BeginMessage(s.r, s.x, m.held)
	defer end()
	ctx, cancel := s.Admission.Bound(ctx)
	defer cancel()
	defer s.Answers.CountStream()()
	if err == nil {
		err = s.respond(ctx, x, m.body)
	}
	if err == nil {
		return
	}
	if e := s.Server.Fail(x, err); e != nil {
		s.sendError(e)
	}
}

func (s *socket) respond(ctx context.Context, x *proxy.Exchange, body []byte) error {
	req, _, err := admission.Decode(ctx, s.Admission, x, body, wire.DecodeCreate)
	if err != nil {
		return err
	}
	job, err := s.jobs.New(ctx, x, req, s.last)
	if err != nil {
		return err
	}
	defer s.jobs.Close(job)
	job.Recall = true
	making := &response{
		Endpoint: s.Endpoint, x: x, job: job, events: &frames{socket: s, x: x}, silence: socketSilence,
	}
	kept, err := making.answer(ctx)
	if kept != nil {
		s.remember(kept)
	}
	return err
}

// remember keeps a response for the next request, if there is memory for it and the whole
// conversation is within the limit for the body of a request.
func (s *socket) remember(response *jobs.Remembered) {
	size := plan.Size(response.Items)
	s.last = nil
	s.held.Release()
	charge := size + int64(len(response.Items))*limits.PerItem/2
	if size <= s.Admission.BodyLimit && s.held.TryAcquire(charge) {
		s.last = response
	}
}

// frames sends the events of a response as messages.
type frames struct {
	*socket
	x *proxy.Exchange // of the response
}

func (f *frames) write(events []eventstream.Event) error {
	for _, e := range events {
		if f.x.Status == 0 && !e.Opens() { // until then an error has a status of its own
			f.x.Status, f.x.FirstByte = http.StatusOK, time.Now()
		}
		if err := f.send(e); err != nil {
			return err
		}
	}
	return nil
}

// Flush implements eventWriter: every message is sent at once.
func (f *frames) Flush() error { return nil }

// Keepalive implements eventWriter: pings break the silence of a WebSocket.
func (f *frames) Keepalive() error { return nil }

// sendError sends an error that belongs to no response. The reader notices a client that
// is gone.
func (s *socket) sendError(e *openai.Error) {
	event := eventstream.ErrorEvent{Type: "error", Status: e.Status, Error: e}
	if e.RetryAfter > 0 {
		event.Headers = map[string]string{"retry-after": strconv.Itoa(int(e.RetryAfter.Round(time.Second).Seconds()))}
	}
	_ = s.send(event)
}

// send sends a message, and may be called from any goroutine. It does not end with the
// request, so that the client also receives the reason for that end. After an error the
// message is incomplete, and the connection of no use.
func (s *socket) send(v any) error {
	data, err := openai.Encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode an event: %w", err)
	}
	s.sending.Add(1)
	defer s.sending.Add(-1)
	if s.wire.Message(data) != nil {
		_ = s.conn.CloseNow()
		return turn.ErrClientGone
	}
	return nil
}
