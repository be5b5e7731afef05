package openai

import "encoding/json"

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
		Content []any  `json:"content"` // contentPart, refusalPart
	}
	contentPart struct {
		Type        string     `json:"type"`
		Text        string     `json:"text"`
		Annotations []struct{} `json:"annotations"` // always empty
		Logprobs    []struct{} `json:"logprobs"`    // always empty
	}
	refusalPart struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
	reasoningItem struct {
		ID        string        `json:"id"`
		Type      string        `json:"type"`
		Summary   []summaryPart `json:"summary"`
		Encrypted *string       `json:"encrypted_content,omitempty"`
	}
	summaryPart struct {
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
	itemMessage    = "message"
	itemReasoning  = "reasoning"
	itemFunction   = "function_call"
	itemCustomCall = "custom_tool_call"
	itemSearchCall = "tool_search_call"
	itemCompaction = "compaction"
	itemTrigger    = "compaction_trigger" // of the input alone
)

// MarshalJSON encodes the item in the form of its type.
func (i OutputItem) MarshalJSON() ([]byte, error) {
	switch i.Type {
	case itemMessage:
		m := messageItem{ID: i.ID, Type: i.Type, Status: i.Status, Role: "assistant", Content: []any{}}
		if i.Text != nil {
			m.Content = append(m.Content, outputText(*i.Text))
		}
		if i.Refusal != nil {
			m.Content = append(m.Content, refusalPart{"refusal", *i.Refusal})
		}
		return Encode(m)
	case itemReasoning:
		r := reasoningItem{ID: i.ID, Type: i.Type, Summary: []summaryPart{}}
		for _, text := range i.Summary {
			r.Summary = append(r.Summary, summaryText(text))
		}
		if i.Encrypted != "" {
			r.Encrypted = &i.Encrypted
		}
		return Encode(r)
	case itemCompaction:
		return Encode(compactionItem{i.ID, i.Type, i.Encrypted})
	case itemCustomCall:
		return Encode(customCallItem{i.ID, i.Type, i.Status, i.CallID, i.Namespace, i.Name, i.Arguments})
	case itemSearchCall:
		arguments := json.RawMessage(i.Arguments)
		if !json.Valid(arguments) {
			arguments = json.RawMessage(`{}`)
		}
		return Encode(searchCallItem{i.ID, i.Type, i.Status, i.CallID, executionClient, arguments})
	default:
		return Encode(functionCallItem{i.ID, i.Type, i.Status, i.CallID, i.Namespace, i.Name, i.Arguments})
	}
}

func outputText(text string) contentPart {
	return contentPart{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

func summaryText(text string) summaryPart { return summaryPart{Type: partSummary, Text: text} }
