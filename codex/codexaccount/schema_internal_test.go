package codexaccount

import (
	"testing"

	"codex-proxy/test/codexschema"
)

func TestSchema(t *testing.T) {
	codexschema.Compare(t, map[string]any{
		"v2/GetAccountParams":                     accountReadParams{},
		"v2/GetAccountResponse":                   Account{},
		"v2/NullableGetAccountRateLimitsParams":   rateLimitsReadParams{},
		"v2/GetAccountRateLimitsResponse":         Limits{},
		"v2/AccountRateLimitsUpdatedNotification": rateLimitsPayload{},
	}, map[string][]string{
		"ClientRequest":      {"account/read", "account/rateLimits/read"},
		"ServerNotification": {"account/rateLimits/updated"},
	})
}
