package openai

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// routerFields are the fields of the object reasoning that OpenRouter has, and OpenAI has not. Source: OpenRouter's
// guide "Reasoning Tokens".
type routerFields struct {
	Enabled   *bool  `json:"enabled"`
	Exclude   bool   `json:"exclude"`
	MaxTokens *Whole `json:"max_tokens"`

	Others map[string]memberValue `json:",embed"`
}

// memberValue is the value of one of at most maxMembers members.
type memberValue struct{ json.RawMessage }

// UnmarshalJSONFrom refuses the value after the last allowed one.
func (v *memberValue) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMembers); err != nil {
		return err
	}
	value, err := from.ReadValue()
	v.RawMessage = bytes.Clone(value)
	return err
}

// reasoning joins the parameters reasoning_effort and reasoning, which is OpenAI's or OpenRouter's. It also returns the
// fields without effect.
func (raw rawChat) reasoning(read Reading) (r Reasoning, ignored []string, err error) {
	router, rest, err := splitReasoning(raw.Reasoning)
	if err != nil {
		return r, nil, err
	}
	r, without, err := read.reasoning(rest)
	if err != nil {
		return r, nil, err
	}
	if r.Effort != "" && raw.ReasoningEffort != "" && r.Effort != raw.ReasoningEffort {
		return r, nil, Invalid("invalid_value", "reasoning.effort",
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
	if isUnset(raw) || !isObject(raw) {
		return router, raw, nil
	}
	if unmarshal(raw, &router) != nil {
		return router, nil, Invalid("invalid_type", "reasoning", "reasoning must be an object of the strings effort "+
			"and summary, the booleans enabled and exclude, and the number max_tokens")
	}
	if rest, err = Encode(router.Others); err != nil || len(router.Others) == 0 {
		return router, nil, err
	}
	return router, rest, nil
}

// apply returns the fields without effect. An effort counts before enabled: claude-code-router
// sends an effort and "enabled": false together.
func (f routerFields) apply(r *Reasoning) (ignored []string, err error) {
	off := f.Enabled != nil && !*f.Enabled
	r.Disabled = off && (r.Effort == "" || r.Effort == "none")
	if off && !r.Disabled {
		ignored = append(ignored, "reasoning.enabled")
	}
	switch {
	case f.MaxTokens != nil && *f.MaxTokens < 1:
		return nil, Invalid("invalid_value", "reasoning.max_tokens", "reasoning.max_tokens must be at least 1")
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
