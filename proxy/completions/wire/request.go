package wire

import (
	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/parameter"
)

// Request is a validated request of POST /v1/completions, as a chat of one
// message. Source: OpenAI API reference, "Create completion (legacy)".
type Request struct {
	wire.Request
	Echo string // the prompt, if the answer begins with it
}

// Common implements the common part of a request.
func (req *Request) Common() parameter.Common {
	asked := req.Request.Common()
	asked.HistoryField, asked.Summary = "prompt", nil
	return asked
}

// rawCompletion is the request as it is sent, with the honoured fields only.
type rawCompletion struct {
	Model         string                   `json:"model"`
	Prompt        prompt                   `json:"prompt"`
	Stream        bool                     `json:"stream"`
	StreamOptions *parameter.StreamOptions `json:"stream_options"`
	N             *jsonbody.Whole          `json:"n"`
	BestOf        *jsonbody.Whole          `json:"best_of"`
	Echo          bool                     `json:"echo"`
	Stop          parameter.Stop           `json:"stop"`

	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// Decode parses and validates a request body. Every error is an *openai.Error with status 400 that names the
// field at fault.
func Decode(body []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawCompletion
	if err := jsonbody.Decode(body, &raw); err != nil {
		return nil, err
	}
	raw.Model = r.ModelOf(raw.Model)
	ignoredParams, err := r.CheckParams(completionParams, raw.Others)
	if err != nil {
		return nil, err
	}
	if err := raw.check(); err != nil {
		return nil, err
	}
	return raw.request(ignoredParams), nil
}

// check refuses invalid values of single parameters.
func (raw rawCompletion) check() error {
	if err := parameter.CheckModel(raw.Model); err != nil {
		return err
	}
	if err := parameter.CheckChoices(raw.N); err != nil {
		return err
	}
	switch {
	case !raw.Prompt.set:
		return openai.Invalid("field_required", "prompt", "prompt is required")
	case raw.BestOf != nil && int(*raw.BestOf) != parameter.Choices(raw.N):
		return openai.Unsupported("best_of",
			"best_of must be as large as n: codex reports no probabilities by which to select; leave it out")
	}
	return nil
}

func (raw rawCompletion) request(ignoredParams []string) *Request {
	req := &Request{Request: wire.Request{
		Model: raw.Model, Stream: raw.Stream, N: parameter.Choices(raw.N), Stop: raw.Stop, Ignored: ignoredParams,
		IncludeUsage: raw.StreamOptions != nil && raw.StreamOptions.IncludeUsage,
		Messages:     []wire.Message{{Role: "user", Parts: []media.Part{{Text: raw.Prompt.text, At: "prompt"}}}},
	}}
	if raw.Echo {
		req.Echo = raw.Prompt.text
	}
	return req
}
