package workers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/workers"
)

// accountServer is a fake worker with a ChatGPT account. peer is the
// connection of the last call.
type accountServer struct {
	appservertest.Server
	mu   sync.Mutex
	peer *appservertest.Peer
}

func newAccountServer(limits func() string) *accountServer {
	s := &accountServer{}
	answer := func(result func() string) appservertest.Fault {
		return func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			s.mu.Lock()
			s.peer = p
			s.mu.Unlock()
			if text := result(); text != "" {
				p.Reply(id, json.RawMessage(text))
			} else {
				p.Refuse(id, -32603, "failed to fetch codex rate limits")
			}
			return true
		}
	}
	s.Faults = map[string]appservertest.Fault{
		"account/read": answer(func() string {
			return `{"account":{"type":"chatgpt","email":"a@example.com","planType":"pro"},"requiresOpenaiAuth":true}`
		}),
		"account/rateLimits/read": answer(limits),
	}
	return s
}

// awaitAccounts waits until the accounts satisfy ok. Their change is no
// change of a worker's state, so no event reports it.
func awaitAccounts(t *testing.T, r *rig, ok func([]workers.Account) bool) []workers.Account {
	t.Helper()
	var got []workers.Account
	require.Eventually(t, func() bool { got = r.pool.Accounts(); return ok(got) }, bound, 2*time.Millisecond)
	return got
}

func TestAccountsAndTheirLimits(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	srv := newAccountServer(func() string {
		return fmt.Sprintf(`{"rateLimits":{"primary":{"usedPercent":7,"windowDurationMins":10079,"resetsAt":%d},`+
			`"secondary":{"usedPercent":42,"windowDurationMins":300,"resetsAt":%[1]d}}}`, soon.Unix())
	})
	s := fake(t, &srv.Server)
	r := newRig(t, nil, named{"a", s.path})
	assert.Empty(t, r.pool.Accounts(), "nothing is known before a connection")
	r.noBus()
	r.run(t)
	limited := func(a []workers.Account) bool { return len(a) == 1 && len(a[0].Limits) == 2 }
	want := workers.Account{
		Worker: "a", Login: "chatgpt", Required: true, Plan: "pro", Email: "a@example.com",
		Limits: []workers.Limit{
			{Window: "7d", UsedRatio: 0.07, ResetsAt: soon.UTC()},
			{Window: "5h", UsedRatio: 0.42, ResetsAt: soon.UTC()},
		},
	}
	assert.Equal(t, []workers.Account{want}, awaitAccounts(t, r, limited))

	srv.mu.Lock()
	peer := srv.peer
	srv.mu.Unlock()
	update := func(window string) {
		peer.Notify("account/rateLimits/updated", json.RawMessage(`{"rateLimits":{"secondary":`+window+`}}`))
	}
	update(`{"usedPercent":43}`)
	got := awaitAccounts(t, r, func(a []workers.Account) bool { return limited(a) && a[0].Limits[1].UsedRatio == 0.43 })
	assert.Equal(t, want.Limits[0], got[0].Limits[0], "an update without a window leaves it as it is")

	// A window that has ended is left out, and so is one without a length.
	past := time.Now().Add(-time.Second).Unix()
	update(fmt.Sprintf(`{"usedPercent":99,"windowDurationMins":300,"resetsAt":%d}`, past))
	awaitAccounts(t, r, func(a []workers.Account) bool { return len(a) == 1 && len(a[0].Limits) == 1 })

	s.cut(t)
	assert.Equal(t, []workers.Account{want}, awaitAccounts(t, r, limited), "a new connection reads the account again")
}

// Unreadable limits keep no worker from being ready, and the login is known.
func TestAccountWithoutLimits(t *testing.T) {
	srv := newAccountServer(func() string { return "" })
	r := newRig(t, nil, named{"a", fake(t, &srv.Server).path})
	r.noBus()
	r.run(t)
	got := awaitAccounts(t, r, func(a []workers.Account) bool { return len(a) == 1 })
	want := workers.Account{
		Worker: "a", Login: "chatgpt", Required: true, Plan: "pro", Email: "a@example.com", Limits: []workers.Limit{},
	}
	assert.Equal(t, []workers.Account{want}, got)
	assert.True(t, r.pool.Snapshot().Workers[0].Ready)
	logged := func() bool { return strings.Contains(r.log.String(), "cannot read the account of a worker") }
	require.Eventually(t, logged, bound, 2*time.Millisecond)
}

func TestWindowNames(t *testing.T) {
	for minutes, want := range map[int64]string{
		300: "5h", 299: "5h", 302: "5h", 10080: "7d", 10079: "7d", 1440: "1d", 43200: "30d", 60: "1h", 90: "90m",
		15: "15m", 1: "1m", 304: "304m",
	} {
		assert.Equal(t, want, workers.WindowName(minutes), minutes)
	}
}
