package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/accountserver"
)

// oneWarm keeps one worker started.
const oneWarm = "[accounts]\nrotation = \"ordered\"\nwarm = 1\nidle_stop = \"2s\"\n"

// reasons are those of the workers, in their order.
func reasons(r report) string {
	var all []string
	for _, w := range r.Workers {
		all = append(all, w.Name+" "+string(w.Reason))
	}
	return strings.Join(all, ", ")
}

// untilReasons waits until the workers are so.
func (b *bed) untilReasons(want string) report {
	b.t.Helper()
	r, _ := b.until(want, func(_ int, r report) bool { return reasons(r) == want })
	return r
}

// assertOffDuty asserts that a standby has no process, and that nothing complains of it.
func (b *bed) assertOffDuty(worker string) {
	t, unit := b.t, "codex-worker@"+worker+".service"
	processes, err := b.Processes(unit)
	require.NoError(t, err)
	assert.Empty(t, processes)
	assert.Equal(t, map[string]string{"ActiveState": "inactive", "SubState": "dead", "Result": "success", "NRestarts": "0"},
		b.show(unit, "ActiveState", "SubState", "Result", "NRestarts"))
	assert.Equal(t, "active", b.show("codex-worker@"+worker+".socket", "ActiveState")["ActiveState"])
	_, metrics := b.get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_state{state="standby",worker="`+worker+`"} 1`)
	assert.Contains(t, string(metrics), `codex_worker_consecutive_failures{worker="`+worker+`"} 0`)
	doctor, _, _ := b.Run(t.Context(), "codex-proxy", "doctor")
	assert.NotRegexp(t, `(?m)^(FAIL|warn).*`+worker, doctor)
}

// With warm = 1 the workers of accounts that are not in use are stopped soon after the
// start of the service, without a failure. A reading at the mark starts the successor, and
// the worker that is idle is stopped.
func TestStandby(t *testing.T) { bothSuites(t, testStandby) }

func testStandby(t *testing.T, suite string) {
	b := newAccountsBed(t, suite, oneWarm, "a", "b", "c")
	b.start()
	r := b.untilReasons("a ready, b standby, c standby")
	assert.Empty(t, r.Health.Readiness.Details)
	b.assertOffDuty("b")
	b.assertOffDuty("c")

	status, body, err := b.tryOpenAI()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	assert.Len(t, b.server.Account("a").Record().Turns, 1)

	b.server.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Used = 90 })
	b.askOpenAI()
	b.untilReasons("a ready, b ready, c standby")
	t.Log("journal", b.journal(proxyUnit))
	_ = probes.Standby
	_ = time.Now
}
