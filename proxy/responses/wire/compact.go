package wire

import (
	"encoding/json"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// compactParams are the parameters of POST /v1/responses/compact. It also accepts the parameters of a response that
// control its generation, without effect, as clients send the same settings to both.
var compactParams = jsonbody.Params{
	"model": {jsonbody.Honoured, ""},
	"input": {jsonbody.Honoured, "as for a response"},
	"instructions": {jsonbody.Honoured,
		"the model reads them with the conversation; the compacted one does not hold them"},
	"previous_response_id": {jsonbody.Honoured, "the whole conversation up to that response, before input"},
	"reasoning":            {jsonbody.Honoured, "as for a response"},
	"service_tier":         {jsonbody.Honoured, "as for a response"},

	"image":                  {jsonbody.Ignored, "codex has no such setting"},
	"include":                {jsonbody.Ignored, "there is nothing to include"},
	"max_output_tokens":      {jsonbody.Ignored, "codex has no such setting"},
	"metadata":               {jsonbody.Ignored, "nothing is stored"},
	"parallel_tool_calls":    {jsonbody.Ignored, "no tools are offered"},
	"prompt_cache_key":       {jsonbody.Ignored, "codex sets its own; it identifies the conversation for `rotation`"},
	"prompt_cache_options":   {jsonbody.Ignored, "codex sets its own"},
	"prompt_cache_retention": {jsonbody.Ignored, "codex sets its own"},
	"store":                  {jsonbody.Ignored, "nothing is stored"},
	"text":                   {jsonbody.Ignored, "the summary is text"},
	"tool_choice":            {jsonbody.Ignored, "no tools are offered"},
	"tools":                  {jsonbody.Ignored, "no tools are offered"},
	"truncation":             {jsonbody.Ignored, "codex cuts nothing off: a conversation that is too long is refused"},

	"conversation": {jsonbody.Refused, "send previous_response_id, or the items of the conversation as input"},
	"stream":       {jsonbody.Refused, "the compacted conversation comes as a whole"},
}

// rawCompact has the fields of a request that are honoured, and the names of the others.
type rawCompact struct {
	Model        string          `json:"model"`
	Input        rawInput        `json:"input"`
	Instructions *string         `json:"instructions"`
	Previous     string          `json:"previous_response_id"`
	Reasoning    json.RawMessage `json:"reasoning"`
	ServiceTier  string          `json:"service_tier"`
	CacheKey     *string         `json:"prompt_cache_key"`

	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// DecodeCompact parses and validates the body of POST /v1/responses/compact. Source: OpenAI API reference, "Compact a
// response".
func DecodeCompact(body []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawCompact
	if err := jsonbody.Decode(body, &raw); err != nil {
		return nil, err
	}
	if err := parameter.CheckModel(raw.Model); err != nil {
		return nil, err
	}
	ignoredParams, err := r.CheckParams(compactParams, raw.Others)
	if err != nil {
		return nil, err
	}
	same := rawResponse{
		Model: raw.Model, Input: raw.Input, Instructions: raw.Instructions, Previous: raw.Previous,
		Reasoning: raw.Reasoning, ServiceTier: raw.ServiceTier, rawEcho: rawEcho{PromptCacheKey: raw.CacheKey},
	}
	echoed, err := same.checkEcho()
	if err != nil {
		return nil, err
	}
	req, err := same.validate(r)
	if err != nil {
		return nil, err
	}
	req.Compaction = &Compacted{}
	req.Ignored = slices.Concat(req.Ignored, ignoredParams, echoed)
	slices.Sort(req.Ignored)
	return req, nil
}

// CompactedResponse is the answer of POST /v1/responses/compact.
type CompactedResponse struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"` // response.compaction
	CreatedAt int64             `json:"created_at"`
	Output    []json.RawMessage `json:"output"` // messages of the user, and one item compaction
	Usage     *Usage            `json:"usage"`
}

// NewCompactedResponse makes the answer. All counts are 0 if codex reported no usage of the turn.
func NewCompactedResponse(id string, at int64, output []json.RawMessage, usage *openai.Usage) CompactedResponse {
	if usage == nil {
		usage = &openai.Usage{}
	}
	return CompactedResponse{ID: id, Object: "response.compaction", CreatedAt: at, Output: output,
		Usage: NewUsage(usage)}
}

// CompactionItem is the item compaction of that id with that content.
func CompactionItem(id, content string) json.RawMessage {
	data, err := Item{Type: ItemCompaction, ID: id, Encrypted: content}.Encode()
	if err != nil { // strings always encode
		panic(err)
	}
	return data
}
