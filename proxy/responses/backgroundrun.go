package responses

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/queue"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/workers/dispatch"
)

const (
	// longestQueued is the longest that a background response waits for a place on a worker.
	longestQueued = 24 * time.Hour
	// queuePause is the time until it tries again after it found no place.
	queuePause = time.Second
)

// run waits until the response may run, and runs it. The end of ctx ends it at any time.
func (b *background) run(ctx context.Context, place *queue.Place) {
	defer b.settle()
	waiting, cancel := context.WithTimeoutCause(ctx, longestQueued, openai.Timeout("request_timeout",
		fmt.Sprintf("no place on a worker became free within %s", longestQueued)))
	defer cancel()
	defer place.Leave()
	if err := place.Wait(waiting); err != nil {
		b.fail(err)
		return
	}
	for {
		err := b.try(ctx, place.Leave)
		if waiting.Err() != nil || !b.mayWait(err) {
			if err != nil && b.end == nil {
				b.fail(cause.Of(ctx, err))
			}
			return
		}
		select {
		case <-time.After(queuePause):
		case <-waiting.Done():
			b.fail(context.Cause(waiting))
			return
		}
	}
}

// mayWait reports whether an error is one for which a background response waits on.
func (b *background) mayWait(err error) bool {
	var known *openai.Error
	switch {
	case err == nil, b.end != nil, errors.Is(err, dispatch.ErrLogins), errors.Is(err, dispatch.ErrPaused):
		return false
	case errors.Is(err, dispatch.ErrBusy), errors.Is(err, dispatch.ErrQueueFull), errors.Is(err, dispatch.ErrNotReady):
		return true
	case errors.As(err, &known): // memory is full, or it lost its conversation while memory was full
		return known.Code == "overloaded" || known.Code == "concurrency_exceeded" || known.Code == "conversation_locked"
	}
	return false
}

// try runs the turn once there is a place for it. The error is the reason why the turn has not begun.
func (b *background) try(ctx context.Context, through func()) error {
	defer func() {
		if b.end == nil { // otherwise it is in memory until it is stored
			b.x.Grant.Release()
		}
	}()
	ctx, begin, cancel := b.Admission.BoundLater(ctx)
	defer cancel()
	req, err := b.request(ctx)
	if err != nil {
		return err
	}
	job, err := b.jobs.Find(ctx, b.x, req.Blank(b.id, b.created), req, nil, true)
	if err != nil {
		return err
	}
	s := &response{Endpoint: b.Endpoint, x: b.x, job: job, running: b.running, background: b, through: func() {
		begin()
		through()
	}}
	if b.events != nil {
		s.events = b.events
	}
	if req.NoGenerate {
		return s.warmUp(ctx)
	}
	return s.run(ctx)
}

// request reads the request from the store.
func (b *background) request(ctx context.Context) (*wire.Request, error) {
	size, err := b.Store.RequestSize(ctx, b.id)
	if err != nil {
		return nil, err
	}
	if err := b.x.Grant.Body.Acquire(ctx, limits.Expected(size)); err != nil {
		return nil, err
	}
	body, err := b.Store.Request(ctx, b.id)
	if err != nil {
		return nil, err
	}
	req, _, err := admission.Decode(ctx, b.Admission, b.x, body, decodeAgain)
	return req, err
}

// decodeAgain decodes a body that was taken in before, maybe under other settings.
func decodeAgain(body []byte, _ jsonbody.Reading) (*wire.Request, error) {
	return wire.Decode(body, jsonbody.Reading{IgnoreUnknown: true})
}

// beginBackground is Begin for a background response.
func (s *response) beginBackground() {
	s.builder.Queue() // followers have these events
	events := s.builder.Begin()
	if s.opened { // and these, from an attempt that was lost
		return
	}
	s.begun, s.opened = true, true
	s.through()
	s.background.progress(s.builder.Response())
	if s.events != nil {
		_ = s.events.write(events) // the next write has the same error
	}
}

// progress shows clients that the turn has begun. If it cannot, they see a response that is queued.
func (b *background) progress(response wire.Response) {
	object, err := openai.Encode(response)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.base), storeTimeout)
		defer cancel()
		_ = b.Store.Progress(ctx, b.id, object)
	}
}

// failBackground is Fail for a background response after the start of its turn.
func (s *response) failBackground(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), inflight.ErrCancelled) {
		return s.end(ctx, s.builder.Cancel(usageOf(s.x)))
	}
	s.background.failure = s.background.reason(err)
	return s.end(ctx, s.builder.Fail(s.background.failure, usageOf(s.x), false))
}

// reason is the error that clients see. It is the outcome of the exchange.
func (b *background) reason(err error) *openai.Error {
	e := b.Server.Error(b.x, err)
	b.x.Outcome, b.x.Status = e.Code, e.Status
	return e
}

// endBackground is end for a background response.
func (s *response) endBackground(events []eventstream.Event) error {
	s.ended = true
	m := s.made()
	r, err := m.toStore()
	if err != nil {
		return err
	}
	if s.x.Status == 0 {
		s.x.Status = http.StatusOK
	}
	s.commit()
	s.background.conclude(r, m.response, events)
	return nil
}
