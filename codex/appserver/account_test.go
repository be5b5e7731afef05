package appserver_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
)

func TestAccount(t *testing.T) {
	srv := &appservertest.Server{}
	c := connect(t, srv)
	a, err := c.Account(t.Context())
	require.NoError(t, err)
	assert.Equal(t, appserver.Account{}, a, "the fake has none, and needs none")
	_, err = c.RateLimits(t.Context())
	assert.ErrorContains(t, err, "cannot read the rate limits: ")

	srv = &appservertest.Server{Faults: map[string]appservertest.Fault{
		"account/read": reply(`{"account":{"type":"chatgpt","email":null,"planType":"pro"},"requiresOpenaiAuth":true}`),
		"account/rateLimits/read": reply(`{"rateLimits":{"limitId":"codex","primary":{"usedPercent":42,
			"windowDurationMins":300,"resetsAt":1800000000},"secondary":null},
			"rateLimitsByLimitId":{"codex":{},"other":{}}}`),
	}}
	c = connect(t, srv)
	a, err = c.Account(t.Context())
	require.NoError(t, err)
	assert.Equal(t, appserver.Account{Login: &appserver.Login{Type: "chatgpt", PlanType: "pro"}, Required: true}, a)
	u, err := c.RateLimits(t.Context())
	require.NoError(t, err)
	assert.Equal(t, appserver.AccountLimits{RateLimits: appserver.RateLimits{LimitID: "codex",
		Primary: &appserver.RateLimitWindow{UsedPercent: 42, WindowDurationMins: 300, ResetsAt: 1800000000}}}, u)
}

func reply(result string) appservertest.Fault {
	return func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
		p.Reply(id, json.RawMessage(result))
		return true
	}
}

func TestRateLimitsMerge(t *testing.T) {
	window := func(used int, minutes, resets int64) *appserver.RateLimitWindow {
		return &appserver.RateLimitWindow{UsedPercent: used, WindowDurationMins: minutes, ResetsAt: resets}
	}
	now := appserver.RateLimits{LimitID: "codex", Primary: window(10, 300, 1000), Secondary: window(20, 10080, 2000)}
	for name, c := range map[string]struct{ update, want appserver.RateLimits }{
		"nothing": {appserver.RateLimits{}, now},
		"one window": {appserver.RateLimits{Primary: window(11, 300, 1001)},
			appserver.RateLimits{LimitID: "codex", Primary: window(11, 300, 1001), Secondary: now.Secondary}},
		"use alone": {appserver.RateLimits{LimitID: "codex", Secondary: window(21, 0, 0)},
			appserver.RateLimits{LimitID: "codex", Primary: now.Primary, Secondary: window(21, 10080, 2000)}},
		"another limit": {appserver.RateLimits{LimitID: "other", Primary: window(99, 300, 1)}, now},
	} {
		assert.Equal(t, c.want, now.Merge(c.update), name)
	}
	first := appserver.RateLimits{Primary: window(1, 300, 5)}
	assert.Equal(t, first, appserver.RateLimits{}.Merge(first))

	update, ok := appserver.Notification{Method: "account/rateLimits/updated",
		Params: []byte(`{"rateLimits":{"primary":{"usedPercent":3}}}`)}.RateLimitsUpdate()
	assert.True(t, ok)
	assert.Equal(t, appserver.RateLimits{Primary: window(3, 0, 0)}, update)
	for _, n := range []appserver.Notification{{Method: "account/updated", Params: []byte(`{}`)},
		{Method: "account/rateLimits/updated", Params: []byte(`[]`)}} {
		_, ok = n.RateLimitsUpdate()
		assert.False(t, ok, n.Method)
	}
}
