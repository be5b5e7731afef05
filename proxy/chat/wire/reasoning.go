package wire

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// routerFields are the fields of the object reasoning that OpenRouter has, and OpenAI has not. Source: OpenRouter's
// guide "Reasoning Tokens".
type routerFields struct {
	Enabled   *bool           `json:"enabled"`
	Exclude   bool            `json:"exclude"`
	MaxTokens *jsonbody.Whole `json:"max_tokens"`

	Others map[string]jsonbody.MemberValue `json:",embed"`
}

// reasoning joins the parameters reasoning_effort and reasoning, which is OpenAI's or OpenRouter's. It also returns the
// fields without effect.
func (raw rawChat) reasoning(read jsonbody.Reading) (r parameter.Reasoning, ignored []string, err error) {
	router, rest, err := splitReasoning(raw.Reasoning)
	if err != nil {
		return r, nil, err
	}
	r, without, err := parameter.ReadReasoning(rest, read)
	if err != nil {
		return r, nil, err
	}
	if r.Effort != "" && raw.ReasoningEffort != "" && r.Effort != raw.ReasoningEffort {
		return r, nil, openai.Invalid("invalid_value", "reasoning.effort",
			"reasoning.effort and reasoning_effort contradict each other; send one of them")
	}
	if r.Effort == "" {
		r.Effort = raw.ReasoningEffort
	}
	ignored, err = router.apply(&r)
	return r, append(without, ignored...), err
}

// splitReasoning separates OpenRouter's fields from the others.
func splitReasoning(raw json.RawMessage) (router routerFields, rest json.RawMessage, err error) {
	if jsonbody.IsUnset(raw) || !jsonbody.IsObject(raw) {
		return router, raw, nil
	}
	if jsonbody.Unmarshal(raw, &router) != nil {
		return router, nil, openai.Invalid("invalid_type", "reasoning",
			"reasoning must be an object of the strings effort "+
				"and summary, the booleans enabled and exclude, and the number max_tokens")
	}
	if rest, err = openai.Encode(router.Others); err != nil || len(router.Others) == 0 {
		return router, nil, err
	}
	return router, rest, nil
}

// apply returns the fields without effect. An effort counts before enabled: claude-code-router
// sends an effort and "enabled": false together.
func (f routerFields) apply(r *parameter.Reasoning) (ignored []string, err error) {
	off := f.Enabled != nil && !*f.Enabled
	r.Disabled = off && (r.Effort == "" || r.Effort == parameter.NoEffort)
	if off && !r.Disabled {
		ignored = append(ignored, "reasoning.enabled")
	}
	switch {
	case f.MaxTokens != nil && *f.MaxTokens < 1:
		return nil, openai.Invalid("invalid_value", "reasoning.max_tokens", "reasoning.max_tokens must be at least 1")
	case f.MaxTokens != nil:
		ignored = append(ignored, "reasoning.max_tokens")
	}
	switch {
	case f.Exclude || off:
		r.Summary = "none"
	case f.Enabled != nil && r.Summary == "": // OpenRouter then sends the reasoning
		r.Summary = "auto"
	}
	return ignored, nil
}
