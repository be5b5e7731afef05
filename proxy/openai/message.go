package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// rawMessage is a message as it arrives.
type rawMessage struct {
	Role         string          `json:"role"`
	Content      content         `json:"content"`
	Name         string          `json:"name"`
	ToolCalls    json.RawMessage `json:"tool_calls"`
	FunctionCall json.RawMessage `json:"function_call"`
}

// content is a string or a list of parts.
type content struct {
	set       bool
	malformed bool // neither of the two
	text      string
	parts     []part
}

type part struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// UnmarshalJSON takes both forms of content. It leaves the complaint about
// anything else to validate, which knows which message it is.
func (c *content) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	c.set = true
	var into any = &c.parts
	if data[0] == '"' {
		into = &c.text
	}
	c.malformed = json.Unmarshal(data, into) != nil
	return nil
}

func (m rawMessage) validate(at string) (Message, error) {
	switch m.Role {
	case "system", "developer", "user", "assistant":
	case "":
		return Message{}, Invalid("role_required", at+".role", at+".role is required")
	case "tool", "function":
		return Message{}, unsupported(at+".role", fmt.Sprintf("%s: messages with the role %q are not supported: client tools are not served", at, m.Role))
	default:
		return Message{}, Invalid("invalid_value", at+".role", fmt.Sprintf("%s.role must be system, developer, user or assistant, not %q", at, clip(m.Role)))
	}
	if !isNothing(m.ToolCalls) || !isNothing(m.FunctionCall) {
		return Message{}, unsupported(at+".tool_calls", at+": tool calls are not supported: client tools are not served")
	}
	switch {
	case !m.Content.set:
		return Message{}, Invalid("content_required", at+".content", at+".content is required")
	case m.Content.malformed:
		return Message{}, Invalid("invalid_type", at+".content", at+".content must be a string or a list of parts")
	}
	text, err := m.Content.join(at + ".content")
	return Message{Role: m.Role, Text: text}, err
}

func isNothing(v json.RawMessage) bool { return len(v) == 0 || asksForNothing(v) }

// join is the text of all parts: parts of one message are one text.
func (c content) join(at string) (string, error) {
	if c.parts == nil {
		return c.text, nil
	}
	var b strings.Builder
	for i, p := range c.parts {
		switch p.Type {
		case "text":
			b.WriteString(p.Text)
		case "refusal":
			b.WriteString(p.Refusal)
		default:
			return "", unsupported(fmt.Sprintf("%s[%d].type", at, i),
				fmt.Sprintf("%s[%d]: parts of type %q are not supported; send text", at, i, clip(p.Type)))
		}
	}
	return b.String(), nil
}
