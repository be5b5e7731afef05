package openai

import (
	"encoding/json"
	"fmt"
	"slices"
)

// efforts are the values of reasoning effort that some model lists.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

var summaries = []string{"auto", "concise", "detailed"}

// Reasoning is how the model is to think, and what of that the client wants.
type Reasoning struct {
	Effort  string // empty means the model's default
	Summary string // auto, concise or detailed; empty means none
}

// reasoning reads the parameter "reasoning" in the form that the Responses API
// gave it.
func reasoning(raw json.RawMessage) (Reasoning, error) {
	var fields map[string]*string
	if isNothing(raw) {
		return Reasoning{}, nil
	}
	if json.Unmarshal(raw, &fields) != nil {
		return Reasoning{}, Invalid("invalid_type", "reasoning", "reasoning must be an object of the strings effort and summary")
	}
	var r Reasoning
	for name, value := range fields {
		switch {
		case value == nil:
		case name == "effort":
			r.Effort = *value
		case name == "summary" || name == "generate_summary":
			r.Summary = *value
		default:
			return r, Invalid("unknown_parameter", "reasoning."+clip(name), fmt.Sprintf("reasoning has no field %q; there are effort and summary", clip(name)))
		}
	}
	if r.Summary == "none" {
		r.Summary = ""
	}
	if r.Summary != "" && !slices.Contains(summaries, r.Summary) {
		return r, Invalid("invalid_value", "reasoning.summary", fmt.Sprintf("reasoning.summary must be one of %v", summaries))
	}
	return r, checkEffort("reasoning.effort", r.Effort)
}

func checkEffort(at, effort string) error {
	if effort != "" && !slices.Contains(efforts, effort) {
		return Invalid("invalid_value", at, fmt.Sprintf("%s must be one of %v", at, efforts))
	}
	return nil
}
