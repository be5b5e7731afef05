package proxy

import (
	"strings"

	"codex-proxy/proxy/openai"
)

// wholeChoice collects a choice.
type wholeChoice struct {
	words, thoughts strings.Builder
	said            openai.ChoiceContent
}

func (c *wholeChoice) text(delta string) error {
	c.words.WriteString(delta)
	return nil
}

func (c *wholeChoice) reasoning(delta string) error {
	c.thoughts.WriteString(delta)
	return nil
}

func (c *wholeChoice) call(call openai.ToolCall) error {
	c.said.Calls = append(c.said.Calls, call)
	return nil
}

func (c *wholeChoice) end(finish, refusal string) error {
	c.said.Text, c.said.Reasoning = c.words.String(), c.thoughts.String()
	c.said.Finish, c.said.Refusal = finish, refusal
	return nil
}
