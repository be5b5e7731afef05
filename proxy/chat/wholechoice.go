package chat

import (
	"context"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/turn"
)

// wholeChoice is the sink of a choice that is sent when it is complete.
type wholeChoice struct {
	choice
	words, thoughts strings.Builder
	tools           []clienttool.Call
}

// Begin implements turn.Sink.
func (c *wholeChoice) Begin(a *turn.Attempt) {
	c.start(a)
	c.words, c.thoughts, c.tools = strings.Builder{}, strings.Builder{}, nil
}

// Text implements turn.Sink.
func (c *wholeChoice) Text(message, delta string) error {
	text, err := c.text(message, delta)
	c.words.WriteString(text)
	return err
}

// Reasoning implements turn.Sink.
func (c *wholeChoice) Reasoning(item string, part int, delta string) error {
	c.thoughts.WriteString(c.separateParts(item, part, delta))
	return nil
}

// Item implements turn.Sink.
func (c *wholeChoice) Item(item appserver.ResponseItem) error {
	if call, ok := c.callOf(item); ok {
		c.tools = append(c.tools, call)
	}
	return nil
}

// Flush implements turn.Sink.
func (c *wholeChoice) Flush() error { return nil }

// Silence implements turn.Sink.
func (c *wholeChoice) Silence() error { return nil }

// Finish implements turn.Sink.
func (c *wholeChoice) Finish(_ context.Context, f turn.Finish) error {
	finish, refusal := c.end(f)
	c.words.WriteString(c.stop.Rest())
	c.choices[c.index] = wire.ChoiceContent{
		Text: c.words.String(), Reasoning: c.thoughts.String(), Calls: c.tools, Finish: finish, Refusal: refusal,
	}
	return c.ended()
}
