package anthropic

import "codex-proxy/proxy/openai"

// dangerousToolUse is the type of the safeguard that Claude Code's auto mode asks for: it wants a verdict on each call
// of a tool, and denies calls that have none.
// Source: Claude Code 2.1.330; no reference of Anthropic's has it.
const dangerousToolUse = "dangerous_tool_use"

// maxSafeguards bounds the safeguards of a request; Claude Code sends one.
const maxSafeguards = 16

// rawSafeguard is a check that the client wants. The rest of it is context for a classifier.
type rawSafeguard struct {
	Type string `json:"type"`
}

func (raw *rawRequest) applySafeguards(req *MessageRequest) error {
	if len(raw.Safeguards) > maxSafeguards {
		return invalid("safeguards", "must not hold more than 16 safeguards")
	}
	for _, s := range raw.Safeguards {
		req.Safeguards = append(req.Safeguards, openai.Clip(s.Type))
	}
	return nil
}

// SafeguardResult is the answer to one safeguard of a request.
type SafeguardResult struct {
	Type   string          `json:"type"`
	Status safeguardStatus `json:"status"`
}

// safeguardStatus has a verdict for each call, by its id, if the safeguard is known.
type safeguardStatus struct {
	Type     string             `json:"type"` // available or unsupported
	ToolUses map[string]verdict `json:"tool_uses,omitzero"`
}

type verdict struct {
	Type    string `json:"type"`    // evaluated
	Outcome string `json:"outcome"` // not_flagged
}

// unflagged is the verdict on every call. There is no classifier here: the client's own rules and its user decide which
// tools run, as with every other client (docs/security.md).
var unflagged = verdict{Type: "evaluated", Outcome: "not_flagged"}

// safeguardResults answer the safeguards of a request for an answer with these calls; nil if it has no safeguards.
func safeguardResults(types, calls []string) []SafeguardResult {
	var results []SafeguardResult
	for _, kind := range types {
		status := safeguardStatus{Type: "unsupported"}
		if kind == dangerousToolUse {
			status = safeguardStatus{Type: "available", ToolUses: make(map[string]verdict, len(calls))}
			for _, id := range calls {
				status.ToolUses[id] = unflagged
			}
		}
		results = append(results, SafeguardResult{Type: kind, Status: status})
	}
	return results
}
