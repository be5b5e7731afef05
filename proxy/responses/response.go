package responses

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/turn"
	"codex-proxy/workers/dispatch"
)

const (
	// streamSilence is how long after the start of its turn a stream sends response.created, unless output is sent
	// earlier. The model endpoint refuses a request within that time, and the refusal keeps its HTTP status, on which
	// clients act: they wait and try again (429, 503), or report it (400, 404).
	streamSilence = 2 * time.Second
	// socketSilence is the same on a WebSocket, where no error has an HTTP status.
	socketSilence = time.Millisecond
)

// response is a response in the making: the sink of its turn. It belongs to the goroutine
// of its request.
type response struct {
	*Endpoint
	w         http.ResponseWriter
	x         *proxy.Exchange
	job       *jobs.Job
	events    eventWriter   // nil: the response is sent as a whole
	silence   time.Duration // after the start of the turn, until the first events are sent
	keepalive bool          // comments may break the silence of the stream
	alert     bool          // an event error precedes response.failed

	background *background // nil: its client waits for it
	through    func()      // is called when the turn of a background response has its place

	held    int64              // bytes of the request that it needs to the end
	running *inflight.Response // its entry among the responses in flight
	attempt *turn.Attempt
	builder *eventstream.Builder
	begun   bool // something was sent, if only a comment
	opened  bool // the first events were sent
	ended   bool // the end was sent
	kept    *jobs.Remembered
}

// answer runs the turn, or does without one. It returns the response for the connection to remember; nil if the
// response did not end normally.
func (s *response) answer(ctx context.Context) (*jobs.Remembered, error) {
	run := s.run
	if s.job.Req.NoGenerate {
		run = s.warmUp
	} else {
		var leave func()
		ctx, s.running, leave = s.Endpoint.running.Enter(ctx, s.job.Blank.ID, s.x.Key.Name)
		defer leave()
	}
	err := run(ctx)
	switch {
	case !errors.Is(err, inflight.ErrCancelled):
	case s.ended:
		err = nil
	default: // cancelled before the turn began, so that there is nothing to answer
		err = turn.ErrClientGone
	}
	return s.kept, err
}

// warmUp answers a request without a turn of the model. The next request continues its
// input.
func (s *response) warmUp(ctx context.Context) error {
	if s.w != nil && s.Turns.Pool.Lacks(s.job.Req.Model, s.x.Accounts...) { // a turn would find out
		return dispatch.ErrNoModel
	}
	s.held = limits.Everything
	s.builder = eventstream.New(s.job.Req, s.job.Blank, "", proxy.NewID)
	if s.background != nil {
		s.beginBackground()
	}
	return s.end(ctx, s.builder.End(openai.FinishStop, &openai.Usage{}, time.Now().Unix()))
}

// run runs the turn. Nothing is sent while the turn can still be lost and run again.
func (s *response) run(ctx context.Context) error {
	planned, err := plan.New(s.job.Req, s.job.Conversation())
	if err != nil {
		return err
	}
	s.release(planned.Turn.Footprint())
	if err := s.Reserve(ctx, planned.Kept.Output(false)); err != nil {
		return err
	}
	planned.Kept = plan.Retained{}
	s.job.Req.EchoUpdated(&s.job.Blank)
	s.builder = eventstream.New(s.job.Req, s.job.Blank, "", proxy.NewID) // until there is a worker
	return s.Turns.Run(ctx, turn.Request{
		ID: s.x.ID, Key: s.x.Key.Name, Arrived: s.x.Began, Name: s.x.Model,
		Turn: &planned.Turn, Decoding: planned.Images, Fit: planned.Reasoning.Fit(s.Turns),
		CacheKey: s.job.CacheKey(), Opening: s.job.Opening,
		Prefer:   cmp.Or(planned.Reasoning.Prefers(s.Turns.Pool.Names()), s.job.Prefer),
		Accounts: s.x.Accounts, Session: s.x.Session,
		Reasoning: true, FirstSilence: s.silence, BreakSilence: s.keepalive, Span: s.x.Span, Report: &s.x.Turn,
	}, s)
}

// release releases the parts of the request that the plan has.
func (s *response) release(planned int64) {
	s.job.Req.Input = nil
	s.held = limits.Everything // until the response is stored
	if !s.job.Kept() {
		s.job.History, s.job.Input = nil, nil
		s.held = limits.PerByte * int64(s.job.Blank.Size())
		s.x.Grant.Body.Shrink(s.held + planned)
	}
}

