package responses

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/stored"
)

const (
	// lookAgain is how often a follower looks at a log of which the kernel reports no change.
	lookAgain = time.Second
	// lookSoon is the first such interval if the last event of the log is not confirmed yet.
	lookSoon = 10 * time.Millisecond
	// lastWords is how long a follower goes on when the service ends all turns, for their ends.
	lastWords = 1500 * time.Millisecond
)

// resume serves GET /v1/responses/{id} with stream=true. Source: OpenAI API guide, "Background mode".
func (e *Endpoint) resume(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	after := -1
	if value := r.URL.Query().Get("starting_after"); value != "" {
		var err error
		if after, err = strconv.Atoi(value); err != nil || after < 0 {
			return openai.Invalid("invalid_value", "starting_after",
				"starting_after must be the sequence_number of an event")
		}
	}
	if e.Store == nil {
		return responseNotFound(r)
	}
	return e.follow(w, r, x, r.PathValue("id"), after, e.metrics.resumed.Inc)
}

// follow sends the events of a background response after one of them, until its end. It calls begun before the first.
func (e *Endpoint) follow(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, id string, after int,
	begun func()) error {
	f := &follower{Endpoint: e, id: id, owner: x.Key.Name, after: after, soon: lookSoon}
	if err := f.look(r.Context()); err != nil {
		return f.explain(r, err)
	}
	var err error
	f.reader, err = e.Store.ReadLog(r.Context(), f.owner, id, after)
	if err != nil && !errors.Is(err, stored.ErrElsewhere) {
		return f.explain(r, err)
	}
	defer f.close()
	defer e.Answers.CountStream()()
	begun()
	x.Stream = true
	f.stream, f.keepalive = e.Answers.Stream(w), !answer.KeepaliveOff(r)
	if err := f.stream.Send(func(io.Writer) error { return nil }); err != nil { // the header
		return err
	}
	return f.run(r.Context(), x)
}

// follower sends the log of a background response to a client. It belongs to the goroutine of its request.
type follower struct {
	*Endpoint
	id, owner string
	reader    *eventlog.Reader // nil: another host has the events, until the response has ended
	stream    *answer.Stream
	keepalive bool
	after     int
	ended     bool
	size      int64         // of the log, once the response has ended
	tail      []byte        // after the whole events of the log then; nil: nothing
	sent      time.Time     // when the client last got something
	soon      time.Duration // until the next look at a log without a confirmed end
}

// look finds out whether the response has ended. The error is stored.ErrNotFound if there is no log.
func (f *follower) look(ctx context.Context) error {
	run := f.running.Find(f.id, f.owner)
	if run != nil && run.IsOver() && (run.Log > 0 || run.Tail != nil) { // perhaps it is not stored yet
		f.ended, f.size, f.tail = true, run.Log, run.Tail
		return nil
	}
	if run != nil && !run.IsOver() && f.reader != nil {
		return nil
	}
	l, err := f.Store.Log(ctx, f.owner, f.id)
	if err == nil && l.Dead {
		if err = f.endAbandoned(ctx); err == nil {
			l, err = f.Store.Log(ctx, f.owner, f.id)
		}
	}
	f.ended, f.size = err == nil && l.Process == "", l.Size
	return err
}

// run sends events until the last one. When the service ends all turns, their last words are sent.
func (f *follower) run(ctx context.Context, x *proxy.Exchange) error {
	f.sent = time.Now()
	err := f.await(ctx)
	if err == nil {
		err = f.sendAll(ctx)
	}
	if errors.Is(err, proxy.ErrDeadline) && f.reader != nil {
		rest, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lastWords, err)
		defer cancel()
		err = f.sendAll(rest)
	}
	return f.cut(x, err)
}

