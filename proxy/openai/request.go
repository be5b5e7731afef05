package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// MaxChoices bounds n: each choice is a turn of its own.
const MaxChoices = 8

// ChatRequest is a validated request of POST /v1/chat/completions.
// Source: OpenAI API reference, "Create chat completion".
type ChatRequest struct {
	Model        string
	Messages     []Message
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	N            int  // choices, 1 or more
	Tools        []Tool
	// Legacy says that the client speaks of functions, and wants a function_call.
	Legacy bool
	// SingleCall says that the client takes one call in an answer.
	SingleCall bool
	// Instructions ask the model for what codex has no setting for.
	Instructions []string
	Format       Format
	Reasoning    Reasoning
	ServiceTier  string   // flex, priority or empty
	Verbosity    string   // low, medium, high or empty
	Ignored      []string // parameters accepted without effect, sorted
}

// Images are those of the messages.
func (req *ChatRequest) Images() (list []PlacedImage) {
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Image != nil {
				list = append(list, PlacedImage{p.At, p.Image})
			}
		}
	}
	return list
}

var (
	// serviceTiers are what codex 0.169 passes on, and the words for the default,
	// which it leaves out.
	serviceTiers = map[string]string{"": "", "auto": "", "default": "", "flex": "flex", "priority": "priority"}
	verbosities  = []string{"", "low", "medium", "high"}
)

// maxModelName bounds what a client can put into every log line.
const maxModelName = 256

// rawChat is the request as it arrives; only the honoured fields.
type rawChat struct {
	Model             string            `json:"model"`
	Messages          some[rawMessage]  `json:"messages"`
	Stream            bool              `json:"stream"`
	StreamOptions     *streamOptions    `json:"stream_options"`
	ReasoningEffort   string            `json:"reasoning_effort"`
	Reasoning         json.RawMessage   `json:"reasoning"`
	N                 *int              `json:"n"`
	ResponseFormat    *rawFormat        `json:"response_format"`
	Modalities        some[string]      `json:"modalities"`
	Tools             some[rawTool]     `json:"tools"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
	Functions         some[rawFunction] `json:"functions"`
	FunctionCall      json.RawMessage   `json:"function_call"`
	ServiceTier       string            `json:"service_tier"`
	Verbosity         string            `json:"verbosity"`

	Others map[string]glimpse `json:",embed"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// DecodeChat parses and validates a request body. Every error is an *Error
// with status 400 that names the field at fault.
func DecodeChat(body []byte) (*ChatRequest, error) {
	var raw rawChat
	if err := decodeBody(body, &raw); err != nil {
		return nil, err
	}
	ignoredParams, err := checkParams(chatParams, raw.Others)
	if err != nil {
		return nil, err
	}
	if err := raw.check(); err != nil {
		return nil, err
	}
	req, err := raw.request()
	if err != nil {
		return nil, err
	}
	req.Ignored = append(req.Ignored, ignoredParams...)
	slices.Sort(req.Ignored)
	return req, nil
}

// checkParams applies a table to those parameters that are not honoured: it
// refuses what must be refused and lists what is ignored. A null, false or empty
// value asks for nothing.
func checkParams(table params, fields map[string]glimpse) (ignoredParams []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p, known := table[name]
		switch {
		case !known:
			return nil, Invalid("unknown_parameter", clip(name), fmt.Sprintf("unknown parameter %q", clip(name)))
		case asksForNothing(json.RawMessage(fields[name])):
		case name == "top_logprobs" && fields[name] == "0":
		case p.rule == refused:
			return nil, unsupported(name, fmt.Sprintf("%s is not supported: %s; leave it out", name, p.why))
		case p.rule == ignored:
			ignoredParams = append(ignoredParams, name)
		}
	}
	return ignoredParams, nil
}

func asksForNothing(v json.RawMessage) bool {
	switch string(bytes.TrimSpace(v)) {
	case "null", "false", "[]", "{}", `""`, `"none"`:
		return true
	}
	return false
}

func isNothing(v json.RawMessage) bool { return len(v) == 0 || asksForNothing(v) }

func unsupported(param, message string) *Error {
	return Invalid("unsupported_parameter", param, message)
}

// check refuses values that stand for themselves.
func (raw rawChat) check() error {
	_, tier := serviceTiers[raw.ServiceTier]
	switch {
	case raw.Model == "":
		return Invalid("model_required", "model", "model is required; GET /v1/models lists what there is")
	case len(raw.Model) > maxModelName:
		return Invalid("invalid_value", "model", fmt.Sprintf("model must not be longer than %d bytes", maxModelName))
	case raw.N != nil && (*raw.N < 1 || *raw.N > MaxChoices):
		return Invalid("invalid_value", "n", fmt.Sprintf("n must be from 1 to %d", MaxChoices))
	case len(raw.Modalities) > 0 && !slices.Equal(raw.Modalities, some[string]{"text"}):
		return unsupported("modalities", `modalities must be ["text"]`)
	case !tier:
		return Invalid("invalid_value", "service_tier", "service_tier must be auto, default, flex or priority")
	case !slices.Contains(verbosities, raw.Verbosity):
		return Invalid("invalid_value", "verbosity", "verbosity must be low, medium or high")
	}
	return checkEffort("reasoning_effort", raw.ReasoningEffort)
}

func (raw rawChat) request() (*ChatRequest, error) {
	messages, err := readMessages(raw.Messages)
	if err != nil {
		return nil, err
	}
	set, err := raw.toolset()
	if err != nil {
		return nil, err
	}
	format, err := raw.ResponseFormat.format()
	if err != nil {
		return nil, err
	}
	thinking, err := raw.thinking()
	if err != nil {
		return nil, err
	}
	req := &ChatRequest{
		Model: raw.Model, Messages: messages, Stream: raw.Stream, N: 1,
		IncludeUsage: raw.StreamOptions != nil && raw.StreamOptions.IncludeUsage,
		Tools:        set.tools, Legacy: len(
			raw.Functions) > 0, SingleCall: set.single, Instructions: set.instructions(),
		Format: format, Reasoning: thinking, ServiceTier: serviceTiers[raw.ServiceTier], Verbosity: raw.Verbosity,
	}
	if raw.N != nil {
		req.N = *raw.N
	}
	if set.strict {
		req.Ignored = append(req.Ignored, "tools.strict")
	}
	if slices.ContainsFunc(messages, Message.lowDetail) {
		req.Ignored = append(req.Ignored, "image_url.detail")
	}
	return req, nil
}

// thinking joins the two ways to set the effort.
func (raw rawChat) thinking() (Reasoning, error) {
	r, _, err := reasoning(raw.Reasoning)
	switch {
	case err != nil:
		return r, err
	case r.Effort != "" && raw.ReasoningEffort != "" && r.Effort != raw.ReasoningEffort:
		return r, Invalid("invalid_value", "reasoning.effort",
			"reasoning.effort and reasoning_effort contradict each other; send one of them")
	case r.Effort == "":
		r.Effort = raw.ReasoningEffort
	}
	return r, nil
}

// clip bounds what of a client's own words goes back into an error.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