// Begin implements turn.Sink.
func (s *response) Begin(a *turn.Attempt) {
	s.attempt = a
	s.builder = eventstream.New(s.job.Req, s.job.Blank, reasoning.Origin(a.Worker), proxy.NewID)
	if s.background != nil {
		s.beginBackground()
	} else if s.opened {
		s.builder.Begin() // the client has these events from an attempt that was lost
	}
	if s.w != nil {
		s.w.Header().Set("X-Codex-Attempts", strconv.Itoa(a.Number))
	}
}

// Reserve implements turn.Sink.
func (s *response) Reserve(ctx context.Context, bytes int) error {
	return s.x.Grant.Answer.Reserve(ctx, bytes)
}

// Text implements turn.Sink.
func (s *response) Text(item, delta string) error { return s.send(s.builder.Text(item, delta)) }

// Reasoning implements turn.Sink.
func (s *response) Reasoning(item string, part int, delta string) error {
	return s.send(s.builder.Reasoning(item, part, delta))
}

// Item implements turn.Sink.
func (s *response) Item(item appserver.ResponseItem) error { return s.send(s.builder.Item(item.Item)) }

// Flush implements turn.Sink.
func (s *response) Flush() error {
	if s.events == nil {
		return nil
	}
	return s.events.Flush()
}

// Silence implements turn.Sink. The first events, which every turn has, break the first silence, once; comments break
// every other silence.
func (s *response) Silence() error {
	switch {
	case s.events == nil:
		return nil
	case s.attempt != nil && !s.opened:
		if err := s.send(s.builder.Begin()); err != nil {
			return err
		}
		return s.events.Flush()
	case !s.keepalive:
		return nil
	default:
		s.begun = true
		return s.events.Keepalive()
	}
}

// Finish implements turn.Sink.
func (s *response) Finish(ctx context.Context, f turn.Finish) error {
	var events []eventstream.Event
	switch {
	case f == turn.Stop && s.job.Req.Compaction != nil:
		var err *openai.Error
		if events, err = s.builder.Compact(); err != nil {
			return err
		}
	case f == turn.Stop && !s.builder.HasOutput() && answer.Wrote(s.x.Turn.Usage):
		events = s.builder.Refuse(answer.Withheld)
	}
	events = append(events, s.builder.End(answer.Finish(f), answer.Usage(s.x.Turn.Usage), time.Now().Unix())...)
	return s.end(ctx, events)
}

// Fail implements turn.Sink. A cancelled response is an answer once its turn has begun, and
// so is a failed one of which something was sent.
func (s *response) Fail(ctx context.Context, err error) error {
	usage := usageOf(s.x)
	switch {
	case s.ended, s.attempt == nil && !s.begun:
		return err
	case s.background != nil:
		return s.failBackground(ctx, err)
	case errors.Is(context.Cause(ctx), inflight.ErrCancelled):
		return cmp.Or(s.end(ctx, s.builder.Cancel(usage)), inflight.ErrCancelled)
	case !s.begun, proxy.ClientGone(err):
		return err
	default:
		_ = s.end(ctx, s.builder.Fail(s.Server.Error(s.x, err), usage, s.alert))
		return err
	}
}

// usageOf is the usage of an exchange's turn; nil: codex reported nothing.
func usageOf(x *proxy.Exchange) *openai.Usage { return answer.Usage(x.Turn.Usage) }

// send sends events, if the response is not sent as a whole.
func (s *response) send(events []eventstream.Event) error {
	if s.events == nil || len(events) == 0 {
		return nil
	}
	s.begun, s.opened = true, true
	if !events[len(events)-1].Opens() {
		s.commit()
	}
	return s.events.write(events)
}

// commit is called before any output is sent.
func (s *response) commit() {
	if s.attempt != nil {
		s.attempt.Commit()
	}
	s.x.Grant.Body.Shrink(s.held)
}

// end stores the response and sends its end, in this order: a client may refer to the
// response, and to its conversation, as soon as it has the end.
func (s *response) end(ctx context.Context, events []eventstream.Event) (err error) {
	if s.background != nil {
		return s.endBackground(events)
	}
	if s.kept, err = s.made().keep(ctx); err != nil {
		s.builder.TakeBack()
		return cmp.Or(s.send(events[:len(events)-1]), err)
	}
	s.jobs.Close(s.job)
	if s.running != nil {
		s.running.Ended(s.builder.Response())
	}
	s.x.Settle()
	s.ended = true
	if s.events == nil {
		s.commit()
		return s.Answers.JSON(s.w, s.builder.Response())
	}
	if err := s.send(events); err != nil {
		return err
	}
	return s.events.Flush()
}
