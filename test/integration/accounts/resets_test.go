package accounts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// soonReset is how long after its end a quota of TestResets begins anew, as the server announces.
const soonReset = 15 * time.Second

// While any account has quota, no request of 32 clients fails: accounts are used up in turn, and their windows reset.
// Nothing is asked for the sake of a quota, and an account known to be used up gets no turn.
func TestResets(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, names := range [][]string{all[:3], all[:10], all[:2]}[:nightly.Or(3, 1)] {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			t.Parallel()
			testResets(t, names)
		})
	}
}

func testResets(t *testing.T, names []string) {
	b := bed.NewAccounts(t, bed.Newest, bed.CrowdConfig+ordered, names...)
	b.Start()
	b.UntilWorkersReady()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	crowd := bed.StartCrowd(b.Bed, seed, 2*time.Second)
	for round := range max(nightly.Or(4, 2), len(names)) {
		useUp(b, crowd, names[round%len(names)], names[(round+1)%len(names)], accountserver.ByStatus)
	}
	useUp(b, crowd, names[0], names[1], accountserver.InStream)
	crowd.Leave(t)
	assertNoneFailed(b, crowd)
}

// useUp ends the quota of the account in use, and returns when it is available again and the next one is in use.
func useUp(a *bed.AccountsBed, crowd *bed.Crowd, name, next string, how accountserver.Refusals) {
	a.T.Helper()
	account := a.Server.Account(name)
	a.UntilMetric(fmt.Sprintf(`codex_account_in_use{account=%q} 1`, name))
	a.UntilMetric(fmt.Sprintf(`codex_account_state{account=%q,state="available"} 1`, next))
	account.Refuse(how)
	account.Exhaust(time.Now().Add(soonReset))
	a.UntilMetric(fmt.Sprintf(`codex_account_state{account=%q,state="exhausted"} 1`, name))
	a.UntilMetric(fmt.Sprintf(`codex_account_in_use{account=%q} 1`, next))
	outlast(crowd.Ledger, a.T, time.Now()) // those that were on their way
	known := account.Record().Refused()
	crowd.Reach(a.T, 2*bed.CrowdSize)
	assert.Equal(a.T, known, account.Record().Refused(), "turns of an account known to be used up")
}

// assertNoneFailed asserts that each request has a whole answer, and that each turn at the accounts' server is one that
// a client wanted.
func assertNoneFailed(a *bed.AccountsBed, crowd *bed.Crowd) {
	a.T.Helper()
	all := crowd.Which(func(*bed.Entry) bool { return true })
	for _, e := range crowd.Which(func(e *bed.Entry) bool { return !e.Complete() }) {
		assert.Fail(a.T, "it failed", "%s", e)
	}
	answered, refused := map[string]int{}, 0
	for _, account := range a.Server.Accounts() {
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
		assert.Equal(a.T, 1, answered[e.ID], e.ID)
		delete(answered, e.ID)
	}
	assert.Empty(a.T, answered, "turns that no client wanted")
	a.T.Logf("%d requests, %d turns refused for a quota, none failed; latency %s", len(all), refused,
		crowd.Latencies(bed.Within{To: time.Now()}))
	require.NotZero(a.T, refused)
}
