package appserver_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
)

// The texts are those of codex 0.169, see TurnError.
func TestFaultsOfTheAccount(t *testing.T) {
	const inStream = "stream disconnected before completion: "
	for _, tc := range []struct {
		info, text string
		fault      appserver.AccountFault
	}{
		{`"usageLimitExceeded"`, "You’ve hit your usage limit.", appserver.UsageLimit},
		{`"usageLimitExceeded"`, "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
			appserver.ModelRefused},
		{`"usageLimitExceeded"`, "You’ve hit your usage limit for gpt-x. Switch to another model now, or try again at 5 PM.",
			appserver.ModelRefused},
		{`"usageLimitExceeded"`, "Quota exceeded. Check your plan and billing details.", appserver.UsageLimit},
		{`"other"`, inStream + "The usage limit has been reached", appserver.UsageLimitLate},
		{`"other"`, inStream + "You exceeded your current quota, please check your plan", appserver.UsageLimitLate},
		{`"other"`, inStream + `{"error":{"message":"insufficient_quota"}}`, appserver.UsageLimitLate},
		{`{"httpConnectionFailed":{"httpStatusCode":402}}`, "unexpected status 402 Payment Required: no credits",
			appserver.PaymentRequired},
		{`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "exceeded retry limit, last status: 429",
			appserver.RateLimit},
		{`"rateLimitExceeded"`, "rate limit exceeded: slow down", appserver.RateLimit},
		{`"unauthorized"`, "the login is not valid", appserver.Unauthorized},
		{`{"httpConnectionFailed":{"httpStatusCode":401}}`, "unexpected status 401 Unauthorized: x",
			appserver.Unauthorized},

		{`"other"`, "the usage limit of a tool is a parameter of the request", appserver.NoFault}, // a 400
		{`"other"`, inStream + "Transport error: usage limit", appserver.NoFault},
		{`"other"`, inStream + "An error occurred", appserver.NoFault},
		{`"sessionBudgetExceeded"`, "the session's budget is used up", appserver.NoFault},
		{`{"httpConnectionFailed":{"httpStatusCode":403}}`, "unexpected status 403 Forbidden: x", appserver.NoFault},
		{`{"httpConnectionFailed":{"httpStatusCode":502}}`, "usage limit", appserver.NoFault},
		{`"serverOverloaded"`, "Selected model is at capacity.", appserver.NoFault},
	} {
		failed := &appserver.TurnError{Message: tc.text}
		require.NoError(t, json.Unmarshal([]byte(tc.info), &failed.Info))
		assert.Equal(t, tc.fault, failed.Account(), "%s %s", tc.info, tc.text)
		assert.Equal(t, tc.fault != "" && tc.fault != appserver.RateLimit && tc.fault != appserver.Unauthorized,
			failed.Account().Rotates())
		assert.Equal(t, failed.Account().Rotates() && tc.fault != appserver.ModelRefused, failed.Account().Quota())
	}
}

// While codex retries, the reason is in the details.
func TestFaultsOfTheAccountWhileCodexRetries(t *testing.T) {
	for details, want := range map[string]appserver.AccountFault{
		"stream disconnected before completion: The usage limit has been reached": appserver.UsageLimitLate,
		"stream disconnected before completion: An error occurred":                appserver.NoFault,
	} {
		failed := &appserver.TurnError{Message: "Reconnecting... 1/5", AdditionalDetails: details,
			Info: appserver.ErrorInfo{Kind: appserver.ErrorStreamDisconnected}}
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
		assert.Equal(t, want, (&appserver.TurnError{Message: words}).ResetsAt(now), words)
	}
}
