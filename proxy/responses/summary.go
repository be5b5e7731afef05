package responses

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/turn"
)

// summary is a compaction in the making: the sink of the turn that summarises a conversation. It belongs to the
// goroutine of its request.
type summary struct {
	*Endpoint
	w      http.ResponseWriter
	x      *proxy.Exchange
	req    *wire.Request
	blank  wire.Response
	output []json.RawMessage // the messages that are kept

	attempt *turn.Attempt
	builder *eventstream.Builder
}

// Begin implements turn.Sink.
func (s *summary) Begin(a *turn.Attempt) {
	s.attempt = a
	s.builder = eventstream.New(s.req, s.blank, "", proxy.NewID)
	s.w.Header().Set("X-Codex-Attempts", strconv.Itoa(a.Number))
}

// Reserve implements turn.Sink.
func (s *summary) Reserve(ctx context.Context, bytes int) error {
	return s.x.Grant.Answer.Reserve(ctx, bytes)
}

// Text implements turn.Sink.
func (s *summary) Text(item, delta string) error {
	s.builder.Text(item, delta)
	return nil
}

// Reasoning implements turn.Sink.
func (s *summary) Reasoning(string, int, string) error { return nil }

// Item implements turn.Sink.
func (s *summary) Item(item appserver.ResponseItem) error {
	s.builder.Item(item.Item)
	return nil
}

// Flush implements turn.Sink.
func (s *summary) Flush() error { return nil }

// Silence implements turn.Sink.
func (s *summary) Silence() error { return nil }

// Finish implements turn.Sink.
func (s *summary) Finish(_ context.Context, f turn.Finish) error {
	if f != turn.Stop {
		return eventstream.NotCompacted("the model endpoint cut the summary off")
	}
	if _, err := s.builder.Compact(); err != nil {
		return err
	}
	s.attempt.Commit()
	for _, item := range s.builder.FullOutput() {
		s.output = append(s.output, wire.CompactionItem(item.ID, item.Encrypted))
	}
	s.x.Settle()
	return s.Answers.JSON(s.w, wire.NewCompactedResponse(s.blank.ID, s.blank.CreatedAt, s.output,
		answer.Usage(s.x.Turn.Usage)))
}

// Fail implements turn.Sink.
func (s *summary) Fail(_ context.Context, err error) error { return err }
