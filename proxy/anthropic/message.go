package anthropic

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
)

// Message is the answer of POST /v1/messages, and in a stream its beginning. A member that this service never has is
// null. Source: https://docs.anthropic.com/en/api/messages.
type Message struct {
	ID           string       `json:"id"`
	Type         string       `json:"type"` // message
	Role         string       `json:"role"` // assistant
	Model        string       `json:"model"`
	Content      []Block      `json:"content"`
	StopReason   *string      `json:"stop_reason"`
	StopSequence *string      `json:"stop_sequence"`
	StopDetails  *StopDetails `json:"stop_details"`
	Container    *struct{}    `json:"container"`   // always null
	Diagnostics  *struct{}    `json:"diagnostics"` // always null
	Usage        Usage        `json:"usage"`
	// SafeguardResults answer the safeguards of the request; omitted without any.
	SafeguardResults []SafeguardResult `json:"safeguard_results,omitempty"`
}

// Block is a block of an answer: text, thinking or a call of a tool.
type Block struct {
	Type      string
	Text      string // of text and thinking
	Signature string // of thinking
	ID, Name  string // of tool_use
	Input     json.RawMessage
}

// caller is the caller of a tool: the model itself.
var caller = map[string]string{"type": "direct"}

// MarshalJSON encodes the block in the form of its type. A text has no citations: some clients refuse the null that
// stands for none.
func (b Block) MarshalJSON() ([]byte, error) {
	switch b.Type {
	case BlockThinking:
		return openai.Encode(struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{b.Type, b.Text, b.Signature})
	case BlockToolUse:
		return openai.Encode(struct {
			Type   string            `json:"type"`
			ID     string            `json:"id"`
			Name   string            `json:"name"`
			Input  json.RawMessage   `json:"input"`
			Caller map[string]string `json:"caller"`
		}{b.Type, b.ID, b.Name, b.Input, caller})
	}
	return openai.Encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{b.Type, b.Text})
}

// Reasons why an answer ends.
// Source: https://docs.anthropic.com/en/api/handling-stop-reasons.
const (
	StopEndTurn   = "end_turn"
	StopMaxTokens = "max_tokens"
	StopSequence  = "stop_sequence"
	StopToolUse   = "tool_use"
	StopRefusal   = "refusal"
)

// Stop is the end of an answer.
type Stop struct {
	Reason      string // one of the constants
	Sequence    string // of StopSequence: the one that was met
	Explanation string // of StopRefusal; empty: no explanation
}

// StopDetails explain a refusal.
type StopDetails struct {
	Type        string  `json:"type"`     // refusal
	Category    *string `json:"category"` // always null
	Explanation *string `json:"explanation"`
}

// reason, sequence and details are the members of a message.
func (s Stop) reason() *string { return &s.Reason }

func (s Stop) sequence() *string {
	if s.Reason != StopSequence {
		return nil
	}
	return &s.Sequence
}

func (s Stop) details() *StopDetails {
	if s.Reason != StopRefusal {
		return nil
	}
	details := &StopDetails{Type: "refusal"}
	if s.Explanation != "" {
		details.Explanation = &s.Explanation
	}
	return details
}

// TokenCount is the answer of POST /v1/messages/count_tokens.
type TokenCount struct {
	InputTokens int64 `json:"input_tokens"`
}
