package wire

import (
	"maps"

	"codex-proxy/proxy/openai/jsonbody"
)

// InputTokens is the answer of POST /v1/responses/input_tokens.
type InputTokens struct {
	Object      string `json:"object"` // response.input_tokens
	InputTokens int64  `json:"input_tokens"`
}

// InputTokensParams are the parameters of a response, and one that only the count has.
var InputTokensParams = func() jsonbody.Params {
	table := maps.Clone(Params)
	p := table["user"]
	p.Rule, p.Why = jsonbody.Ignored, "codex has no such setting"
	table["personality"] = p
	return table
}()

// DecodeInputTokens is Decode for a request to count the tokens of a response's input. The model may be
// missing, and nothing is stored or streamed. Source: OpenAI API reference, "Get input token counts".
func DecodeInputTokens(body []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawResponse
	if err := raw.decode(body); err != nil {
		return nil, err
	}
	req, err := raw.decodedBy(r, InputTokensParams)
	if err != nil {
		return nil, err
	}
	req.Stream, req.Store = false, nil
	return req, nil
}
