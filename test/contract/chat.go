package contract

import (
	"encoding/json"
	"fmt"
)

type message struct {
	Role             string
	Content          *string
	Refusal          *string
	ReasoningContent string     `json:"reasoning_content"`
	ToolCalls        []toolCall `json:"tool_calls"`
}

type toolCall struct {
	Index    *int // in chunks only
	ID       string
	Type     string
	Function struct{ Name, Arguments string }
}

type usage struct {
	TotalTokens int `json:"total_tokens"`
}

// Completion checks a whole chat completion of n choices.
func (s *Schema) Completion(data []byte, n int) ([]Answer, error) {
	if err := s.Check(Completion, data); err != nil {
		return nil, err
	}
	var c struct {
		ID, Model string
		Choices   []struct {
			Index        int
			Message      message
			FinishReason string `json:"finish_reason"`
		}
		Usage *usage
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if len(c.Choices) != n {
		return nil, fmt.Errorf("%d choices, not %d", len(c.Choices), n)
	}
	answers := make([]Answer, n)
	for i, choice := range c.Choices {
		a := Answer{ID: c.ID, Model: c.Model, Finish: choice.FinishReason, Reasoning: choice.Message.ReasoningContent}
		if choice.Index != i || choice.Message.Role != "assistant" {
			return nil, fmt.Errorf("choice %d: bad index or role", i)
		}
		a.Text, a.Refusal = deref(choice.Message.Content), deref(choice.Message.Refusal)
		for _, call := range choice.Message.ToolCalls {
			a.Calls = append(a.Calls, Call{call.ID, call.Function.Name, call.Function.Arguments})
		}
		if c.Usage != nil {
			a.Tokens = c.Usage.TotalTokens
		}
		if err := a.consistent(); err != nil {
			return nil, fmt.Errorf("choice %d: %w", i, err)
		}
		answers[i] = a
	}
	return answers, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// consistent checks the calls against finish_reason.
func (a Answer) consistent() error {
	if calls := a.Finish == "tool_calls"; calls != (len(a.Calls) > 0) && a.Finish != "length" {
		return fmt.Errorf("finish_reason %q with %d tool calls", a.Finish, len(a.Calls))
	}
	for _, call := range a.Calls {
		if call.ID == "" || call.Name == "" {
			return fmt.Errorf("a call without id or name: %+v", call)
		}
	}
	return nil
}
