package proxy

import (
	"errors"
	"net/http"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/openai"
	"codex-proxy/workers/dispatch"
)

// exhaustedError is the answer while no account that may serve the request has quota. The client tries again after a
// minute at most, as an account may be free sooner than expected: each is read once a minute.
func exhaustedError(until, now time.Time) *openai.Error {
	words, wait := "no account has quota left; nothing is known of when it is back", retryQuota
	if !until.IsZero() {
		words = "no account has quota left; it is expected back at " + until.UTC().Format(time.RFC3339)
		wait = probes.ClampRetry(until.Sub(now))
	}
	e := openai.QuotaExceeded("usage_limit_reached", words, wait)
	e.Header = http.Header{shouldRetry: {"true"}}
	return e
}

// outError is the answer while the accounts are out for a reason that an operator has to mend.
func outError(err error) *openai.Error {
	if errors.Is(err, dispatch.ErrPaused) {
		return openai.Unavailable("worker_not_ready", "every account that may serve this request is paused; the "+
			"operator has to resume one: codex-proxy accounts resume NAME", retryQuota)
	}
	return openai.Unavailable(codeUnauthorized, "the login of every account that may serve this request is refused; "+
		"the operator has to log one in again: codex-proxy accounts login NAME", retryQuota)
}

// heldError is the answer to a request that could not wait until its conversation may rotate.
func heldError() *openai.Error {
	return openai.Unavailable("overloaded", "the account of this conversation has no quota, and a conversation moves "+
		"to another account at most once a minute; send the request again", retryUpstream)
}