// sendAll sends events until the last one, or the end of ctx.
func (f *follower) sendAll(ctx context.Context) error {
	for {
		if f.ended && f.tail == nil {
			f.reader.Ended(f.size)
		}
		some, err := f.send()
		if err != nil {
			return err
		}
		if f.tail != nil {
			return f.sendTail()
		}
		if done, err := f.reader.Done(); done {
			return err
		}
		if !some || f.reader.Ending() {
			if err := f.look(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		if f.ended {
			continue
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// send sends the new events of the log. It reports whether the log had some.
func (f *follower) send() (some bool, err error) {
	more, err := f.reader.Next()
	for more && err == nil {
		some = true
		err = f.stream.Write(func(w io.Writer) error { return f.reader.WriteTo(w, answer.Slice) })
		if err == nil {
			more, err = f.reader.Next()
		}
	}
	if some && err == nil {
		f.sent = time.Now()
		err = f.stream.Flush()
	}
	return some, err
}

// sendTail sends the last event, which the log may lack.
func (f *follower) sendTail() error {
	if f.reader.Count() <= f.after {
		return nil
	}
	return f.stream.Send(func(w io.Writer) error {
		_, err := w.Write(f.tail)
		return err
	})
}

// wait waits for a change of the log, or until it is time to look without one, and breaks the silence of the stream.
func (f *follower) wait(ctx context.Context) error {
	f.reader.Rest()
	again := time.NewTimer(f.patience())
	defer again.Stop()
	select {
	case <-f.reader.Changed():
	case <-again.C:
		if f.keepalive && time.Since(f.sent) >= f.Keepalive {
			f.sent = time.Now()
			return f.stream.Keepalive()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// patience is the longest that wait waits.
func (f *follower) patience() time.Duration {
	switch {
	case f.reader.Ending():
		f.soon = min(2*f.soon, lookAgain)
		return f.soon / 2
	case f.keepalive:
		return max(0, min(lookAgain, time.Until(f.sent.Add(f.Keepalive))))
	default:
		return lookAgain
	}
}

// cut ends a stream by an error, of which its client gets an event.
func (f *follower) cut(x *proxy.Exchange, err error) error {
	if err == nil || proxy.ClientGone(err) {
		return err
	}
	switch {
	case errors.Is(err, stored.ErrNotFound), errors.Is(err, eventlog.ErrNone):
		err = openai.Invalid("response_not_found", "", "the response is deleted, or its events are lost; "+
			"GET the response without stream")
	case errors.Is(err, eventlog.ErrCut):
		err = openai.Unavailable("events_lost", "the end of the events is lost; GET the response without stream", 0)
	}
	_ = f.stream.Send(func(w io.Writer) error {
		return eventstream.Write(w, eventstream.StreamError(f.Server.Error(x, err), f.count()))
	})
	return err
}

// explain is the error for a stream that cannot begin.
func (f *follower) explain(r *http.Request, err error) error {
	if !errors.Is(err, stored.ErrNotFound) && !errors.Is(err, eventlog.ErrNone) {
		return cause.Of(r.Context(), err)
	}
	if f.exists(r.Context()) {
		return openai.Invalid("unsupported_parameter", "stream", "the events of this response are not kept: "+
			"only those of responses that were created with background and stream are; leave stream out")
	}
	return responseNotFound(r)
}

func (f *follower) exists(ctx context.Context) bool {
	if _, err := f.Store.InFlight(ctx, f.owner, f.id); err == nil {
		return true
	}
	if run := f.running.Find(f.id, f.owner); run != nil && !run.IsOver() { // one that is over may be deleted already
		return true
	}
	_, err := f.Store.ObjectSize(ctx, f.owner, f.id)
	return err == nil
}

// await waits until a response of another host has ended, and reads its events then. It breaks the silence of the
// stream.
func (f *follower) await(ctx context.Context) (err error) {
	for f.reader == nil {
		again := time.NewTimer(f.patienceElsewhere())
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		if f.keepalive && time.Since(f.sent) >= f.Keepalive {
			f.sent = time.Now()
			if err := f.stream.Keepalive(); err != nil {
				return err
			}
		}
		if err := f.look(ctx); err != nil && !errors.Is(err, stored.ErrUnavailable) {
			return err
		}
		f.reader, err = f.Store.ReadLog(ctx, f.owner, f.id, f.after)
		if err != nil && !errors.Is(err, stored.ErrElsewhere) && !errors.Is(err, stored.ErrUnavailable) {
			return err
		}
	}
	return nil
}

// patienceElsewhere is the longest that await waits.
func (f *follower) patienceElsewhere() time.Duration {
	if !f.keepalive {
		return lookAgain
	}
	return max(0, min(lookAgain, time.Until(f.sent.Add(f.Keepalive))))
}

// count is the number of events that the client has, or that it skips.
func (f *follower) count() int {
	if f.reader == nil {
		return f.after + 1
	}
	return f.reader.Count()
}

func (f *follower) close() {
	if f.reader != nil {
		f.reader.Close()
	}
}
