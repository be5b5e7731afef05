package openai_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/openaitest"
)

// recognised are the texts in which clients recognise an error, from the sources of LiteLLM 1.109
// (exception_mapping_utils.py), langchain-openai 1.7 (chat_models/base.py), @langchain/core 1.x (async_caller.ts),
// @langchain/openai (client.ts), pydantic-ai 2.68 (_model_errors.py), @ai-sdk/openai (stream errors), pi-ai
// (utils/overflow.ts) and codex 0.169. A pattern is regular, without regard to case.
var recognised = []struct {
	code, pattern, clients string
}{
	{"context_length_exceeded", "input tokens exceed the configured limit",
		"LiteLLM, and aider through it (`ContextWindowExceededError`); LangChain (`ContextOverflowError`)"},
	{"context_length_exceeded", "this model's maximum context length is", "LiteLLM (`ContextWindowExceededError`)"},
	{"context_length_exceeded", "exceeds the context window", "LangChain, in streams too (`ContextOverflowError`); pi"},
	{"context_length_exceeded", "reduce the length of the messages",
		"pydantic-ai (`ModelContextWindowExceededError`); pi"},
	{"context_length_exceeded", `"code":"context_length_exceeded"`, "the codex CLI, in `response.failed`"},
	{"usage_limit_reached", `exceeded your.+quota`, "LangChain for JavaScript: no further attempt"},
	{"usage_limit_reached", `usage limit`, "pi: no further attempt"},
	{"usage_limit_reached", `"type":"insufficient_quota"`,
		"pydantic-ai (`ModelQuotaExceededError`); the AI SDK and the codex CLI: no further attempt"},
	{"insufficient_quota", `exceeded your.+quota`, "LangChain for JavaScript: no further attempt"},
	{"insufficient_quota", `"code":"insufficient_quota"`, "LangChain for JavaScript, pydantic-ai: no further attempt"},
	{"rate_limited", `rate[ _-]?limit`, "LiteLLM (`RateLimitError`)"},
	{"rate_limited", `try again in \d+s`, "LangChain for JavaScript and the codex CLI, which wait for this time"},
	{"rate_limited", `"type":"rate_limit_error"`, "pydantic-ai (`ModelRateLimitError`); the AI SDK"},
	{"invalid_api_key", "incorrect api key provided", "LiteLLM (`AuthenticationError`)"},
	{"invalid_api_key", `"code":"invalid_api_key"`, "pydantic-ai (`ModelAuthenticationError`)"},
	{"model_not_found", `"code":"model_not_found"`, "LiteLLM (`NotFoundError`); pydantic-ai (`ModelNotFoundError`)"},
	{"content_policy_violation", `"code":"content_policy_violation"`, "LiteLLM (`ContentPolicyViolationError`)"},
}

// samples are the errors as clients receive them.
func samples() map[string]*openai.Error {
	return map[string]*openai.Error{
		"context_length_exceeded": openai.ContextTooLong("messages", ""),
		"usage_limit_reached": openai.QuotaExceeded("usage_limit_reached",
			"the worker's account has reached its usage limit", time.Minute),
		"insufficient_quota":       openai.QuotaExceeded("insufficient_quota", "this API key has met its limit", time.Hour),
		"rate_limited":             openai.RateLimited("the model endpoint limits the rate of requests", 2*time.Second),
		"invalid_api_key":          openai.Unauthorized("send a valid API key"),
		"model_not_found":          openai.UnknownModel("gpt-none", "GET /v1/models lists what there is"),
		"content_policy_violation": openai.Invalid("content_policy_violation", "messages", "no"),
	}
}

// Every error has the words in which clients recognise it, and none of those of another error that they try first.
func TestClientsRecogniseErrors(t *testing.T) {
	envelopes := map[string]string{}
	for code, e := range samples() {
		data, err := json.Marshal(e)
		require.NoError(t, err)
		envelopes[code] = string(data)
		if code != "rate_limited" { // LiteLLM looks for it before all others
			assert.NotRegexp(t, `(?i)rate[\s_-]*limit|\b429\b|request too large`, envelopes[code])
		}
	}
	for _, r := range recognised {
		assert.Regexp(t, regexp.MustCompile("(?i)"+r.pattern), envelopes[r.code])
	}
	assert.Equal(t, "Rate limit reached for m. Please try again in 20ms.",
		openai.RateLimited("Rate limit reached for m. Please try again in 20ms.", time.Second).Message)
}

func TestClientWordsInTheDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("| code | text that clients look for | clients |\n|---|---|---|\n")
	for _, r := range recognised {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", r.code, r.pattern, r.clients)
	}
	openaitest.InTheDocs(t, "words", b.String())
}
