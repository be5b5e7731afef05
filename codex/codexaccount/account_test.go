package codexaccount_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/codexaccount"
	"codex-proxy/codex/handshake"
)

func TestAccount(t *testing.T) {
	connected(t, &appservertest.Server{}, func(c *appserver.Conn) {
		a, err := codexaccount.Read(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, codexaccount.Account{}, a, "the fake has none, and needs none")
		_, err = codexaccount.ReadLimits(t.Context(), c)
		assert.ErrorContains(t, err, "cannot read the rate limits: ")
	})
	connected(t, &appservertest.Server{Faults: map[string]appservertest.Fault{
		"account/read": reply(`{"account":{"type":"chatgpt","email":null,"planType":"pro"},"requiresOpenaiAuth":true}`),
		"account/rateLimits/read": reply(`{"rateLimits":{"limitId":"codex","primary":{"usedPercent":42,
			"windowDurationMins":300,"resetsAt":1800000000},"secondary":null},
			"rateLimitsByLimitId":{"codex":{},"other":{}}}`),
	}}, func(c *appserver.Conn) {
		a, err := codexaccount.Read(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, codexaccount.Account{Login: &codexaccount.Login{Type: "chatgpt", PlanType: "pro"}, Required: true}, a)
		u, err := codexaccount.ReadLimits(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, codexaccount.Limits{RateLimits: codexaccount.RateLimits{LimitID: "codex",
			Primary: &codexaccount.RateLimitWindow{UsedPercent: 42, WindowDurationMins: 300, ResetsAt: 1800000000}}}, u)
	})
}

func connected(t *testing.T, srv *appservertest.Server, use func(*appserver.Conn)) {
	t.Helper()
	_, err := handshake.With(t.Context(), appservertest.Start(t, srv), "0", func(c *appserver.Conn) error {
		use(c)
		return nil
	})
	require.NoError(t, err)
}

func reply(result string) appservertest.Fault {
	return func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
		p.Reply(id, json.RawMessage(result))
		return true
	}
}

func TestRateLimitsMerge(t *testing.T) {
	window := func(used int, minutes, resets int64) *codexaccount.RateLimitWindow {
		return &codexaccount.RateLimitWindow{UsedPercent: used, WindowDurationMins: minutes, ResetsAt: resets}
	}
	now := codexaccount.RateLimits{LimitID: "codex", Primary: window(10, 300, 1000), Secondary: window(20, 10080, 2000)}
	for name, c := range map[string]struct{ update, want codexaccount.RateLimits }{
		"nothing": {codexaccount.RateLimits{}, now},
		"one window": {codexaccount.RateLimits{Primary: window(11, 300, 1001)},
			codexaccount.RateLimits{LimitID: "codex", Primary: window(11, 300, 1001), Secondary: now.Secondary}},
		"use alone": {codexaccount.RateLimits{LimitID: "codex", Secondary: window(21, 0, 0)},
			codexaccount.RateLimits{LimitID: "codex", Primary: now.Primary, Secondary: window(21, 10080, 2000)}},
		"another limit": {codexaccount.RateLimits{LimitID: "other", Primary: window(99, 300, 1)}, now},
	} {
		assert.Equal(t, c.want, now.Merge(c.update), name)
	}
	first := codexaccount.RateLimits{Primary: window(1, 300, 5)}
	assert.Equal(t, first, codexaccount.RateLimits{}.Merge(first))

	update, ok := codexaccount.RateLimitsUpdate(appserver.Notification{Method: "account/rateLimits/updated",
		Params: []byte(`{"rateLimits":{"primary":{"usedPercent":3}}}`)})
	assert.True(t, ok)
	assert.Equal(t, codexaccount.RateLimits{Primary: window(3, 0, 0)}, update)
	for _, n := range []appserver.Notification{{Method: "account/updated", Params: []byte(`{}`)},
		{Method: "account/rateLimits/updated", Params: []byte(`[]`)}} {
		_, ok = codexaccount.RateLimitsUpdate(n)
		assert.False(t, ok, n.Method)
	}
}
