package responses

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// storeAgain is the time between two tries to store a response that has ended.
const storeAgain = time.Second

// errUnended ends a background response that nothing else has ended.
var errUnended = errors.New("a background response has come to no end")

// ending is the end of a background response.
type ending struct {
	response stored.Response
	last     wire.Response
	replaced *replaced // nil: its events are in the log
	logged   bool      // the journal has the failure to store it
}

// replaced is an end in the place of one that cannot be kept.
type replaced struct {
	begun  []byte        // the response before its end
	reason *openai.Error // nil: a client has cancelled it
	events []byte        // its last events; nil: it is not known how many there are before them
}

// fail ends a response before the start of its turn: nothing of its request is in memory.
func (b *background) fail(err error) {
	b.failure = nil
	if !errors.Is(err, inflight.ErrCancelled) {
		b.failure = b.reason(err)
	}
	sequence := queued
	if b.events != nil {
		sequence = b.events.count
	}
	last, events := b.endOf(b.begun(), sequence, b.failure)
	b.conclude(b.unfinished(last), last, events)
}

// begun is the response as clients get it before its end; nil: it is deleted, or cannot be read.
func (b *background) begun() []byte {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.base), storeTimeout)
	defer cancel()
	object, _ := b.Store.InFlightObject(ctx, b.x.Key.Name, b.id)
	return object
}

// endOf returns the end of a response that was begun, and the events that are missing.
func (b *background) endOf(begun []byte, sequence int, reason *openai.Error) (wire.Response, []eventstream.Event) {
	last, events, err := eventstream.End(begun, sequence, reason)
	if err != nil {
		last, events, _ = eventstream.End([]byte(`{"object":"response","output":[]}`), sequence, reason)
		last.ID, last.CreatedAt, last.Background = b.id, b.created, true
	}
	return last, events
}

// unfinished is how a response without its input and output is stored.
func (b *background) unfinished(last wire.Response) stored.Response {
	object, err := openai.Encode(last)
	if err != nil { // strings always encode
		panic(err)
	}
	return stored.Response{
		ID: b.id, Owner: b.x.Key.Name, Previous: b.previous, Conversation: b.conversation, Object: object,
		Unfinished: true,
	}
}

// conclude has an end for the response, which settle stores. Events that cannot be written fail it.
func (b *background) conclude(r stored.Response, last wire.Response, events []eventstream.Event) {
	b.end = &ending{response: r, last: last}
	b.x.Settle()
	if b.events == nil {
		return
	}
	err := b.events.finish(events)
	switch {
	case err == nil:
		b.end.response.Log = b.events.log.Size()
	case last.Status == wire.StatusCancelled:
		b.replace(nil)
	case last.Status == wire.StatusFailed:
		b.replace(b.failure)
	default:
		b.replace(b.reason(err))
	}
}

// replace ends the response without its output, for a reason; nil: a client has cancelled it.
func (b *background) replace(reason *openai.Error) {
	begun := b.begun()
	last, _ := b.endOf(begun, 0, reason)
	b.end = &ending{response: b.unfinished(last), last: last, replaced: &replaced{begun: begun, reason: reason}}
}

// settle stores the end, and shows it to clients. One that failed or was cancelled is shown before it is stored, if
// that takes long. Any other is not: the next process would not know it if this one ended, and fail the response.
func (b *background) settle() {
	if b.end == nil { // after a panic
		b.fail(errUnended)
	}
	for {
		err := b.keep()
		switch {
		case err == nil:
			b.show(b.end)
			return
		case errors.Is(err, stored.ErrNotFound): // a client has deleted it
			b.show(nil)
			return
		case errors.Is(err, stored.ErrNoRoom) && b.end.replaced == nil:
			b.replace(b.reason(errTooLarge))
			continue
		}
		b.report(err)
		if b.end.response.Unfinished || !jobs.Extends(b.end.last.Status) {
			b.show(b.end)
			b.answered()
		}
		if !b.pause() {
			return
		}
	}
}

// report reports once that the end cannot be stored.
func (b *background) report(err error) {
	if b.end.logged {
		return
	}
	b.end.logged = true
	b.Server.Logger.Error("a background response that has ended cannot be stored yet",
		"request_id", b.x.ID, "response_id", b.id, "error", err)
}

// pause waits for the next try. It reports false if the service has ended all turns.
func (b *background) pause() bool {
	if b.base.Err() != nil {
		return false
	}
	select {
	case <-time.After(storeAgain):
	case <-b.base.Done():
	}
	return true
}

// keep stores the end.
func (b *background) keep() error {
	if b.end.replaced != nil && b.events != nil {
		if err := b.endLog(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.base), storeTimeout)
	defer cancel()
	return b.Store.Finish(ctx, b.end.response)
}

// endLog replaces the end of the log.
func (b *background) endLog() error {
	r := b.end.replaced
	size, err := b.Store.Logs().End(b.id, func(sequence int) (events []byte, err error) {
		if r.events == nil {
			_, missing := b.endOf(r.begun, sequence, r.reason)
			r.events, err = eventstream.Encode(missing...)
		}
		return r.events, err
	})
	if errors.Is(err, fs.ErrNotExist) { // it was removed
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.base), storeTimeout)
		defer cancel()
		return b.Store.LoseLog(ctx, b.id)
	}
	b.end.response.Log = size
	return err
}

// show shows the end to clients of this process, once, and to others when it is stored; nil: it is deleted.
func (b *background) show(end *ending) {
	if b.shown {
		return
	}
	b.shown = true
	if b.end.last.Status == wire.StatusCancelled {
		b.x.Outcome = wire.StatusCancelled
	}
	b.metrics.ended.WithLabelValues(b.end.last.Status).Inc()
	b.Store.Yield(b.conversation, b.id)
	if end != nil {
		b.running.Last, b.running.Log = &end.last, end.response.Log
		if end.replaced != nil {
			b.running.Tail = end.replaced.events
		}
	}
	b.running.End()
	if b.events != nil {
		b.events.log.Close()
	}
}

// errTooLarge is the reason of the failure of a response that is too large.
var errTooLarge = &openai.Error{
	Status: http.StatusInternalServerError, Type: openai.TypeServer, Code: "responses_unavailable",
	Message: "the response is too large to be kept (response_storage)",
}
