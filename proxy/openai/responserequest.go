package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ResponseRequest is a validated request of POST /v1/responses, or a message
// response.create. Source: OpenAI API reference, "Create a model response".
type ResponseRequest struct {
	Model        string
	Instructions *string
	Input        []InputItem
	Previous     string // previous_response_id; empty: none
	Conversation string // id of the conversation; empty: none
	Stream       bool
	Background   bool  // the response is made without its client
	Store        *bool // nil means the server's default
	NoGenerate   bool  // generate is false, or the request only prepares the prompt cache: the model is not called
	Tools        ClientTools
	Reasoning    Reasoning
	Encrypted    bool            // include has reasoning.encrypted_content
	TextFormat   json.RawMessage // text.format, for the response
	Format       Format
	Verbosity    string // text.verbosity: low, medium, high or empty
	ServiceTier  string // flex, priority or empty
	Metadata     map[string]string
	Ignored      []string // parameters accepted without effect, sorted
	// Compaction asks for a compaction of the conversation in place of an answer, if it is not nil. It has all fields
	// of the compaction except the summary.
	Compaction *Compacted

	echoed                rawEcho
	asked                 asked
	onlyPrewarm           bool       // prompt_cache_options has nothing that is ignored
	tier                  string     // service_tier as the client sent it
	paramTools, itemTools toolReader // of the parameter tools, and of items
	choice                toolChoice
}

// Limits on metadata. Source: OpenAI API reference, "metadata".
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// rawResponse is the request as it is sent, with the honoured fields only.
type rawResponse struct {
	Type              string                       `json:"type"` // of a message on a WebSocket
	Model             string                       `json:"model"`
	Input             rawInput                     `json:"input"`
	Instructions      *string                      `json:"instructions"`
	Stream            bool                         `json:"stream"`
	Tools             boundedList[json.RawMessage] `json:"tools"`
	ToolChoice        json.RawMessage              `json:"tool_choice"`
	ParallelToolCalls *bool                        `json:"parallel_tool_calls"`
	Text              rawText                      `json:"text"`
	Reasoning         json.RawMessage              `json:"reasoning"`
	ServiceTier       string                       `json:"service_tier"`
	Metadata          map[string]metadatum         `json:"metadata"`
	Include           boundedList[string]          `json:"include"`
	Store             *bool                        `json:"store"`
	Background        bool                         `json:"background"`
	Previous          string                       `json:"previous_response_id"`
	Conversation      rawConversation              `json:"conversation"`
	Truncation        string                       `json:"truncation"`
	Generate          *bool                        `json:"generate"`

	rawEcho `json:",embed"`
	Others  map[string]valuePrefix `json:",embed"`
}

// metadatum is one value of metadata.
type metadatum string

// UnmarshalJSONFrom refuses the value after the last allowed one.
func (m *metadatum) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMetadata); err != nil {
		return err
	}
	return jsonv2.UnmarshalDecode(from, (*string)(m))
}

type rawText struct {
	Format    json.RawMessage `json:"format"`
	Verbosity string          `json:"verbosity"`
}

// DecodeResponse parses and validates a request body. Every error is an *Error
// with status 400 that names the field at fault.
func DecodeResponse(body []byte) (*ResponseRequest, error) { return Reading{}.Response(body) }

// Response is DecodeResponse for another reading.
func (r Reading) Response(body []byte) (*ResponseRequest, error) {
	var raw rawResponse
	if err := raw.decode(body); err != nil {
		return nil, err
	}
	return raw.decoded(r)
}

// decode reads the body of an HTTP request.
func (raw *rawResponse) decode(body []byte) error {
	if err := decodeBody(body, raw); err != nil {
		return err
	}
	switch {
	case raw.Generate != nil:
		return Invalid("unknown_parameter", "generate", "generate is for WebSockets; leave it out")
	case raw.Type != "":
		return Invalid("unknown_parameter", "type", `unknown parameter "type"`)
	}
	return nil
}

// DecodeResponseCreate is DecodeResponse for a message on a WebSocket.
func DecodeResponseCreate(message []byte) (*ResponseRequest, error) {
	return Reading{}.ResponseCreate(message)
}

// ResponseCreate is DecodeResponseCreate for another reading.
func (r Reading) ResponseCreate(message []byte) (*ResponseRequest, error) {
	var raw rawResponse
	if err := decodeBody(message, &raw); err != nil {
		return nil, err
	}
	if raw.Background {
		return nil, Invalid("unsupported_parameter", "background",
			"a response on a WebSocket is made for its connection; leave background out, or POST the request")
	}
	return raw.decoded(r)
}

func (raw rawResponse) decoded(r Reading) (*ResponseRequest, error) {
	if err := checkModel(raw.Model); err != nil {
		return nil, err
	}
	return raw.decodedBy(r, responseParams)
}

// decodedBy applies a table of parameters. The model may be missing.
func (raw rawResponse) decodedBy(r Reading, table params) (*ResponseRequest, error) {
	ignoredParams, err := r.checkParams(table, raw.Others)
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
		req.Ignored = slices.DeleteFunc(req.Ignored, func(name string) bool { return name == cacheOptions })
	}
	slices.Sort(req.Ignored)
	req.Ignored = slices.Compact(req.Ignored) // a header lists them
	return req, nil
}

