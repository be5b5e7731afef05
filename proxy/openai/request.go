package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ChatRequest is a validated request of POST /v1/chat/completions.
// Source: OpenAI API reference, "Create chat completion".
type ChatRequest struct {
	Model           string
	Messages        []Message
	Stream          bool
	IncludeUsage    bool     // stream_options.include_usage
	ReasoningEffort string   // empty means the model's default
	Ignored         []string // parameters accepted without effect, sorted
}

// Message is one turn of the history: text by a role.
type Message struct {
	Role string // system, developer, user or assistant
	Text string
}

// efforts are the values of reasoning_effort.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh"}

// maxModelName bounds what a client can put into every log line.
const maxModelName = 256

// rawChat is the request as it arrives; only the honoured fields.
type rawChat struct {
	Model           string          `json:"model"`
	Messages        []rawMessage    `json:"messages"`
	Stream          bool            `json:"stream"`
	StreamOptions   *streamOptions  `json:"stream_options"`
	ReasoningEffort string          `json:"reasoning_effort"`
	N               *int            `json:"n"`
	ResponseFormat  *responseFormat `json:"response_format"`
	Modalities      []string        `json:"modalities"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type responseFormat struct {
	Type string `json:"type"`
}

// DecodeChat parses and validates a request body. Every error is an *Error
// with status 400 that names the field at fault.
func DecodeChat(body []byte) (*ChatRequest, error) {
	var fields map[string]json.RawMessage
	if err := decodeJSON(body, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, Invalid("invalid_json", "", "the body must be a JSON object")
	}
	ignoredParams, err := checkParams(chatParams, fields)
	if err != nil {
		return nil, err
	}
	var raw rawChat
	if err := decodeJSON(body, &raw); err != nil {
		return nil, err
	}
	req, err := raw.validate()
	if err != nil {
		return nil, err
	}
	req.Ignored = ignoredParams
	return req, nil
}

// checkParams applies a table: it refuses what must be refused and lists
// what is ignored. A null, false or empty value asks for nothing.
func checkParams(table params, fields map[string]json.RawMessage) ([]string, error) {
	var ignoredParams []string
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, known := table[name]
		switch {
		case !known:
			return nil, Invalid("unknown_parameter", clip(name), fmt.Sprintf("unknown parameter %q", clip(name)))
		case asksForNothing(fields[name]):
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

func unsupported(param, message string) *Error {
	return Invalid("unsupported_parameter", param, message)
}

func (raw rawChat) validate() (*ChatRequest, error) {
	switch {
	case raw.Model == "":
		return nil, Invalid("model_required", "model", "model is required; GET /v1/models lists what there is")
	case len(raw.Model) > maxModelName:
		return nil, Invalid("invalid_value", "model", fmt.Sprintf("model must not be longer than %d bytes", maxModelName))
	case len(raw.Messages) == 0:
		return nil, Invalid("messages_required", "messages", "messages must hold at least one message")
	case raw.N != nil && *raw.N != 1:
		return nil, unsupported("n", "n must be 1: each answer needs a request of its own")
	case raw.ResponseFormat != nil && raw.ResponseFormat.Type != "text":
		return nil, unsupported("response_format", `response_format must be {"type":"text"}`)
	case len(raw.Modalities) > 0 && !slices.Equal(raw.Modalities, []string{"text"}):
		return nil, unsupported("modalities", `modalities must be ["text"]`)
	case raw.ReasoningEffort != "" && !slices.Contains(efforts, raw.ReasoningEffort):
		return nil, Invalid("invalid_value", "reasoning_effort", fmt.Sprintf("reasoning_effort must be one of %v", efforts))
	}
	req := &ChatRequest{
		Model: raw.Model, Stream: raw.Stream, ReasoningEffort: raw.ReasoningEffort,
		IncludeUsage: raw.StreamOptions != nil && raw.StreamOptions.IncludeUsage,
	}
	for i, m := range raw.Messages {
		message, err := m.validate(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		req.Messages = append(req.Messages, message)
	}
	return req, nil
}

// decodeJSON gives every way in which JSON can be wrong its own words.
func decodeJSON(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		return Invalid("invalid_type", wrongType.Field, fmt.Sprintf("%s must not be a JSON %s", orBody(wrongType.Field), wrongType.Value))
	case errors.As(err, &syntax):
		return Invalid("invalid_json", "", fmt.Sprintf("the body is not valid JSON at byte %d: %v", syntax.Offset, err))
	default:
		return Invalid("invalid_json", "", "the body is not valid JSON: "+err.Error())
	}
}

func orBody(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

// clip bounds what of a client's own words goes back into an error.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
