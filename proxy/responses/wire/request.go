package wire

import (
	"encoding/json"
	"slices"

	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/parameter"
)

// Common implements the common part of a request.
func (req *Request) Common() parameter.Common {
	return parameter.Common{
		Model: &req.Model, Effort: &req.Reasoning.Effort, Summary: &req.Reasoning.Summary, Choices: 1,
		Stream: req.Stream, Ignored: req.Ignored, Tier: req.ServiceTier,
		TierField: parameter.TierField, EffortField: "reasoning.effort", HistoryField: "input",
	}
}

// CacheKey is prompt_cache_key, which identifies the conversation; empty: none.
func (req *Request) CacheKey() string {
	if key := req.echoed.PromptCacheKey; key != nil {
		return *key
	}
	return ""
}

// HistoryParam is the parameter that names the history before the input.
func (req *Request) HistoryParam() string {
	if req.Conversation != "" {
		return "conversation"
	}
	return "previous_response_id"
}

// Images are the images in the input.
func (req *Request) Images() (list []media.PlacedImage) {
	latest := req.Latest()
	for i, in := range req.Input {
		for _, p := range in.Images(in.At) {
			p.New = i == latest
			list = append(list, p)
		}
	}
	return list
}

// Latest returns the index of the user's last message in the input, which the model answers; -1 if it has none.
func (req *Request) Latest() int {
	for i, in := range slices.Backward(req.Input) {
		switch {
		case in.Type == ItemMessage && in.Role == "user":
			return i
		case in.Type != ItemMessage && in.Type != ItemUpdate || in.Role == "assistant":
			return -1
		}
	}
	return -1
}

// Request is a validated request of POST /v1/responses, or a message
// response.create. Source: OpenAI API reference, "Create a model response".
type Request struct {
	Model        string
	Instructions *string
	Input        []InputItem
	Previous     string // previous_response_id; empty: none
	Conversation string // id of the conversation; empty: none
	Stream       bool
	Background   bool  // the response is made without its client
	Store        *bool // nil means the server's default
	NoGenerate   bool  // generate is false, or the request only prepares the prompt cache: the model is not called
	Tools        Tools
	Reasoning    parameter.Reasoning
	Encrypted    bool            // include has reasoning.encrypted_content
	TextFormat   json.RawMessage // text.format, for the response
	Format       jsonschema.Format
	Verbosity    string // text.verbosity: low, medium, high or empty
	ServiceTier  string // flex, priority or empty
	Metadata     map[string]string
	Ignored      []string // parameters accepted without effect, sorted
	// Compaction asks for a compaction of the conversation in place of an answer, if it is not nil. It has all fields
	// of the compaction except the summary.
	Compaction *Compacted

	echoed                rawEcho
	hasFormat             bool       // the request has a text.format, or an item of its input has
	onlyPrewarm           bool       // prompt_cache_options has nothing that is ignored
	tier                  string     // service_tier as the client sent it
	paramTools, itemTools toolReader // of the parameter tools, and of items
	choice                clienttool.Choice
}

// Blank is the response to the request before its first event.
func (req *Request) Blank(id string, created int64) Response {
	r := Response{
		ID: id, Object: "response", CreatedAt: created, Status: StatusInProgress, Background: req.Background,
		Instructions: req.Instructions,
		Model:        req.Model,
		Output:       []OutputItem{}, ParallelToolCalls: !req.Tools.Single, Text: Text{Format: req.TextFormat},
		ToolChoice: req.Tools.Choice, Tools: req.Tools.Echoed, Truncation: "disabled", Metadata: req.Metadata,
	}
	for _, f := range []struct {
		value string
		into  **string
	}{{req.Previous, &r.PreviousResponseID}, {req.Reasoning.Effort, &r.Reasoning.Effort}, {req.Reasoning.Summary,
		&r.Reasoning.Summary}} {
		if f.value != "" {
			*f.into = new(f.value)
		}
	}
	if req.Conversation != "" {
		r.Conversation = &ConversationOf{req.Conversation}
	}
	req.echo(&r)
	return r
}
