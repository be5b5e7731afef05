package apitest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/accounts"
)

// Refusal is a way in which codex reports that the endpoint refuses a turn for the account.
type Refusal struct {
	Message string
	Info    any
	Reason  string // of the rotation
}

// UsedUp is the refusal of an account that has no usage left.
var UsedUp = Refusal{"You’ve hit your usage limit.", "usageLimitExceeded", "usage_limit"}

// Fleet are workers by the names of their accounts, and the turns that each of them got.
type Fleet struct {
	mu      sync.Mutex
	turns   map[string][]appservertest.Request
	ways    map[string]appservertest.Handler
	Servers map[string]*appservertest.Server
}

// NewFleet makes workers that answer with their names.
func NewFleet(names ...string) *Fleet {
	f := &Fleet{
		turns: map[string][]appservertest.Request{}, ways: map[string]appservertest.Handler{},
		Servers: map[string]*appservertest.Server{},
	}
	for _, name := range names {
		f.ways[name] = Answering(SomeUsage, "I am ", name)
		f.Servers[name] = &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			f.mu.Lock()
			f.turns[name] = append(f.turns[name], turn.Request)
			way := f.ways[name]
			f.mu.Unlock()
			return way(ctx, turn)
		}}
	}
	return f
}

// Let changes how the worker answers.
func (f *Fleet) Let(name string, way appservertest.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ways[name] = way
}

// Refuses has the worker refuse its turns.
func (f *Fleet) Refuses(name string, r Refusal) { f.Let(name, appservertest.Fail(r.Message, r.Info)) }

// Got are the turns of the worker so far.
func (f *Fleet) Got(name string) []appservertest.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.turns[name])
}

// Rig starts the server in front of the fleet, whose accounts serve in the order of their
// names.
func (f *Fleet) Rig(t testing.TB, changes ...func(*Options)) *Rig {
	t.Helper()
	r := NewRig(t, nil, append([]func(*Options){func(o *Options) {
		o.Others, o.ThreadCache = f.Servers, 100
		o.Policy = accounts.Policy{Rotation: accounts.Ordered, RotateAt: 0.05}
	}}, changes...)...)
	r.HaveReadings(t)
	return r
}

// HaveReadings waits for the first reading of every account: one that comes later would
// undo what a test says of an account.
func (r *Rig) HaveReadings(t testing.TB) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for limit, read := time.After(Bound), false; !read; {
		select {
		case <-ticker.C:
		case <-limit:
			require.FailNow(t, "an account was never read")
		}
		read = !slices.ContainsFunc(r.Pool.AccountStore().Views(time.Now()),
			func(v accounts.View) bool { return v.Quota.At.IsZero() })
	}
}

// Rotations is the counter of rotations away from an account for that reason.
func (r *Rig) Rotations(t testing.TB, from, reason string) string {
	t.Helper()
	return Metric(t, r, `codex_turn_rotations_total{from="`+from+`",reason="`+reason+`"}`)
}

// State is the state of an account.
func (r *Rig) State(t testing.TB, account string) accounts.State {
	t.Helper()
	v, known := r.Pool.AccountStore().View(account, time.Now())
	require.True(t, known)
	return v.State
}
