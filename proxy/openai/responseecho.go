package openai

import (
	"cmp"
	"fmt"
	"unicode/utf8"
)

// rawEcho has the parameters that are ignored and that every copy of the response repeats.
type rawEcho struct {
	MaxToolCalls     *Whole  `json:"max_tool_calls"`
	PromptCacheKey   *string `json:"prompt_cache_key"`
	SafetyIdentifier *string `json:"safety_identifier"`
	User             *string `json:"user"`
}

// checkEcho refuses values that OpenAI refuses or that take too much memory, and returns the names of the parameters
// that are set.
func (raw rawEcho) checkEcho() (set []string, err error) {
	if n := raw.MaxToolCalls; n != nil {
		if *n < 1 {
			return nil, Invalid("invalid_value", "max_tool_calls", "max_tool_calls must be at least 1")
		}
		set = append(set, "max_tool_calls")
	}
	for _, text := range []struct {
		name  string
		value *string
	}{
		{"prompt_cache_key", raw.PromptCacheKey}, {"safety_identifier", raw.SafetyIdentifier}, {"user", raw.User},
	} {
		switch {
		case text.value == nil || *text.value == "":
		case utf8.RuneCountInString(*text.value) > paramValues[text.name].length:
			return nil, Invalid("invalid_value", text.name,
				fmt.Sprintf("%s must be %s", text.name, paramValues[text.name]))
		default:
			set = append(set, text.name)
		}
	}
	return set, nil
}

// CacheKey is prompt_cache_key, which identifies the conversation; empty: none.
func (req *ResponseRequest) CacheKey() string {
	if key := req.echoed.PromptCacheKey; key != nil {
		return *key
	}
	return ""
}

// HistoryParam is the parameter that names the history before the input.
func (req *ResponseRequest) HistoryParam() string {
	if req.Conversation != "" {
		return "conversation"
	}
	return "previous_response_id"
}

// echo repeats parameters of the request in the response. Without a service_tier the response has OpenAI's default.
func (req *ResponseRequest) echo(r *Response) {
	r.MaxToolCalls, r.PromptCacheKey = (*int64)(req.echoed.MaxToolCalls), req.echoed.PromptCacheKey
	r.SafetyIdentifier, r.User = req.echoed.SafetyIdentifier, req.echoed.User
	r.ServiceTier = cmp.Or(req.tier, "auto")
}
