package openai

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
)

// Clients recognise some errors by sentences of OpenAI, so the messages of these errors begin with them.
// docs/api.md lists the clients.
const (
	wordsContext = "Input tokens exceed the configured limit of the model: this model's maximum context length is " +
		"less than the length of the input, which exceeds the context window. " +
		"Please reduce the length of the messages."
	wordsQuota     = "You exceeded your current quota, please check your plan and billing details"
	wordsRateLimit = "Rate limit reached"
	wordsAPIKey    = "Incorrect API key provided"
	wordsModel     = "The model `%s` does not exist or you do not have access to it"
)

// CodeContextLength is the code of ContextTooLong.
const CodeContextLength = "context_length_exceeded"

// ContextTooLong is a 400 for a conversation, in the field param, that is too long for the model. words is the
// message of the model endpoint; empty if it is unknown.
func ContextTooLong(param, words string) *Error {
	if words != "" {
		words = " The model endpoint reports: " + words
	}
	return Invalid(CodeContextLength, param, wordsContext+words)
}

// QuotaExceeded is a 429 that another attempt cannot mend soon: words names the quota.
func QuotaExceeded(code, words string, retryAfter time.Duration) *Error {
	return TooMany(TypeQuota, code, wordsQuota+": "+words, retryAfter)
}

// RateLimited is a 429 that passes after retryAfter: words names the limit.
func RateLimited(words string, retryAfter time.Duration) *Error {
	if !rateLimit.MatchString(words) {
		words = wordsRateLimit + ": " + words
	}
	if !tryAgain.MatchString(words) {
		words = fmt.Sprintf("%s. Please try again in %ds.", strings.TrimRight(words, ". "),
			int(retryAfter.Round(time.Second).Seconds()))
	}
	return TooMany(TypeRateLimit, "rate_limited", words, retryAfter)
}

var (
	rateLimit = lazyregexp.New(`(?i)rate[ _-]?limit`)
	tryAgain  = lazyregexp.New(`(?i)try again in`)
)

// UnknownModel is a 404 for a model that no worker offers to the client: hint has the remedy.
func UnknownModel(model, hint string) *Error {
	return ModelNotFound(fmt.Sprintf(wordsModel+": %s", Bounded(model), hint))
}

// Unauthorized is a 401: words has the remedy. Another attempt is in vain; Claude Code would make ten.
func Unauthorized(words string) *Error {
	return &Error{
		Status: http.StatusUnauthorized, Type: TypeInvalidRequest, Code: "invalid_api_key",
		Message: wordsAPIKey + ": " + words,
		Header:  http.Header{"Www-Authenticate": {"Bearer"}, "X-Should-Retry": {"false"}},
	}
}
