package openai

import "maps"

// InputTokens is the answer of POST /v1/responses/input_tokens.
type InputTokens struct {
	Object      string `json:"object"` // response.input_tokens
	InputTokens int64  `json:"input_tokens"`
}

// inputTokensParams are the parameters of a response, and one that only the count has.
var inputTokensParams = func() params {
	table := maps.Clone(responseParams)
	p := table["user"]
	p.rule, p.why = ignored, "codex has no such setting"
	table["personality"] = p
	return table
}()

// DecodeInputTokens is DecodeResponse for a request to count the tokens of a response's input. The model may be
// missing, and nothing is stored or streamed. Source: OpenAI API reference, "Get input token counts".
func DecodeInputTokens(body []byte) (*ResponseRequest, error) { return Reading{}.InputTokens(body) }

// InputTokens is DecodeInputTokens for another reading.
func (r Reading) InputTokens(body []byte) (*ResponseRequest, error) {
	var raw rawResponse
	if err := raw.decode(body); err != nil {
		return nil, err
	}
	req, err := raw.decodedBy(r, inputTokensParams)
	if err != nil {
		return nil, err
	}
	req.Stream, req.Store = false, nil
	return req, nil
}
