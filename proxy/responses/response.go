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
	"codex-proxy/proxy/turn"
	"codex-proxy/workers"
)

const (
	// streamSilence is how long after the start of its turn a stream sends response.created, unless output is sent
	// earlier. The model endpoint refuses a request within that time, and the refusal keeps its HTTP status, on which
	// clients act: they wait and try again (429, 503), or report it (400, 404).
	streamSilence = 2 * time.Second
	// socketSilence is the same on a WebSocket, where no error has an HTTP status.
	socketSilence = time.Millisecond
)

// errCancelled ends a response that a client has cancelled.
var errCancelled = errors.New("the response was cancelled")

// eventWriter sends the events of a response as they arrive.
type eventWriter interface {
	write([]openai.ResponseEvent) error
	Flush() error
	Keepalive() error
}

// response is a response in the making: the sink of its turn. It belongs to the goroutine
// of its request.
type response struct {
	*Endpoint
	w         http.ResponseWriter
	x         *proxy.Exchange
	job       *job
	events    eventWriter   // nil: the response is sent as a whole
	silence   time.Duration // after the start of the turn, until the first events are sent
	keepalive bool          // comments may break the silence of the stream
	alert     bool          // an event error precedes response.failed

	background *background // nil: its client waits for it
	through    func()      // is called when the turn of a background response has its place

	held    int64    // bytes of the request that it needs to the end
	running *running // its entry among the responses in flight
	attempt *turn.Attempt
	builder *openai.ResponseBuilder
	begun   bool // something was sent, if only a comment
	opened  bool // the first events were sent
	ended   bool // the end was sent
	kept    *remembered
}

// answer runs the turn, or does without one.
func (s *response) answer(ctx context.Context) (*remembered, error) {
	if s.job.req.NoGenerate {
		return s.warmUp(ctx)
	}
	return s.run(ctx)
}

// warmUp answers a request without a turn of the model. The next request continues its
// input.
func (s *response) warmUp(ctx context.Context) (*remembered, error) {
	if s.w != nil && s.Turns.Pool.Lacks(s.job.req.Model, s.x.Accounts...) { // a turn would find out
		return nil, workers.ErrNoModel
	}
	s.held = limits.Everything
	s.builder = openai.NewResponseBuilder(s.job.req, s.job.blank, "", proxy.NewID)
	if s.background != nil {
		s.beginBackground()
	}
	err := s.end(ctx, s.builder.End(openai.FinishStop, &openai.Usage{}, time.Now().Unix()))
	return s.kept, err
}

// run runs the turn. Nothing is sent while the turn can still be lost and run again. It returns the response for the
// connection to remember; nil if the response did not end normally.
func (s *response) run(ctx context.Context) (*remembered, error) {
	planned, err := planTurn(s.job.req, s.job.conversation())
	if err != nil {
		return nil, err
	}
	s.release(planned.turn.Footprint())
	ctx, running, leave := s.Endpoint.running.enter(ctx, s.job.blank.ID, s.x.Key.Name)
	defer leave()
	s.running = running
	err = s.runTurn(ctx, planned)
	switch {
	case !errors.Is(err, errCancelled):
	case s.ended:
		err = nil
	default: // cancelled before the turn began, so that there is nothing to answer
		err = turn.ErrClientGone
	}
	return s.kept, err
}

// runTurn runs the turn of a plan.
func (s *response) runTurn(ctx context.Context, planned *plan) error {
	if err := s.Reserve(ctx, planned.kept.output(false)); err != nil {
		return err
	}
	planned.kept = retained{}
	s.job.req.EchoUpdated(&s.job.blank)
	s.builder = openai.NewResponseBuilder(s.job.req, s.job.blank, "", proxy.NewID) // until there is a worker
	return s.Turns.Run(ctx, turn.Request{
		ID: s.x.ID, Key: s.x.Key.Name, Arrived: s.x.Began, Name: s.x.Model,
		Turn: &planned.turn, Decoding: planned.images, Fit: planned.reasoning.Fit(s.Turns),
		CacheKey: s.job.cacheKey(), Opening: s.job.opening,
		Prefer:    cmp.Or(planned.reasoning.Prefers(s.Turns.Pool.Names()), s.job.prefer),
		Accounts:  s.x.Accounts,
		Reasoning: true, FirstSilence: s.silence, BreakSilence: s.keepalive, Span: s.x.Span, Report: &s.x.Turn,
	}, s)
}

// release releases the parts of the request that the plan has.
func (s *response) release(planned int64) {
	s.job.req.Input = nil
	s.held = limits.Everything // until the response is stored
	if !s.job.kept() {
		s.job.history, s.job.input = nil, nil
		s.held = limits.PerByte * int64(s.job.blank.Size())
		s.x.Grant.Body.Shrink(s.held + planned)
	}
}

// Begin implements turn.Sink.
func (s *response) Begin(a *turn.Attempt) {
	s.attempt = a
	s.builder = openai.NewResponseBuilder(s.job.req, s.job.blank, reasoning.Mark(a.Worker), proxy.NewID)
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
	var events []openai.ResponseEvent
	switch {
	case f == turn.Stop && s.job.req.Compaction != nil:
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
	case errors.Is(context.Cause(ctx), errCancelled):
		return cmp.Or(s.end(ctx, s.builder.Cancel(usage)), errCancelled)
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
func (s *response) send(events []openai.ResponseEvent) error {
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
func (s *response) end(ctx context.Context, events []openai.ResponseEvent) (err error) {
	if s.background != nil {
		return s.endBackground(events)
	}
	if s.kept, err = s.keep(ctx); err != nil {
		s.builder.TakeBack()
		return cmp.Or(s.send(events[:len(events)-1]), err)
	}
	s.close(s.job)
	if s.running != nil {
		s.running.ended(s.builder.Response())
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
