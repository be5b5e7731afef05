package turnerror_test

import (
	"encoding/json"
	"testing"
	"time"

	"codex-proxy/codex/turnerror"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The texts are those of codex 0.169, see turnerror.Error.
func TestFaultsOfTheAccount(t *testing.T) {
	const inStream = "stream disconnected before completion: "
	for _, tc := range []struct {
		info, text string
		fault      turnerror.AccountFault
	}{
		{`"usageLimitExceeded"`, "You’ve hit your usage limit.", turnerror.UsageLimit},
		{`"usageLimitExceeded"`, "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
			turnerror.ModelRefused},
		{`"usageLimitExceeded"`, "You’ve hit your usage limit for gpt-x. Switch to another model now, or try again at 5 PM.",
			turnerror.ModelRefused},
		{`"usageLimitExceeded"`, "Quota exceeded. Check your plan and billing details.", turnerror.UsageLimit},
		{`"other"`, inStream + "The usage limit has been reached", turnerror.UsageLimitLate},
		{`"other"`, inStream + "You exceeded your current quota, please check your plan", turnerror.UsageLimitLate},
		{`"other"`, inStream + `{"error":{"message":"insufficient_quota"}}`, turnerror.UsageLimitLate},
		{`{"httpConnectionFailed":{"httpStatusCode":402}}`, "unexpected status 402 Payment Required: no credits",
			turnerror.PaymentRequired},
		{`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "exceeded retry limit, last status: 429",
			turnerror.RateLimit},
		{`"rateLimitExceeded"`, "rate limit exceeded: slow down", turnerror.RateLimit},
		{`"unauthorized"`, "the login is not valid", turnerror.Unauthorized},
		{`{"httpConnectionFailed":{"httpStatusCode":401}}`, "unexpected status 401 Unauthorized: x",
			turnerror.Unauthorized},

		{`"other"`, "the usage limit of a tool is a parameter of the request", turnerror.NoFault}, // a 400
		{`"other"`, inStream + "Transport error: usage limit", turnerror.NoFault},
		{`"other"`, inStream + "An error occurred", turnerror.NoFault},
		{`"sessionBudgetExceeded"`, "the session's budget is used up", turnerror.NoFault},
		{`{"httpConnectionFailed":{"httpStatusCode":403}}`, "unexpected status 403 Forbidden: x", turnerror.NoFault},
		{`{"httpConnectionFailed":{"httpStatusCode":502}}`, "usage limit", turnerror.NoFault},
		{`"serverOverloaded"`, "Selected model is at capacity.", turnerror.NoFault},
	} {
		failed := &turnerror.Error{Message: tc.text}
		require.NoError(t, json.Unmarshal([]byte(tc.info), &failed.Info))
		assert.Equal(t, tc.fault, failed.Account(), "%s %s", tc.info, tc.text)
		assert.Equal(t, tc.fault != "" && tc.fault != turnerror.RateLimit && tc.fault != turnerror.Unauthorized,
			failed.Account().Rotates())
		assert.Equal(t, failed.Account().Rotates() && tc.fault != turnerror.ModelRefused, failed.Account().Quota())
	}
}

// While codex retries, the reason is in the details.
func TestFaultsOfTheAccountWhileCodexRetries(t *testing.T) {
	for details, want := range map[string]turnerror.AccountFault{
		"stream disconnected before completion: The usage limit has been reached": turnerror.UsageLimitLate,
		"stream disconnected before completion: An error occurred":                turnerror.NoFault,
	} {
		failed := &turnerror.Error{Message: "Reconnecting... 1/5", AdditionalDetails: details,
			Info: turnerror.Info{Kind: turnerror.KindStreamDisconnected}}
		assert.Equal(t, want, failed.Account())
	}
}

func TestResetOfAUsageLimit(t *testing.T) {
	now := time.Date(2030, 3, 17, 9, 0, 0, 0, time.FixedZone("", 3600))
	for words, want := range map[string]time.Time{
		"Upgrade, or try again at Mar 21st, 2030 5:46 PM.": time.Date(2030, 3, 21, 17, 46, 0, 0, now.Location()),
		"Try again at 5:46 PM.":                            time.Date(2030, 3, 17, 17, 46, 0, 0, now.Location()),
		"Try again at noon.":                               {},
		"Try again later.":                                 {},
	} {
		assert.Equal(t, want, (&turnerror.Error{Message: words}).ResetsAt(now), words)
	}
}
