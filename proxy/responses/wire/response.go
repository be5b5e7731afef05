package wire

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
)

// ConversationOf is the conversation of a response.
type ConversationOf struct {
	ID string `json:"id"`
}

// Statuses of a response and of its items.
const (
	StatusQueued     = "queued"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusIncomplete = "incomplete"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

// Response is the object of POST /v1/responses. Temperature and TopP are always null: codex neither accepts nor reports
// them. ServiceTier, MaxToolCalls, PromptCacheKey, SafetyIdentifier and User repeat the request.
// Source: OpenAI API reference, "The response object".
type Response struct {
	ID                 string            `json:"id"`         // resp_…
	Object             string            `json:"object"`     // response
	CreatedAt          int64             `json:"created_at"` // Unix seconds
	CompletedAt        *int64            `json:"completed_at"`
	Status             string            `json:"status"`
	Conversation       *ConversationOf   `json:"conversation,omitempty"`
	Background         bool              `json:"background"`
	Error              *Failure          `json:"error"`
	IncompleteDetails  *Incomplete       `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    *int64            `json:"max_output_tokens"` // always null
	MaxToolCalls       *int64            `json:"max_tool_calls"`
	Model              string            `json:"model"`
	Output             []OutputItem      `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	PromptCacheKey     *string           `json:"prompt_cache_key"`
	Reasoning          Reasoning         `json:"reasoning"`
	SafetyIdentifier   *string           `json:"safety_identifier"`
	ServiceTier        string            `json:"service_tier"`
	Store              bool              `json:"store"`
	Temperature        *float64          `json:"temperature"` // always null
	Text               Text              `json:"text"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              []json.RawMessage `json:"tools"`
	TopLogprobs        int               `json:"top_logprobs"` // always 0
	TopP               *float64          `json:"top_p"`        // always null
	Truncation         string            `json:"truncation"`   // always disabled
	Usage              *Usage            `json:"usage,omitempty"`
	User               *string           `json:"user"`
	Metadata           map[string]string `json:"metadata"`
	AccessPrograms     *struct{}         `json:"access_programs"` // always null
}

// Size is how many bytes of the request are in every copy of the response.
func (r Response) Size() (n int) {
	n = len(r.Text.Format) + len(r.ToolChoice)
	for _, text := range []*string{r.Instructions, r.PromptCacheKey, r.SafetyIdentifier, r.User} {
		if text != nil {
			n += len(*text)
		}
	}
	for _, tool := range r.Tools {
		n += len(tool)
	}
	for key, value := range r.Metadata {
		n += len(key) + len(value)
	}
	return n
}

// Failure is the reason why a response has failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Incomplete is the reason why a response is incomplete.
type Incomplete struct {
	Reason string `json:"reason"` // max_output_tokens or content_filter
}

// Reasoning is the parameter reasoning of the request.
type Reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// Text is the parameter text of the request.
type Text struct {
	Format json.RawMessage `json:"format"`
}

// Usage counts tokens as the worker reported them.
type Usage struct {
	InputTokens         int64                    `json:"input_tokens"`
	InputTokensDetails  InputDetails             `json:"input_tokens_details"`
	OutputTokens        int64                    `json:"output_tokens"`
	OutputTokensDetails openai.CompletionDetails `json:"output_tokens_details"`
	TotalTokens         int64                    `json:"total_tokens"`
}

// InputDetails splits InputTokens.
type InputDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"` // always 0: codex does not report them
}

// NewUsage is the usage of a turn in the form of responses; nil: it is not known.
func NewUsage(u *openai.Usage) *Usage {
	if u == nil {
		return nil
	}
	return &Usage{
		InputTokens: u.PromptTokens, InputTokensDetails: InputDetails{CachedTokens: u.PromptTokensDetails.CachedTokens},
		OutputTokens: u.CompletionTokens, OutputTokensDetails: u.CompletionTokensDetails, TotalTokens: u.TotalTokens,
	}
}

// Deleted is the answer of DELETE /v1/responses/{id}.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // response
	Deleted bool   `json:"deleted"`
}

// ItemList is the answer of GET /v1/responses/{id}/input_items, and of the items of a conversation.
type ItemList struct {
	Object  string            `json:"object"` // list
	Data    []json.RawMessage `json:"data"`
	FirstID *string           `json:"first_id"`
	LastID  *string           `json:"last_id"`
	HasMore bool              `json:"has_more"`
}
