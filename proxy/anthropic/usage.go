package anthropic

import "codex-proxy/proxy/openai"

// Usage is the tokens of an answer. Unlike OpenAI's, the tokens of the input do not include those from the cache.
type Usage struct {
	InputTokens         int64          `json:"input_tokens"`
	CacheCreationTokens int64          `json:"cache_creation_input_tokens"` // always 0: codex does not report them
	CacheReadTokens     int64          `json:"cache_read_input_tokens"`
	CacheCreation       *CacheCreation `json:"cache_creation,omitempty"` // of a message, not of its end in a stream
	OutputTokens        int64          `json:"output_tokens"`
	OutputTokensDetails *OutputDetails `json:"output_tokens_details"`
	ServerToolUse       *struct{}      `json:"server_tool_use"` // always null
	*MessageUsage
}

// MessageUsage has the members that the end of a stream lacks.
type MessageUsage struct {
	ServiceTier  string    `json:"service_tier"`
	InferenceGeo *struct{} `json:"inference_geo"` // always null
	Speed        *struct{} `json:"speed"`         // always null
}

// CacheCreation is always zero.
type CacheCreation struct {
	Hour    int64 `json:"ephemeral_1h_input_tokens"`
	Minutes int64 `json:"ephemeral_5m_input_tokens"`
}

// OutputDetails is the part of the output that is reasoning.
type OutputDetails struct {
	ThinkingTokens int64 `json:"thinking_tokens"`
}

// UsageOf is a usage in Anthropic's form; nil is a usage that is not known.
func UsageOf(u *openai.Usage) Usage {
	usage := Usage{CacheCreation: &CacheCreation{}, MessageUsage: &MessageUsage{ServiceTier: "standard"}}
	if u == nil {
		return usage
	}
	usage.CacheReadTokens = u.PromptTokensDetails.CachedTokens
	usage.InputTokens = max(0, u.PromptTokens-usage.CacheReadTokens)
	usage.OutputTokens = u.CompletionTokens
	usage.OutputTokensDetails = &OutputDetails{u.CompletionTokensDetails.ReasoningTokens}
	return usage
}

// ofEnd is the usage in the form of the event message_delta.
func (u Usage) ofEnd() *Usage {
	u.CacheCreation, u.MessageUsage = nil, nil
	return &u
}
