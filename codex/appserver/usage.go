package appserver

import "codex-proxy/codex/jsonscan"

// Usage counts the tokens of a turn, over all its model responses.
type Usage struct {
	InputTokens           int64 `json:"inputTokens"`
	CachedInputTokens     int64 `json:"cachedInputTokens"`
	OutputTokens          int64 `json:"outputTokens"`
	ReasoningOutputTokens int64 `json:"reasoningOutputTokens"`
	TotalTokens           int64 `json:"totalTokens"`
}

// tokenUsageParams is thread/tokenUsage/updated. A turn's usage is Total less the usage of earlier turns of the thread:
// a turn may have several responses, and after response.incomplete codex 0.169 sends the right total but a zero "last".
type tokenUsageParams struct {
	TokenUsage tokenUsage `json:"tokenUsage"`
}

type tokenUsage struct {
	Total Usage `json:"total"`
}

// Plus is the sum of both.
func (u Usage) Plus(v Usage) Usage { return u.plus(v, 1) }

// plus is the sum of u and sign times v.
func (u Usage) plus(v Usage, sign int64) Usage {
	return Usage{
		InputTokens:           inRange(u.InputTokens + sign*v.InputTokens),
		CachedInputTokens:     inRange(u.CachedInputTokens + sign*v.CachedInputTokens),
		OutputTokens:          inRange(u.OutputTokens + sign*v.OutputTokens),
		ReasoningOutputTokens: inRange(u.ReasoningOutputTokens + sign*v.ReasoningOutputTokens),
		TotalTokens:           inRange(u.TotalTokens + sign*v.TotalTokens),
	}
}

// maxTokens is more than any turn has. codex passes on the model endpoint's number: a number below 0 would give an API
// key tokens back, and the sum of two large ones is below 0.
const maxTokens = 1 << 40

func inRange(tokens int64) int64 { return min(max(tokens, 0), maxTokens) }

// ScanMember implements jsonscan.Scanner.
func (u *Usage) ScanMember(name, value []byte) error {
	switch string(name) {
	case "inputTokens":
		return scanTokens(value, &u.InputTokens)
	case "cachedInputTokens":
		return scanTokens(value, &u.CachedInputTokens)
	case "outputTokens":
		return scanTokens(value, &u.OutputTokens)
	case "reasoningOutputTokens":
		return scanTokens(value, &u.ReasoningOutputTokens)
	case "totalTokens":
		return scanTokens(value, &u.TotalTokens)
	}
	return nil
}

func scanTokens(value []byte, into *int64) error {
	err := jsonscan.ScanInt(value, into)
	*into = inRange(*into)
	return err
}

func (p *tokenUsageParams) ScanMember(name, value []byte) error {
	if string(name) == "tokenUsage" {
		return jsonscan.Scan(value, &p.TokenUsage)
	}
	return nil
}

func (u *tokenUsage) ScanMember(name, value []byte) error {
	if string(name) == "total" {
		return jsonscan.Scan(value, &u.Total)
	}
	return nil
}
