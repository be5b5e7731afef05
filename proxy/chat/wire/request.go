package wire

import (
	"slices"

	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/parameter"
)

// Common implements the common part of a request.
func (req *Request) Common() parameter.Common {
	asked := parameter.Common{
		Model: &req.Model, Effort: &req.Reasoning.Effort, Summary: &req.Reasoning.Summary, Choices: req.N,
		Stream: req.Stream, Ignored: req.Ignored, Tier: req.ServiceTier, NoReasoning: req.Reasoning.Disabled,
		TierField: parameter.TierField, EffortField: "reasoning_effort", NoReasoningField: "reasoning.enabled",
		HistoryField: "messages",
	}
	if req.OfResponse {
		asked.EffortField, asked.HistoryField = "reasoning.effort", "input"
	}
	return asked
}

// Request is a validated request of POST /v1/chat/completions.
// Source: OpenAI API reference, "Create chat completion".
type Request struct {
	Model        string
	Messages     []Message
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	N            int  // choices, 1 or more
	Tools        []clienttool.Tool
	// Legacy means that the client sends functions, and expects a function_call.
	Legacy bool
	// SingleCall means that the client accepts one call in an answer.
	SingleCall bool
	// Instructions replace settings that codex does not have.
	Instructions []string
	Format       jsonschema.Format
	Reasoning    parameter.Reasoning
	ServiceTier  string   // flex, priority or empty
	Verbosity    string   // low, medium, high or empty
	Stop         []string // sequences before which an answer ends
	Ignored      []string // parameters accepted without effect, sorted
	CacheKey     string   // prompt_cache_key, which identifies the conversation; empty: none
	OfResponse   bool     // the body was one of a response
}

// latestOf returns the index of the user's last message, which the model answers; -1 if the user has no message.
func latestOf(messages []Message) int {
	for i, m := range slices.Backward(messages) {
		switch m.Role {
		case "user":
			return i
		case "system", "developer":
		default:
			return -1
		}
	}
	return -1
}

// Images are the images in the messages.
func (req *Request) Images() (list []media.PlacedImage) {
	latest := latestOf(req.Messages)
	for i, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Image != nil {
				list = append(list, media.PlacedImage{At: p.At, Image: p.Image, New: i == latest})
			}
		}
	}
	return list
}
