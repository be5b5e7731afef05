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
	Tools        []ClientTool
	// Legacy means that the client sends functions, and expects a function_call.
	Legacy bool
	// SingleCall means that the client accepts one call in an answer.
	SingleCall bool
	// Instructions replace settings that codex does not have.
	Instructions []string
	Format       Format
	Reasoning    Reasoning
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
func (req *ChatRequest) Images() (list []PlacedImage) {
	latest := latestOf(req.Messages)
	for i, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Image != nil {
				list = append(list, PlacedImage{At: p.At, Image: p.Image, New: i == latest})
			}
		}
	}
	return list
}

var (
	// serviceTiers are the tiers of the OpenAI reference, as codex 0.169 knows them. It omits the default. Its "fast"
	// is priority upstream. It drops the tiers that a model lacks, and scale for all models.
	serviceTiers = map[string]string{"": "", "auto": "", "default": "", "flex": "flex", "priority": "priority",
		"fast": "priority", "scale": "scale"}
	verbosities = []string{"", "low", "medium", "high"}
)

const errServiceTier = "service_tier must be auto, default, flex, priority, fast or scale"

// maxModelName bounds the length of a model's name, which is in every log line.
const maxModelName = 256

// rawChat is the request as it is sent, with the honoured fields only.
type rawChat struct {
	Model             string                   `json:"model"`
	Messages          boundedList[rawMessage]  `json:"messages"`
	Stream            bool                     `json:"stream"`
	StreamOptions     *streamOptions           `json:"stream_options"`
	ReasoningEffort   string                   `json:"reasoning_effort"`
	Reasoning         json.RawMessage          `json:"reasoning"`
	N                 *Whole                   `json:"n"`
	ResponseFormat    *rawFormat               `json:"response_format"`
	Modalities        boundedList[string]      `json:"modalities"`
	Tools             boundedList[rawTool]     `json:"tools"`
	ToolChoice        json.RawMessage          `json:"tool_choice"`
	ParallelToolCalls *bool                    `json:"parallel_tool_calls"`
	Functions         boundedList[rawFunction] `json:"functions"`
	FunctionCall      json.RawMessage          `json:"function_call"`
	ServiceTier       string                   `json:"service_tier"`
	Verbosity         string                   `json:"verbosity"`
	Stop              stopSequences            `json:"stop"`

	Others map[string]valuePrefix `json:",embed"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// DecodeChat parses and validates a request body. Every error is an *Error
// with status 400 that names the field at fault.
func DecodeChat(body []byte) (*ChatRequest, error) { return Reading{}.Chat(body) }

// Chat is DecodeChat for another reading.
func (r Reading) Chat(body []byte) (*ChatRequest, error) {
	var raw rawChat
	if err := decodeBody(body, &raw); err != nil {
		return nil, err
	}
	return r.chat(raw)
}

func (r Reading) chat(raw rawChat) (*ChatRequest, error) {
	raw.Model = r.model(raw.Model)
	ignoredParams, err := r.checkParams(chatParams, raw.Others)
	if err != nil {
		return nil, err
	}
	if err := raw.check(); err != nil {
		return nil, err
	}
	req, err := raw.request(r)
	if err != nil {
		return nil, err
	}
	req.Ignored = append(req.Ignored, ignoredParams...)
	slices.Sort(req.Ignored)
	req.CacheKey = raw.cacheKey()
	return req, nil
}

// cacheKey is prompt_cache_key, which was checked.
func (raw rawChat) cacheKey() (key string) {
	if value := raw.Others["prompt_cache_key"]; len(value) > 0 {
		_ = json.Unmarshal([]byte(value), &key) // of null: it is unset
	}
	return key
}

// checkParams applies a table to the parameters that are not honoured: it refuses the refused ones and lists the
// ignored ones. A null, false or empty value counts as unset.
func (r Reading) checkParams(table params, fields map[string]valuePrefix) (ignoredParams []string, err error) {
	var unknown unknownParams
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p, known := table[name]
		if !known && !r.IgnoreUnknown {
			return nil, Invalid("unknown_parameter", clip(name), fmt.Sprintf("unknown parameter %q", clip(name)))
		}
		if p.rule == ignored {
			if err := checkValue(name, json.RawMessage(fields[name])); err != nil {
				return nil, err
			}
		}
		switch {
		case isEmptyValue(json.RawMessage(fields[name])):
		case !known:
			unknown.add(name)
		case name == "top_logprobs" && fields[name] == "0":
		case p.rule == refused:
			return nil, unsupported(name, fmt.Sprintf("%s is not supported: %s; leave it out", name, p.why))
		case p.rule == ignored:
			ignoredParams = append(ignoredParams, name)
		}
	}
	return append(ignoredParams, unknown.list()...), nil
}

func isEmptyValue(v json.RawMessage) bool {
	switch string(bytes.TrimSpace(v)) {
	case "null", "false", "[]", "{}", `""`, `"none"`:
		return true
	}
	return false
}

func isUnset(v json.RawMessage) bool { return len(v) == 0 || isEmptyValue(v) }

func unsupported(param, message string) *Error {
	return Invalid("unsupported_parameter", param, message)
}

// check refuses invalid values of single parameters.
func (raw rawChat) check() error {
	if err := checkModel(raw.Model); err != nil {
		return err
	}
	if err := checkChoices(raw.N); err != nil {
		return err
	}
	_, tier := serviceTiers[raw.ServiceTier]
	switch {
	case len(raw.Modalities) > 0 && !slices.Equal(raw.Modalities, boundedList[string]{"text"}):
		return unsupported("modalities", `modalities must be ["text"]`)
	case !tier:
		return Invalid("invalid_value", "service_tier", errServiceTier)
	case !slices.Contains(verbosities, raw.Verbosity):
		return Invalid("invalid_value", "verbosity", "verbosity must be low, medium or high")
	}
	return checkEffort("reasoning_effort", raw.ReasoningEffort)
}

func checkModel(model string) error {
	switch {
	case model == "":
		return Invalid("model_required", "model", "model is required; GET /v1/models lists what there is")
	case len(model) > maxModelName:
		return Invalid("invalid_value", "model", fmt.Sprintf("model must not be longer than %d bytes", maxModelName))
	}
	return nil
}

// checkChoices checks n, which may be nil.
func checkChoices(n *Whole) error {
	if choices(n) < 1 || choices(n) > MaxChoices {
		return Invalid("invalid_value", "n", fmt.Sprintf("n must be from 1 to %d", MaxChoices))
	}
	return nil
}

// choices is the number of choices of a request with that n.
func choices(n *Whole) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func (raw rawChat) request(r Reading) (*ChatRequest, error) {
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
	effort, ignoredFields, err := raw.reasoning(r)
	if err != nil {
		return nil, err
	}
	req := &ChatRequest{
		Model: raw.Model, Messages: messages, Stream: raw.Stream, N: choices(raw.N),
		IncludeUsage: raw.StreamOptions != nil && raw.StreamOptions.IncludeUsage,
		Tools:        set.tools, Legacy: len(
			raw.Functions) > 0, SingleCall: set.single, Instructions: set.instructions(),
		Format: format, Reasoning: effort, ServiceTier: serviceTiers[raw.ServiceTier], Verbosity: raw.Verbosity,
		Stop: raw.Stop,
	}
	req.Ignored = ignoredFields
	if set.strict {
		req.Ignored = append(req.Ignored, "tools.strict")
	}
	if slices.ContainsFunc(messages, Message.lowDetail) {
		req.Ignored = append(req.Ignored, "image_url.detail")
	}
	return req, nil
}

// clip bounds the text of a client that an error repeats.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
