package wire

import (
	"cmp"
	"encoding/json"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// rawChat is the request as it is sent, with the honoured fields only.
type rawChat struct {
	Model             string                     `json:"model"`
	Messages          jsonbody.List[rawMessage]  `json:"messages"`
	Stream            bool                       `json:"stream"`
	StreamOptions     *parameter.StreamOptions   `json:"stream_options"`
	ReasoningEffort   string                     `json:"reasoning_effort"`
	Reasoning         json.RawMessage            `json:"reasoning"`
	N                 *jsonbody.Whole            `json:"n"`
	ResponseFormat    *rawFormat                 `json:"response_format"`
	Modalities        jsonbody.List[string]      `json:"modalities"`
	Tools             jsonbody.List[rawTool]     `json:"tools"`
	ToolChoice        json.RawMessage            `json:"tool_choice"`
	ParallelToolCalls *bool                      `json:"parallel_tool_calls"`
	Functions         jsonbody.List[rawFunction] `json:"functions"`
	FunctionCall      json.RawMessage            `json:"function_call"`
	ServiceTier       string                     `json:"service_tier"`
	Verbosity         string                     `json:"verbosity"`
	Stop              parameter.Stop             `json:"stop"`

	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// Decode parses and validates a request body. Every error is an *openai.Error with status 400 that names the field
// at fault.
func Decode(body []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawChat
	if err := jsonbody.Decode(body, &raw); err != nil {
		return nil, err
	}
	return raw.validate(r)
}

func (raw rawChat) validate(r jsonbody.Reading) (*Request, error) {
	raw.Model = r.ModelOf(raw.Model)
	ignoredParams, err := r.CheckParams(chatParams, raw.Others)
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

// check refuses invalid values of single parameters.
func (raw rawChat) check() error {
	if err := parameter.CheckModel(raw.Model); err != nil {
		return err
	}
	if err := parameter.CheckChoices(raw.N); err != nil {
		return err
	}
	if len(raw.Modalities) > 0 && !slices.Equal(raw.Modalities, jsonbody.List[string]{"text"}) {
		return openai.Unsupported("modalities", `modalities must be ["text"]`)
	}
	err := cmp.Or(parameter.CheckTier(raw.ServiceTier), parameter.CheckVerbosity("verbosity", raw.Verbosity))
	if err != nil {
		return err
	}
	return parameter.CheckEffort("reasoning_effort", raw.ReasoningEffort)
}

func (raw rawChat) request(r jsonbody.Reading) (*Request, error) {
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
	req := &Request{
		Model: raw.Model, Messages: messages, Stream: raw.Stream, N: parameter.Choices(raw.N),
		IncludeUsage: raw.StreamOptions != nil && raw.StreamOptions.IncludeUsage,
		Tools:        set.tools, Legacy: len(raw.Functions) > 0, SingleCall: set.single, Instructions: set.instructions(),
		Format: format, Reasoning: effort, ServiceTier: parameter.Tier(raw.ServiceTier), Verbosity: raw.Verbosity,
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
