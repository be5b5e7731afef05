package apitest

import (
	"testing"
	"time"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/accounts"
)

// TwoAccounts is a server with the accounts a and b, whose quota decides.
func TwoAccounts(t testing.TB, change func(*accounts.Policy)) *Rig {
	t.Helper()
	policy := accounts.Policy{
		Rotation: accounts.Ordered, Order: []string{"a", "b"}, RotateAt: 0.05, ReadyWhenExhausted: true,
	}
	if change != nil {
		change(&policy)
	}
	r := NewRig(t, nil, func(o *Options) {
		o.Policy = policy
		o.Others = map[string]*appservertest.Server{"a": {}, "b": {}}
	})
	r.HaveReadings(t)
	return r
}

// Exhaust uses up both accounts, a for longer than b; zero times: nothing is known of it.
func Exhaust(r *Rig, a, b time.Time) {
	r.Pool.AccountStore().Refuse("a", a, time.Now())
	r.Pool.AccountStore().Refuse("b", b, time.Now())
}

// InAWhile is a reset that comes soon.
var InAWhile = func() time.Time { return time.Now().Add(40 * time.Second) }
