package wire

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
)

// OutputItem is one item of a response's output. Its Type determines the fields that are sent: message, reasoning,
// function_call, custom_tool_call, tool_search_call or compaction.
type OutputItem struct {
	Type, ID, Status string

	Text    *string // of a message
	Refusal *string // of a message that refuses; without Text and Refusal a message has no content

	Summary   []string // of reasoning, part by part
	Encrypted string   // of reasoning; only the account that produced it can decrypt it; of a compaction: its content

	CallID, Name, Namespace string
	Arguments               string // of a call: a function's JSON, a custom tool's input
}

type (
	messageItem struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Role    string `json:"role"`
		Content []any  `json:"content"` // ContentPart, RefusalPart
	}
	// ContentPart is a text in the content of a message.
	ContentPart struct {
		Type        string     `json:"type"`
		Text        string     `json:"text"`
		Annotations []struct{} `json:"annotations"` // always empty
		Logprobs    []struct{} `json:"logprobs"`    // always empty
	}
	// RefusalPart is a refusal in the content of a message.
	RefusalPart struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
	reasoningItem struct {
		ID        string        `json:"id"`
		Type      string        `json:"type"`
		Summary   []SummaryPart `json:"summary"`
		Encrypted *string       `json:"encrypted_content,omitempty"`
	}
	// SummaryPart is a part of a summary of reasoning.
	SummaryPart struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	functionCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	searchCallItem struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Status    string          `json:"status"`
		CallID    string          `json:"call_id"`
		Execution string          `json:"execution"` // client
		Arguments json.RawMessage `json:"arguments"` // an object
	}
	compactionItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Encrypted string `json:"encrypted_content"`
	}
	customCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
		Input     string `json:"input"`
	}
)

// Item types.
const (
	ItemMessage    = "message"
	ItemReasoning  = "reasoning"
	ItemFunction   = "function_call"
	ItemCustomCall = "custom_tool_call"
	ItemSearchCall = "tool_search_call"
	ItemCompaction = "compaction"
	itemTrigger    = "compaction_trigger" // of the input alone
)

// MarshalJSON encodes the item in the form of its type.
func (i OutputItem) MarshalJSON() ([]byte, error) {
	switch i.Type {
	case ItemMessage:
		m := messageItem{ID: i.ID, Type: i.Type, Status: i.Status, Role: "assistant", Content: []any{}}
		if i.Text != nil {
			m.Content = append(m.Content, OutputText(*i.Text))
		}
		if i.Refusal != nil {
			m.Content = append(m.Content, RefusalPart{"refusal", *i.Refusal})
		}
		return openai.Encode(m)
	case ItemReasoning:
		r := reasoningItem{ID: i.ID, Type: i.Type, Summary: []SummaryPart{}}
		for _, text := range i.Summary {
			r.Summary = append(r.Summary, SummaryText(text))
		}
		if i.Encrypted != "" {
			r.Encrypted = &i.Encrypted
		}
		return openai.Encode(r)
	case ItemCompaction:
		return openai.Encode(compactionItem{i.ID, i.Type, i.Encrypted})
	case ItemCustomCall:
		return openai.Encode(customCallItem{i.ID, i.Type, i.Status, i.CallID, i.Namespace, i.Name, i.Arguments})
	case ItemSearchCall:
		arguments := json.RawMessage(i.Arguments)
		if !json.Valid(arguments) {
			arguments = json.RawMessage(`{}`)
		}
		return openai.Encode(searchCallItem{i.ID, i.Type, i.Status, i.CallID, executionClient, arguments})
	default:
		return openai.Encode(functionCallItem{i.ID, i.Type, i.Status, i.CallID, i.Namespace, i.Name, i.Arguments})
	}
}

// OutputText is a part of a message with that text.
func OutputText(text string) ContentPart {
	return ContentPart{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

// SummaryText is a part of a summary of reasoning.
func SummaryText(text string) SummaryPart { return SummaryPart{Type: partSummary, Text: text} }
