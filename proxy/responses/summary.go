package responses

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// summary is a compaction in the making: the sink of the turn that summarises a conversation. It belongs to the goroutine
// of its request.
type summary struct {
	*Endpoint
	w        http.ResponseWriter
	x        *proxy.Exchange
	req      *openai.ResponseRequest
	blank    openai.Response
	output   []json.RawMessage // the messages that are kept
	standing []string

	attempt *turn.Attempt
	builder *openai.ResponseBuilder
}

// Begin implements turn.Sink.
func (s *summary) Begin(a *turn.Attempt) {
	s.attempt = a
	s.builder = openai.NewResponseBuilder(s.req, s.blank, "", proxy.NewID)
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
	text, err := summaryOf(s.builder, f)
	if err != nil {
		return err
	}
	content, ok := openai.Compacted{Summary: text, Standing: s.standing}.Encode()
	if !ok {
		return notCompacted("its developer messages are too long")
	}
	s.attempt.Commit()
	item := openai.CompactionItem(proxy.NewID("cmp_"), content)
	s.x.Settle()
	return s.Answers.JSON(s.w, openai.NewCompactedResponse(s.blank.ID, s.blank.CreatedAt, append(s.output, item),
		answer.Usage(s.x.Turn.Usage)))
}

// Fail implements turn.Sink.
func (s *summary) Fail(_ context.Context, err error) error { return err }

// summaryOf is the text that the model wrote in a turn that has ended.
func summaryOf(b *openai.ResponseBuilder, f turn.Finish) (string, error) {
	if f != turn.Stop {
		return "", notCompacted("the model endpoint cut the summary off")
	}
	b.End(answer.Finish(f), nil, 0)
	var texts []string
	for _, item := range b.FullOutput() {
		if item.Text != nil && strings.TrimSpace(*item.Text) != "" {
			texts = append(texts, *item.Text)
		}
	}
	if texts == nil {
		return "", notCompacted("the model wrote no summary")
	}
	return strings.Join(texts, "\n\n"), nil
}

func notCompacted(why string) error {
	return &openai.Error{
		Status: http.StatusBadGateway, Type: openai.TypeServer, Code: "compaction_failed",
		Message: "the conversation is not compacted: " + why +
			"; send the request again, or go on with the conversation as it is",
	}
}
