package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// soonReset is how long after its end a quota of TestResets begins anew, as the server announces.
const soonReset = 15 * time.Second

// While any account has quota, no request of 32 clients fails: accounts are used up in turn, and their windows reset.
// Nothing is asked for the sake of a quota, and an account known to be used up gets no turn.
func TestResets(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			t.Parallel()
			testResets(t, names)
		})
	}
}

func testResets(t *testing.T, names []string) {
	b := newAccountsBed(t, newest, crowdConfig+ordered, names...)
	b.start()
	b.untilWorkersReady()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	crowd := b.crowd(seed, 2*time.Second)
	for round := range max(4, len(names)) {
		b.useUp(crowd, names[round%len(names)], names[(round+1)%len(names)], accountserver.ByStatus)
	}
	b.useUp(crowd, names[0], names[1], accountserver.InStream)
	crowd.leave(t)
	b.assertNoneFailed(crowd)
}

// useUp ends the quota of the account in use, and returns when it is available again and the next one is in use.
func (a *accountsBed) useUp(crowd *crowd, name, next string, how accountserver.Refusals) {
	a.t.Helper()
	account := a.server.Account(name)
	a.untilMetric(fmt.Sprintf(`codex_account_in_use{account=%q} 1`, name))
	a.untilMetric(fmt.Sprintf(`codex_account_state{account=%q,state="available"} 1`, next))
	account.Refuse(how)
	account.Exhaust(time.Now().Add(soonReset))
	a.untilMetric(fmt.Sprintf(`codex_account_state{account=%q,state="exhausted"} 1`, name))
	a.untilMetric(fmt.Sprintf(`codex_account_in_use{account=%q} 1`, next))
	crowd.outlast(a.t, time.Now()) // those that were on their way
	known := account.Record().Refused()
	crowd.reach(a.t, 2*crowdSize)
	assert.Equal(a.t, known, account.Record().Refused(), "turns of an account known to be used up")
}

// assertNoneFailed asserts that each request has a whole answer, and that each turn at the accounts' server is one that
// a client wanted.
func (a *accountsBed) assertNoneFailed(crowd *crowd) {
	a.t.Helper()
	all := crowd.which(func(*entry) bool { return true })
	for _, e := range crowd.which(func(e *entry) bool { return !e.complete() }) {
		assert.Fail(a.t, "it failed", "%s", e)
	}
	answered, refused := map[string]int{}, 0
	for _, account := range a.server.Accounts() {
		for _, turn := range account.Record().Turns {
			id, _, _ := strings.Cut(turn.Text, " ")
			if turn.Refused {
				refused++
				continue
			}
			answered[id]++
		}
	}
	for _, e := range all {
		assert.Equal(a.t, 1, answered[e.id], e.id)
		delete(answered, e.id)
	}
	assert.Empty(a.t, answered, "turns that no client wanted")
	a.t.Logf("%d requests, %d turns refused for a quota, none failed; latency %s", len(all), refused,
		crowd.latencies(within{to: time.Now()}))
	require.NotZero(a.t, refused)
}
