package appserver

// Usage counts the tokens of a turn, over all its model responses.
type Usage struct {
	InputTokens           int64 `json:"inputTokens"`
	CachedInputTokens     int64 `json:"cachedInputTokens"`
	OutputTokens          int64 `json:"outputTokens"`
	ReasoningOutputTokens int64 `json:"reasoningOutputTokens"`
	TotalTokens           int64 `json:"totalTokens"`
}

// tokenUsageParams is thread/tokenUsage/updated. Total is what we report: a
// thread of ours has one turn, and after response.incomplete codex 0.169 sends
// the right total but a zero "last".
type tokenUsageParams struct {
	TokenUsage struct {
		Total Usage `json:"total"`
	} `json:"tokenUsage"`
}

// plus adds what one more response took.
func (u Usage) plus(v Usage) Usage {
	return Usage{
		InputTokens:           u.InputTokens + v.InputTokens,
		CachedInputTokens:     u.CachedInputTokens + v.CachedInputTokens,
		OutputTokens:          u.OutputTokens + v.OutputTokens,
		ReasoningOutputTokens: u.ReasoningOutputTokens + v.ReasoningOutputTokens,
		TotalTokens:           u.TotalTokens + v.TotalTokens,
	}
}
