package accounts

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

// The stand-in of the accounts' server is to codex what OpenAI's hosts are: readings cost nothing, turns use up the
// quota, and a turn beyond it is refused, each for the account of its worker.
func TestAccountServer(t *testing.T) {
	t.Parallel()
	testAccountServer(t, bed.Oldest)
}

func testAccountServer(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, "", "a", "b")
	one, two := b.Server.Account("a"), b.Server.Account("b")
	one.Change(func(q *accountserver.Quota) { q.Windows[0].Used, q.Windows[1].Used = 42, 7 })
	b.Start()
	b.UntilWorkersReady()
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.42`)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="a"} 0.07`)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="b"} 0`)
	assert.Empty(t, one.Record().Turns, "a reading is no turn")
	assert.NotEmpty(t, one.Record().Readings)

	b.MustRun(t, "codex-proxy", "drain", "b")
	one.Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 8 })
	bed.AskOpenAI(b.Bed)
	b.UntilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.5`)
	assert.Len(t, one.Record().Turns, 1)
	assert.Empty(t, two.Record().Turns)
	one.Expire()
	bed.AskOpenAI(b.Bed)
	assert.Len(t, one.Record().Refreshes, 1, "codex refreshes a token that has expired")

	one.Exhaust(time.Now().Add(time.Hour))
	for _, how := range []accountserver.Refusals{accountserver.ByStatus, accountserver.InStream,
		accountserver.MidText} {
		one.Refuse(how)
		status, body, err := bed.TryOpenAI(b.Bed)
		require.NoError(t, err)
		assert.NotEqual(t, http.StatusOK, status, "%s: %s", how, body)
		t.Logf("refused %q: %d %s", how, status, body)
	}
	assert.Equal(t, 3, one.Record().Refused())
	one.Reset()
	bed.AskOpenAI(b.Bed)
	assert.Zero(t, one.Quota().Windows[1].Used)

	one.Invalidate()
	status, body, err := bed.TryOpenAI(b.Bed)
	require.NoError(t, err)
	assert.NotEqual(t, http.StatusOK, status, body)
	t.Logf("invalid: %d %s", status, body)
	b.MustRun(t, "codex-proxy", "undrain", "b")
	b.MustRun(t, "codex-proxy", "drain", "a")
	bed.AskOpenAI(b.Bed)
	assert.Len(t, two.Record().Turns, 1)
}
