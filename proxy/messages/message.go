package messages

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/stopsequence"
	"codex-proxy/proxy/turn"
)

// message is a message in the making: the sink of its turn. It belongs to the goroutine of its
// request. Nothing is sent before the model's first output or the first ping, so that a failure
// until then is a real HTTP status.
type message struct {
	*Endpoint
	w         http.ResponseWriter
	x         *proxy.Exchange
	req       *anthropic.MessageRequest
	head      anthropic.Head
	stream    *answer.Stream // nil: the message is sent as a whole
	events    anthropic.EventWriter
	keepalive bool // pings may break the silence of the stream

	attempt *turn.Attempt
	builder *anthropic.Builder
	begun   bool // message_start was sent
	stop    *stopsequence.Cutter
	item    string // the id of the model's message that is arriving
}

// run runs the turn.
func (m *message) run(ctx context.Context) error {
	planned, err := planTurn(m.req)
	if err != nil {
		return err
	}
	m.req.Messages, m.req.System = nil, nil // they are in the plan, and would stay as long as the answer takes
	m.x.Grant.Body.Shrink(planned.turn.Footprint())
	m.builder = m.newBuilder("") // until there is a worker
	return m.Turns.Run(ctx, turn.Request{
		ID: m.x.ID, Key: m.x.Key.Name, Arrived: m.x.Began, Name: m.x.Model,
		Turn: &planned.turn, CacheKey: m.req.CacheKey, Decoding: planned.images, Fit: planned.reasoning.Fit(m.Turns),
		Prefer:   planned.reasoning.Prefers(m.Turns.Pool.Names()),
		Accounts: m.x.Accounts, Session: m.x.Session,
		Reasoning: m.req.Thinking, BreakSilence: m.keepalive, Span: m.x.Span, Report: &m.x.Turn,
	}, m)
}

// streamed answers in server-sent events as the turn goes on. An error after the first event is
// an event, too; message_stop never follows it. A client that has gone gets no error: a client
// that only shut down its sending side would read it.
func (m *message) streamed(ctx context.Context, keepalive bool) error {
	defer m.Answers.CountStream()()
	m.stream, m.keepalive = m.Answers.Stream(m.w), keepalive
	err := m.run(ctx)
	if err == nil || !m.stream.Begun() || proxy.ClientGone(err) {
		return err
	}
	failed := anthropic.ErrorOf(m.Server.Error(m.x, err), m.x.ID)
	_ = m.stream.Send(func(w io.Writer) error { return anthropic.WriteError(w, failed) })
	return err
}

func (m *message) newBuilder(signature string) *anthropic.Builder {
	return anthropic.NewBuilder(m.req, m.head, signature)
}

// Begin implements turn.Sink.
func (m *message) Begin(a *turn.Attempt) {
	m.attempt, m.builder = a, m.newBuilder(reasoning.Origin(a.Worker))
	if m.begun {
		m.builder.Begin() // the client has these events from an attempt that was lost
	}
	m.stop, m.item = nil, ""
	m.w.Header().Set("X-Codex-Attempts", strconv.Itoa(a.Number))
}

// Reserve implements turn.Sink.
func (m *message) Reserve(ctx context.Context, bytes int) error {
	return m.x.Grant.Answer.Reserve(ctx, bytes)
}

// Flush implements turn.Sink.
func (m *message) Flush() error {
	if m.stream == nil {
		return nil
	}
	return m.stream.Flush()
}

// Silence implements turn.Sink. A ping is no output: the turn can still run again.
func (m *message) Silence() error {
	if m.stream == nil {
		return nil
	}
	if err := m.write(m.builder.Ping()); err != nil {
		return err
	}
	return m.stream.Flush()
}

// Fail implements turn.Sink: the stream reports the error.
func (m *message) Fail(_ context.Context, err error) error { return err }

// send sends events with output of the model, if the message is not sent as a whole.
func (m *message) send(events []anthropic.Event) error {
	if m.stream == nil || len(events) == 0 {
		return nil
	}
	m.commit()
	return m.write(events)
}

// commit is called before any output is sent.
func (m *message) commit() {
	m.attempt.Commit()
	m.x.Grant.Body.Release()
}

func (m *message) write(events []anthropic.Event) error {
	m.begun = true
	return m.stream.Write(func(w io.Writer) error { return m.events.Write(w, events) })
}
