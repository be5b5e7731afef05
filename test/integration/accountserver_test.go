package integration

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// The stand-in of the accounts' server is to codex what OpenAI's hosts are: readings cost nothing, turns use up the
// quota, and a turn beyond it is refused, each for the account of its worker.
func TestAccountServer(t *testing.T) { bothSuites(t, testAccountServer) }

func testAccountServer(t *testing.T, suite string) {
	b := newAccountsBed(t, suite, "", "a", "b")
	one, two := b.server.Account("a"), b.server.Account("b")
	one.Change(func(q *accountserver.Quota) { q.Windows[0].Used, q.Windows[1].Used = 42, 7 })
	b.start()
	b.untilWorkersReady()
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.42`)
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="7d",worker="a"} 0.07`)
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="b"} 0`)
	assert.Empty(t, one.Record().Turns, "a reading is no turn")
	assert.NotEmpty(t, one.Record().Readings)

	b.MustRun(t, "codex-proxy", "drain", "b")
	one.Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 8 })
	b.askOpenAI()
	b.untilMetric(`codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.5`)
	assert.Len(t, one.Record().Turns, 1)
	assert.Empty(t, two.Record().Turns)
	one.Expire()
	b.askOpenAI()
	assert.Len(t, one.Record().Refreshes, 1, "codex refreshes a token that has expired")

	one.Exhaust(time.Now().Add(time.Hour))
	for _, how := range []accountserver.Refusals{accountserver.ByStatus, accountserver.InStream,
		accountserver.MidText} {
		one.Refuse(how)
		status, body, err := b.tryOpenAI()
		require.NoError(t, err)
		assert.NotEqual(t, http.StatusOK, status, "%s: %s", how, body)
		t.Logf("refused %q: %d %s", how, status, body)
	}
	assert.Equal(t, 3, one.Record().Refused())
	one.Reset()
	b.askOpenAI()
	assert.Zero(t, one.Quota().Windows[1].Used)

	one.Invalidate()
	status, body, err := b.tryOpenAI()
	require.NoError(t, err)
	assert.NotEqual(t, http.StatusOK, status, body)
	t.Logf("invalid: %d %s", status, body)
	b.MustRun(t, "codex-proxy", "undrain", "b")
	b.MustRun(t, "codex-proxy", "drain", "a")
	b.askOpenAI()
	assert.Len(t, two.Record().Turns, 1)
}
