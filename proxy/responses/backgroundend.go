package responses

import (
	"context"
	"errors"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// storeAgain is the time between two tries to store a response that has ended.
const storeAgain = 5 * time.Second

// errUnended ends a background response that nothing else has ended.
var errUnended = errors.New("a background response has come to no end")

// ensureEnd ends the response after a panic.
func (b *background) ensureEnd() {
	if !b.concluded {
		b.fail(errUnended)
	}
}

// fail ends a response whose turn has not begun: nothing of its request is in memory.
func (b *background) fail(err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.base), storeTimeout)
	defer cancel()
	var reason *openai.Error
	if !errors.Is(err, errCancelled) {
		reason = b.reason(err)
	}
	object, _ := b.Store.InFlightObject(ctx, b.x.Key.Name, b.id) // it is deleted, or cannot be read
	sequence := queued
	if b.events != nil {
		sequence = b.events.count
	}
	last, events, err := openai.EndResponse(object, sequence, reason)
	if err != nil {
		last, events, _ = openai.EndResponse([]byte(`{"object":"response","output":[]}`), sequence, reason)
		last.ID, last.CreatedAt, last.Background = b.id, b.created, true
	}
	if object, err = openai.Encode(last); err != nil { // strings always encode
		panic(err)
	}
	b.conclude(stored.Response{
		ID: b.id, Owner: b.x.Key.Name, Previous: b.previous, Conversation: b.conversation, Object: object,
		Unfinished: true,
	}, last, events)
}

// conclude stores the end of the response, and shows it to clients.
func (b *background) conclude(r stored.Response, last openai.Response, events []openai.ResponseEvent) {
	b.concluded = true
	if last.Status == openai.StatusCancelled {
		b.x.Outcome = openai.StatusCancelled
	}
	if b.events != nil {
		_ = b.events.write(events) // a log reports its errors by itself
		_ = b.events.Flush()
		r.Log = b.events.size()
		defer b.events.close()
	}
	b.x.Settle()
	b.metrics.ended.WithLabelValues(last.Status).Inc()
	err := b.finish(r)
	b.Store.Yield(b.conversation, b.id)
	if errors.Is(err, stored.ErrNoRoom) {
		last, err = b.finishWithout(r, last)
	}
	if errors.Is(err, stored.ErrNotFound) { // a client has deleted it
		b.running.end()
		return
	}
	b.running.last, b.running.log = &last, r.Log
	b.running.end()
	if err == nil {
		return
	}
	b.Server.Logger.Error("a background response that has ended cannot be stored yet",
		"request_id", b.x.ID, "response_id", b.id, "error", err)
	b.finishLater(r)
}

func (b *background) finish(r stored.Response) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.base), storeTimeout)
	defer cancel()
	return b.Store.Finish(ctx, r)
}

// finishWithout stores a response that is too large as a failed one.
func (b *background) finishWithout(r stored.Response, last openai.Response) (openai.Response, error) {
	if b.events != nil {
		b.events.check(stored.ErrNoRoom)
	}
	last.Output = []openai.OutputItem{}
	last.Status, last.Error = openai.StatusFailed, &openai.ResponseFailure{
		Code: openai.FailedServer, Message: "the response is too large to be kept (response_storage)",
	}
	object, err := openai.Encode(last)
	if err == nil {
		err = b.finish(stored.Response{ID: r.ID, Owner: r.Owner, Previous: r.Previous, Object: object, Unfinished: true})
	}
	return last, err
}

// finishLater stores a response once that is possible. Until then this process has its end.
func (b *background) finishLater(r stored.Response) {
	if b.events != nil {
		b.events.close()
	}
	b.answered()
	for {
		select {
		case <-time.After(storeAgain):
		case <-b.base.Done():
			return
		}
		if err := b.finish(r); err == nil || errors.Is(err, stored.ErrNotFound) {
			return
		}
	}
}
