package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"

	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/parameter"
)

// rawThinking is the parameter thinking.
// Source: https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking.
type rawThinking struct {
	Type    string          `json:"type"`
	Budget  *jsonbody.Whole `json:"budget_tokens"`
	Display string          `json:"display"`
}

type rawOutputConfig struct {
	Effort string                          `json:"effort"`
	Format *rawFormat                      `json:"format"`
	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// rawFormat is the format of an answer.
// Source: https://docs.anthropic.com/en/docs/build-with-claude/structured-outputs.
type rawFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// minBudget is the least budget of Anthropic's API.
const minBudget = 1024

// Budgets from which thinking is of medium and of high effort.
const (
	mediumBudget = 4 << 10
	highBudget   = 16 << 10
)

// efforts are the efforts of Anthropic's API.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// applyReasoning applies thinking and output_config.effort. The effort counts before the budget, which is older.
func (raw *rawRequest) applyReasoning(req *MessageRequest) error {
	req.Reasoning.Summary = parameter.NoSummary
	if raw.Thinking != nil {
		if err := raw.Thinking.apply(req); err != nil {
			return err
		}
	}
	config := raw.OutputConfig
	if config.Effort != "" {
		const at = "output_config.effort"
		if !slices.Contains(efforts, config.Effort) {
			return invalid(at, fmt.Sprintf("must be one of %v", efforts))
		}
		req.effort, req.effortField = config.Effort, at
	}
	for name, value := range config.Others {
		if value.IsSet() && plainName(name) && len(req.Ignored) < maxUnknown {
			req.Ignored = append(req.Ignored, "output_config."+name)
		}
	}
	return nil
}

func (t *rawThinking) apply(req *MessageRequest) error {
	switch t.Type {
	case "disabled":
		req.Reasoning.Disabled = true
		return nil
	case "enabled":
		if err := t.applyBudget(req); err != nil {
			return err
		}
	case "adaptive", "between_tools":
	default:
		return invalid("thinking.type", "must be enabled, adaptive or disabled")
	}
	req.Thinking = true
	switch t.Display {
	case "", "summarized", "updates":
		req.Reasoning.Summary = "auto"
	case "omitted":
	default:
		return invalid("thinking.display", "must be summarized or omitted")
	}
	return nil
}

func (t *rawThinking) applyBudget(req *MessageRequest) error {
	const at = "thinking.budget_tokens"
	switch {
	case t.Budget == nil:
		return required(at)
	case *t.Budget < minBudget:
		return invalid(at, fmt.Sprintf("Input should be greater than or equal to %d", minBudget))
	case *t.Budget < mediumBudget:
		req.effort = "low"
	case *t.Budget < highBudget:
		req.effort = "medium"
	default:
		req.effort = "high"
	}
	req.effortField = at
	return nil
}

// formatName is the name of the schema of an answer, which has none in this API.
const formatName = "output"

func (raw *rawRequest) applyFormat(req *MessageRequest) (err error) {
	at, format := "output_config.format", raw.OutputConfig.Format
	if format == nil {
		at, format = "output_format", raw.OutputFormat
	}
	switch {
	case format == nil:
		return nil
	case format.Type != "json_schema":
		return invalid(at+".type", "must be json_schema")
	}
	if req.Format, err = jsonschema.NewFormat(at, formatName, "", format.Schema, false); err != nil {
		return err
	}
	if text := req.Format.Instruction; text != "" {
		req.Instructions = append(req.Instructions, text)
	}
	return nil
}
