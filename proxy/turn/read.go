package turn

import (
	"context"
	"errors"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/turnerror"
	"codex-proxy/internal/cause"
)

// reader delivers the events of a turn.
type reader struct {
	*run
	turn      *appserver.Turn
	delivered time.Time // when the client last received something
	begun     bool      // it received something of this attempt
}

// read delivers the turn to the sink, and returns how it ended.
func (t *run) read(ctx context.Context, turn *appserver.Turn) (Finish, error) {
	finish, err := (&reader{run: t, turn: turn, delivered: time.Now()}).readAll(ctx)
	if errors.Is(err, ErrEnough) {
		return Enough, nil
	}
	if err != nil {
		t.blame(err)
		if !errors.Is(err, ErrClientGone) { // a write that failed is no consequence of the end of ctx
			err = cause.Of(ctx, err)
		}
		return 0, err
	}
	return finish, nil
}

func (r *reader) readAll(ctx context.Context) (Finish, error) {
	for {
		event, err := r.next(ctx)
		if err != nil {
			return 0, err
		}
		if end, ok := event.(appserver.TurnCompleted); ok {
			return finishOf(end)
		}
		if err := r.deliver(ctx, event); err != nil {
			return 0, err
		}
	}
}

func (r *reader) deliver(ctx context.Context, event appserver.Event) error {
	switch e := event.(type) {
	case appserver.TextDelta:
		if err := r.reserve(ctx, len(e.Text)); err != nil {
			return err
		}
		r.estimate.delivered(e.Text)
		if r.Report.FirstText.IsZero() {
			r.Report.FirstText = r.delivered
		}
		return r.sink.Text(e.ItemID, e.Text)
	case appserver.ReasoningDelta:
		r.span.Once(firstToken)
		r.estimate.delivered(e.Text)
		if !r.Reasoning {
			return nil
		}
		if err := r.reserve(ctx, len(e.Text)); err != nil {
			return err
		}
		return r.sink.Reasoning(e.ItemID, e.Part, e.Text)
	case appserver.ResponseItem:
		r.span.Once(firstToken)
		if err := r.sink.Reserve(ctx, len(e.Item)); err != nil {
			return err
		}
		if r.output.produced(e) {
			r.estimate.delivered(string(e.Item))
		}
		return r.sink.Item(e)
	case appserver.UsageUpdated:
		r.Report.Usage = &e.Usage
		r.estimate.counted()
	case appserver.Retrying:
		if e.Err.Account().Rotates() && r.mayRotate() { // codex 0.169 would try five times, for 6 s
			return e.Err
		}
	}
	return nil
}

// reserve prepares the delivery of a piece of output.
func (r *reader) reserve(ctx context.Context, bytes int) error {
	r.span.Once(firstToken)
	r.delivered, r.begun = time.Now(), true
	return r.sink.Reserve(ctx, bytes)
}

// next waits for one event. The silence of the worker ends the turn, not its duration,
// and progress that makes no event is no silence. The silence towards the client is
// another one: a model that thinks makes events of which the client receives nothing.
func (r *reader) next(ctx context.Context) (appserver.Event, error) {
	if !r.turn.Ready() {
		if err := r.sink.Flush(); err != nil {
			return nil, err
		}
	}
	until := time.Now().Add(r.IdleTimeout)
	for {
		event, err := r.turn.NextWithin(ctx, r.patience(until))
		if !errors.Is(err, appserver.ErrSilent) {
			return event, err
		}
		if later := r.turn.LastReceived().Add(r.IdleTimeout); later.After(until) {
			until = later
		}
		if !time.Now().Before(until) {
			r.lease.Suspect()
			return nil, &SilentError{r.IdleTimeout}
		}
		if err := r.breakSilence(); err != nil {
			return nil, err
		}
	}
}

// patience is how long the reader waits before it looks at both silences again.
func (r *reader) patience(until time.Time) time.Duration {
	silence, breaks := r.silence()
	if !breaks {
		return time.Until(until)
	}
	return min(time.Until(until), time.Until(r.delivered.Add(silence)))
}

func (r *reader) breakSilence() error {
	now := time.Now()
	silence, breaks := r.silence()
	if !breaks || now.Before(r.delivered.Add(silence)) {
		return nil
	}
	r.delivered, r.begun = now, true
	return r.sink.Silence()
}

// silence is the silence towards the client that the sink breaks next, if it does.
func (r *reader) silence() (length time.Duration, breaks bool) {
	switch {
	case r.begun || r.FirstSilence == 0:
		return r.Keepalive, r.BreakSilence
	case r.BreakSilence:
		return min(r.FirstSilence, r.Keepalive), true
	default:
		return r.FirstSilence, true
	}
}

// finishOf is how a turn ended. A response that the model endpoint cut short is a failed
// turn to codex, and an answer to a client.
func finishOf(e appserver.TurnCompleted) (Finish, error) {
	switch e.Status {
	case appserver.TurnCompletedOK:
		return Stop, nil
	case appserver.TurnCalledTools:
		return ToolCalls, nil
	case appserver.TurnFailed:
		return incomplete(e.Err)
	default:
		return 0, ErrInterrupted
	}
}

func incomplete(err *turnerror.Error) (Finish, error) {
	reason, incomplete := err.Incomplete()
	switch {
	case !incomplete:
		return 0, err
	case reason == "content_filter":
		return ContentFilter, nil
	default:
		return Length, nil
	}
}