func (raw rawResponse) validate(r Reading) (*ResponseRequest, error) {
	req := &ResponseRequest{
		Model: raw.Model, Instructions: raw.Instructions, Stream: raw.Stream, Store: raw.Store,
		Previous: raw.Previous, Conversation: raw.Conversation.ID,
		Background: raw.Background,
		NoGenerate: raw.Generate != nil && !*raw.Generate, echoed: raw.rawEcho, tier: raw.ServiceTier,
		ServiceTier: serviceTiers[raw.ServiceTier], Verbosity: raw.Text.Verbosity,
	}
	for _, check := range []func(*ResponseRequest) error{
		raw.checkScalars, raw.applyMetadata,
		func(req *ResponseRequest) error {
			return raw.applyReasoning(req,
				r)
		}, raw.applyInclude, raw.applyText, raw.applyInput,
		raw.applyTools, raw.applyCacheOptions,
	} {
		if err := check(req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

func (raw rawResponse) checkScalars(req *ResponseRequest) error {
	_, tier := serviceTiers[raw.ServiceTier]
	switch {
	case !tier:
		return Invalid("invalid_value", "service_tier", errServiceTier)
	case !slices.Contains(verbosities, raw.Text.Verbosity):
		return Invalid("invalid_value", "text.verbosity", "text.verbosity must be low, medium or high")
	case len(raw.Model) > maxModelName:
		return Invalid("invalid_value", "model", fmt.Sprintf("model must not be longer than %d bytes", maxModelName))
	case !slices.Contains([]string{"", "disabled", "auto"}, raw.Truncation):
		return Invalid("invalid_value", "truncation", "truncation must be disabled or auto")
	case raw.Previous != "" && raw.Conversation.ID != "":
		return Invalid("mutually_exclusive_parameters", "previous_response_id",
			"previous_response_id and conversation exclude each other: send one of the two")
	case raw.Truncation == "auto": // codex cuts nothing off, and the model endpoint refuses input that is too long
		req.Ignored = append(req.Ignored, "truncation")
	}
	return nil
}

func (raw rawResponse) applyMetadata(req *ResponseRequest) (err error) {
	req.Metadata, err = readMetadata(raw.Metadata)
	return err
}

func (raw rawResponse) applyReasoning(req *ResponseRequest, r Reading) (err error) {
	var ignored []string
	req.Reasoning, ignored, err = r.reasoning(raw.Reasoning)
	req.Ignored = append(req.Ignored, ignored...)
	req.asked.effort = req.Reasoning.Effort != ""
	return err
}

// hostedIncludes are the values of include for hosted tools, which are not served, and for input images, which the list
// of input items always has.
var hostedIncludes = []string{
	"file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
	"message.input_image.image_url",
	"computer_call_output.output.image_url", "code_interpreter_call.outputs",
}

func (raw rawResponse) applyInclude(req *ResponseRequest) error {
	if len(raw.Include) > maxList {
		return Invalid("invalid_value", "include", fmt.Sprintf("include must not hold more than %d values", maxList))
	}
	encrypted, ignored, err := readIncludes(raw.Include)
	req.Encrypted = encrypted
	if ignored {
		req.Ignored = append(req.Ignored, "include")
	}
	return err
}

// IncludesEncrypted reports whether the values of include have the encrypted reasoning. The error is an *Error.
func IncludesEncrypted(values []string) (bool, error) {
	encrypted, _, err := readIncludes(values)
	return encrypted, err
}

func readIncludes(values []string) (encrypted, ignored bool, err error) {
	for i, value := range values {
		at := fmt.Sprintf("include[%d]", i)
		switch {
		case value == "reasoning.encrypted_content":
			encrypted = true
		case slices.Contains(hostedIncludes, value):
			ignored = true
		case value == "message.output_text.logprobs":
			return false, false, unsupported(at, at+": codex reports no logprobs; leave it out")
		default:
			return false, false, Invalid("invalid_value", at, fmt.Sprintf("%s: there is no %q", at, clip(value)))
		}
	}
	return encrypted, ignored, nil
}

// rawTextFormat is text.format in a request.
type rawTextFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      *bool           `json:"strict"`
}

func (raw rawResponse) applyText(req *ResponseRequest) error {
	req.TextFormat = json.RawMessage(`{"type":"text"}`)
	if isUnset(raw.Text.Format) {
		return nil
	}
	req.asked.format = true
	return req.applyFormat(raw.Text.Format, "text.format")
}

// applyFormat applies the format at that path.
func (req *ResponseRequest) applyFormat(format json.RawMessage, at string) (err error) {
	var f rawTextFormat
	if unmarshal(format, &f) != nil {
		return Invalid("invalid_type", at, at+" must be an object")
	}
	req.TextFormat, req.Format = format, Format{}
	switch f.Type {
	case "text":
	case "json_object":
		req.Format = jsonObject
	case "json_schema":
		req.Format, err = schemaFormat(at, f.Name, f.Description, f.Schema, f.Strict != nil && *f.Strict)
	default:
		return Invalid("invalid_value", at+".type", at+".type must be text, json_object or json_schema")
	}
	return err
}

func isObject(v json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(v), []byte("{")) }

// Blank is the response to the request before its first event.
func (req *ResponseRequest) Blank(id string, created int64) Response {
	r := Response{
		ID: id, Object: "response", CreatedAt: created, Status: StatusInProgress, Background: req.Background,
		Instructions: req.Instructions,
		Model:        req.Model,
		Output:       []OutputItem{}, ParallelToolCalls: !req.Tools.Single, Text: ResponseText{Format: req.TextFormat},
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
