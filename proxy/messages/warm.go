package messages

import (
	"context"
	"io"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/tokens"
)

// warm answers a request with max_tokens 0: Anthropic's API reads the prompt into its cache, and generates nothing.
// codex has no such turn, so nothing runs. The usage is the estimated tokens of the input, as in count.
func (m *message) warm(ctx context.Context) error {
	planned, err := planTurn(m.req)
	if err != nil {
		return err
	}
	if err := m.x.Grant.Body.Add(ctx, tokens.Memory(&planned.turn)); err != nil {
		return err
	}
	if m.head.InputTokens, err = tokens.Turn(ctx, &planned.turn); err != nil {
		return cause.Of(ctx, err)
	}
	builder := m.newBuilder("")
	events := builder.End(anthropic.Stop{Reason: anthropic.StopMaxTokens}, nil)
	if !m.req.Stream {
		return m.Answers.JSON(m.w, builder.Message())
	}
	m.stream = m.Answers.Stream(m.w)
	return m.stream.Send(func(w io.Writer) error { return m.events.Write(w, events) })
}
