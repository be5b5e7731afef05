package eventstream

import (
	"encoding/json"
	"io"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
)

// Event is one event of a streamed response. Type determines the fields that are set. Source: OpenAI API
// reference, "Streaming events".
type Event struct {
	Type           string           `json:"type"`
	SequenceNumber int              `json:"sequence_number"`
	Response       *wire.Response   `json:"response,omitempty"`
	ItemID         string           `json:"item_id,omitempty"`
	OutputIndex    *int             `json:"output_index,omitempty"`
	ContentIndex   *int             `json:"content_index,omitempty"`
	SummaryIndex   *int             `json:"summary_index,omitempty"`
	Item           *wire.OutputItem `json:"item,omitempty"`
	Part           any              `json:"part,omitempty"`
	Delta          *string          `json:"delta,omitempty"`
	Text           *string          `json:"text,omitempty"`
	Refusal        *string          `json:"refusal,omitempty"`
	Arguments      *string          `json:"arguments,omitempty"`
	Input          *string          `json:"input,omitempty"`
	Logprobs       *[]struct{}      `json:"logprobs,omitempty"` // of text: always empty
	*errorFields                    // of an error
}

// errorFields are the fields of the event error: flat, as in OpenAI's API reference, and nested in error, where
// OpenAI's libraries for Python, JavaScript and Go look for them and raise.
type errorFields struct {
	Code    string           `json:"code"`
	Message string           `json:"message"`
	Param   *string          `json:"param"`
	Error   openai.ErrorBody `json:"error"`
}

// Opens reports whether e is one of the two events before any output.
func (e Event) Opens() bool {
	return e.Type == "response.created" || e.Type == "response.in_progress"
}

// Write writes e as a server-sent event that has its type as name.
func Write(w io.Writer, e Event) error {
	return openai.WriteNamedEvent(w, e.Type, e)
}

// ErrorEvent is an error on a WebSocket that belongs to no response.
type ErrorEvent struct {
	Type    string            // error
	Status  int               // HTTP status
	Error   *openai.Error     // without its envelope
	Headers map[string]string // retry-after
}

// MarshalJSON takes the error out of its envelope.
func (e ErrorEvent) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type    string            `json:"type"`
		Status  int               `json:"status"`
		Error   openai.ErrorBody  `json:"error"`
		Headers map[string]string `json:"headers,omitempty"`
	}{e.Type, e.Status, e.Error.Body(), e.Headers})
}
