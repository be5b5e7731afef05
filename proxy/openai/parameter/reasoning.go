package parameter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// NoEffort is the reasoning effort of no reasoning.
const NoEffort = "none"

// efforts are the values of reasoning effort that some model lists.
var efforts = []string{NoEffort, "minimal", "low", "medium", "high", "xhigh", "max"}

// Efforts are the values of reasoning_effort.
func Efforts() []string { return slices.Clone(efforts) }

// NoSummary is the value of reasoning.summary for none, also where the settings have a default.
const NoSummary = "none"

var summaries = []string{"auto", "concise", "detailed", NoSummary}

// Summaries are the values of reasoning.summary.
func Summaries() []string { return slices.Clone(summaries) }

// Reasoning is the effort of the model, and the summary that the client wants.
type Reasoning struct {
	Effort  string // empty means the model's default
	Summary string // one of Summaries; empty: the request names none
	// Disabled asks for no reasoning, if the model can do without.
	Disabled bool
}

// reasoningWithout are the fields of reasoning that are ignored: codex has no such settings, and sends the model all
// the reasoning in the history.
var reasoningWithout = []string{"context", "mode"}

// ReadReasoning reads the parameter "reasoning" of the Responses API. It returns the ignored fields that are set.
func ReadReasoning(raw json.RawMessage, r jsonbody.Reading) (wanted Reasoning, ignored []string, err error) {
	if jsonbody.IsUnset(raw) {
		return wanted, nil, nil
	}
	var fields struct {
		Effort  string                          `json:"effort"`
		Summary string                          `json:"summary"`
		Old     string                          `json:"generate_summary"`
		Others  map[string]jsonbody.ValuePrefix `json:",embed"`
	}
	if !jsonbody.IsObject(raw) || jsonbody.Unmarshal(raw, &fields) != nil {
		return wanted, nil, openai.Invalid("invalid_type", "reasoning",
			"reasoning must be an object of the strings effort and summary")
	}
	var unknown jsonbody.UnknownParams
	for _, name := range slices.Sorted(maps.Keys(fields.Others)) {
		switch {
		case fields.Others[name] == "null":
		case slices.Contains(reasoningWithout, name):
			ignored = append(ignored, "reasoning."+name)
		case r.IgnoreUnknown:
			unknown.Add("reasoning." + name)
		default:
			return wanted, nil, openai.Invalid("unknown_parameter", "reasoning."+openai.Clip(name),
				fmt.Sprintf("reasoning has no field %q; there are effort and summary", openai.Clip(name)))
		}
	}
	ignored = append(ignored, unknown.List()...)
	wanted = Reasoning{Effort: fields.Effort, Summary: cmp.Or(fields.Summary, fields.Old)}
	if wanted.Summary != "" && !slices.Contains(summaries, wanted.Summary) {
		return wanted, nil, openai.Invalid("invalid_value", "reasoning.summary",
			fmt.Sprintf("reasoning.summary must be one of %v", summaries))
	}
	return wanted, ignored, CheckEffort("reasoning.effort", wanted.Effort)
}

// CheckEffort refuses an effort that no model lists; at is its path.
func CheckEffort(at, effort string) error {
	if effort != "" && !slices.Contains(efforts, effort) {
		return openai.Invalid("invalid_value", at, fmt.Sprintf("%s must be one of %v", at, efforts))
	}
	return nil
}
