package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// CacheOptions is the name of the parameter prompt_cache_options.
const CacheOptions = "prompt_cache_options"

// rawCacheOptions is the parameter prompt_cache_options.
type rawCacheOptions struct {
	Prewarm bool `json:"prewarm"`

	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// applyCacheOptions applies prewarm, which overrides generate. Source: OpenAI API reference, "prompt_cache_options".
// The other options are ignored.
func (raw rawResponse) applyCacheOptions(req *Request) error {
	value := json.RawMessage(raw.Others[CacheOptions])
	if !jsonbody.IsObject(value) { // it was checked: it is unset
		return nil
	}
	var options rawCacheOptions
	if jsonbody.Unmarshal(value, &options) != nil { // a value longer than maxValue is cut off
		return openai.Invalid("invalid_value", CacheOptions,
			CacheOptions+" must be an object of mode, prewarm and ttl, and prewarm a boolean")
	}
	req.NoGenerate = req.NoGenerate || options.Prewarm
	req.onlyPrewarm = options.Prewarm && len(options.Others) == 0
	return nil
}

// rawResponse is the request as it is sent, with the honoured fields only.
type rawResponse struct {
	Type              string                         `json:"type"` // of a message on a WebSocket
	Model             string                         `json:"model"`
	Input             rawInput                       `json:"input"`
	Instructions      *string                        `json:"instructions"`
	Stream            bool                           `json:"stream"`
	Tools             jsonbody.List[json.RawMessage] `json:"tools"`
	ToolChoice        json.RawMessage                `json:"tool_choice"`
	ParallelToolCalls *bool                          `json:"parallel_tool_calls"`
	Text              rawText                        `json:"text"`
	Reasoning         json.RawMessage                `json:"reasoning"`
	ServiceTier       string                         `json:"service_tier"`
	Metadata          map[string]jsonbody.Metadatum  `json:"metadata"`
	Include           jsonbody.List[string]          `json:"include"`
	Store             *bool                          `json:"store"`
	Background        bool                           `json:"background"`
	Previous          string                         `json:"previous_response_id"`
	Conversation      rawConversation                `json:"conversation"`
	Truncation        string                         `json:"truncation"`
	Generate          *bool                          `json:"generate"`

	rawEcho `json:",embed"`
	Others  map[string]jsonbody.ValuePrefix `json:",embed"`
}

// Decode parses and validates a request body. Every error is an *openai.Error with status 400 that names the
// field at fault.
func Decode(body []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawResponse
	if err := raw.decode(body); err != nil {
		return nil, err
	}
	return raw.decoded(r)
}

// decode reads the body of an HTTP request.
func (raw *rawResponse) decode(body []byte) error {
	if err := jsonbody.Decode(body, raw); err != nil {
		return err
	}
	switch {
	case raw.Generate != nil:
		return openai.Invalid("unknown_parameter", "generate", "generate is for WebSockets; leave it out")
	case raw.Type != "":
		return openai.Invalid("unknown_parameter", "type", `unknown parameter "type"`)
	}
	return nil
}

// DecodeCreate is Decode for a message on a WebSocket.
func DecodeCreate(message []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawResponse
	if err := jsonbody.Decode(message, &raw); err != nil {
		return nil, err
	}
	if raw.Background {
		return nil, openai.Invalid("unsupported_parameter", "background",
			"a response on a WebSocket is made for its connection; leave background out, or POST the request")
	}
	return raw.decoded(r)
}

func (raw rawResponse) decoded(r jsonbody.Reading) (*Request, error) {
	if err := parameter.CheckModel(raw.Model); err != nil {
		return nil, err
	}
	return raw.decodedBy(r, Params)
}

// decodedBy applies a table of parameters. The model may be missing.
func (raw rawResponse) decodedBy(r jsonbody.Reading, table jsonbody.Params) (*Request, error) {
	ignoredParams, err := r.CheckParams(table, raw.Others)
	if err != nil {
		return nil, err
	}
	echoed, err := raw.checkEcho()
	if err != nil {
		return nil, err
	}
	req, err := raw.validate(r)
	if err != nil {
		return nil, err
	}
	req.Ignored = slices.Concat(ignoredParams, echoed, req.Ignored)
	if req.onlyPrewarm {
		req.Ignored = slices.DeleteFunc(req.Ignored, func(name string) bool { return name == CacheOptions })
	}
	slices.Sort(req.Ignored)
	req.Ignored = slices.Compact(req.Ignored) // a header lists them
	return req, nil
}

func (raw rawResponse) validate(r jsonbody.Reading) (*Request, error) {
	req := &Request{
		Model: raw.Model, Instructions: raw.Instructions, Stream: raw.Stream, Store: raw.Store,
		Previous: raw.Previous, Conversation: raw.Conversation.ID,
		Background: raw.Background,
		NoGenerate: raw.Generate != nil && !*raw.Generate, echoed: raw.rawEcho, tier: raw.ServiceTier,
		ServiceTier: parameter.Tier(raw.ServiceTier), Verbosity: raw.Text.Verbosity,
	}
	for _, check := range []func(*Request) error{
		raw.checkScalars, raw.applyMetadata,
		func(req *Request) error { return raw.applyReasoning(req, r) },
		raw.applyInclude, raw.applyText, raw.applyInput, raw.applyTools, raw.applyCacheOptions,
	} {
		if err := check(req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

func (raw rawResponse) checkScalars(req *Request) error {
	err := cmp.Or(parameter.CheckTier(raw.ServiceTier), parameter.CheckVerbosity("text.verbosity", raw.Text.Verbosity))
	if err != nil {
		return err
	}
	switch {
	case len(raw.Model) > openai.MaxModelName:
		return openai.Invalid("invalid_value", "model", fmt.Sprintf("model must not be longer than %d bytes",
			openai.MaxModelName))
	case !slices.Contains([]string{"", "disabled", "auto"}, raw.Truncation):
		return openai.Invalid("invalid_value", "truncation", "truncation must be disabled or auto")
	case raw.Previous != "" && raw.Conversation.ID != "":
		return openai.Invalid("mutually_exclusive_parameters", "previous_response_id",
			"previous_response_id and conversation exclude each other: send one of the two")
	case raw.Truncation == "auto": // codex cuts nothing off, and the model endpoint refuses input that is too long
		req.Ignored = append(req.Ignored, "truncation")
	}
	return nil
}

func (raw rawResponse) applyMetadata(req *Request) (err error) {
	req.Metadata, err = jsonbody.ReadMetadata(raw.Metadata)
	return err
}

func (raw rawResponse) applyReasoning(req *Request, r jsonbody.Reading) (err error) {
	var ignored []string
	req.Reasoning, ignored, err = parameter.ReadReasoning(raw.Reasoning, r)
	req.Ignored = append(req.Ignored, ignored...)
	return err
}

// SocketMessage is the purpose of a message on a WebSocket.
type SocketMessage struct {
	Type       string `json:"type"`
	ResponseID string `json:"response_id"` // of a response.cancel
}

// DecodeMessage reads the purpose of a message. Of the rest it only refuses duplicate names. The error is an *Error
// with status 400.
func DecodeMessage(body []byte) (m SocketMessage, err error) {
	if jsonbody.Unmarshal(jsonbody.ValidUTF8(body), &m) != nil || !jsonbody.IsObject(body) {
		return m, openai.Invalid("invalid_json", "", "a message must be a JSON object with a type")
	}
	return m, jsonbody.CheckDuplicateNames(body)
}
