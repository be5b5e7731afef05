package openai

// CompletionRequest is a validated request of POST /v1/completions, as a chat of one
// message. Source: OpenAI API reference, "Create completion (legacy)".
type CompletionRequest struct {
	ChatRequest
	Echo string // the prompt, if the answer begins with it
}

// Asked implements the common part of a request.
func (req *CompletionRequest) Asked() Asked {
	asked := req.ChatRequest.Asked()
	asked.HistoryField, asked.Summary = "prompt", nil
	return asked
}

// rawCompletion is the request as it is sent, with the honoured fields only.
type rawCompletion struct {
	Model         string         `json:"model"`
	Prompt        prompt         `json:"prompt"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
	N             *Whole         `json:"n"`
	BestOf        *Whole         `json:"best_of"`
	Echo          bool           `json:"echo"`
	Stop          stopSequences  `json:"stop"`

	Others map[string]valuePrefix `json:",embed"`
}

// DecodeCompletion parses and validates a request body. Every error is an *Error with
// status 400 that names the field at fault.
func DecodeCompletion(body []byte) (*CompletionRequest, error) { return Reading{}.Completion(body) }

// Completion is DecodeCompletion for another reading.
func (r Reading) Completion(body []byte) (*CompletionRequest, error) {
	var raw rawCompletion
	if err := decodeBody(body, &raw); err != nil {
		return nil, err
	}
	raw.Model = r.model(raw.Model)
	ignoredParams, err := r.checkParams(completionParams, raw.Others)
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
	if err := checkModel(raw.Model); err != nil {
		return err
	}
	if err := checkChoices(raw.N); err != nil {
		return err
	}
	switch {
	case !raw.Prompt.set:
		return Invalid("field_required", "prompt", "prompt is required")
	case raw.BestOf != nil && int(*raw.BestOf) != choices(raw.N):
		return unsupported("best_of",
			"best_of must be as large as n: codex reports no probabilities by which to select; leave it out")
	}
	return nil
}

func (raw rawCompletion) request(ignoredParams []string) *CompletionRequest {
	req := &CompletionRequest{ChatRequest: ChatRequest{
		Model: raw.Model, Stream: raw.Stream, N: choices(raw.N), Stop: raw.Stop, Ignored: ignoredParams,
		IncludeUsage: raw.StreamOptions != nil && raw.StreamOptions.IncludeUsage,
		Messages:     []Message{{Role: "user", Parts: []Part{{Text: raw.Prompt.text, At: "prompt"}}}},
	}}
	if raw.Echo {
		req.Echo = raw.Prompt.text
	}
	return req
}
