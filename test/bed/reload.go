package bed

import (
	"fmt"
	"net/http"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/machine"
)

// AssertSmooth asserts that systemd has seen no failure and no restart.
func AssertSmooth(b *Bed) {
	b.T.Helper()
	show := b.Properties(ProxyUnit, "NRestarts", "ActiveState", "Result")
	assert.Equal(b.T, map[string]string{"NRestarts": "0", "ActiveState": "active", "Result": "success"}, show)
	journal := b.UnitJournal(ProxyUnit)
	for _, bad := range []string{
		"not our child", "reception only permitted", "panic", "Killing process", "cut off", "by force",
	} {
		assert.NotContains(b.T, journal, bad)
	}
}

// AwaitSole waits for the processes from before reloads to end.
func AwaitSole(b *Bed) {
	b.T.Helper()
	var processes []machine.Process
	await.True(b.T, func() bool {
		var err error
		processes, err = b.Processes(ProxyUnit)
		return err == nil && len(processes) == 1
	}, Bound, "%v", processes)
	assert.Equal(b.T, b.ProxyPID(), fmt.Sprint(processes[0].Inside))
}

// Warm lets the heap grow to the size that requests need.
func (b *Bed) Warm() {
	b.T.Helper()
	for n := range 30 {
		AssertServes(b, fmt.Sprintf("warm-up %d", n))
	}
}

// AssertServes asserts that the proxy is ready and answers at once.
func AssertServes(b *Bed, when string) {
	b.T.Helper()
	status, r := b.Readyz()
	assert.Equal(b.T, http.StatusOK, status, "%s: %s", when, r.Health.Readiness.Details)
	require.NoError(b.T, b.Models.Script("text fair enough"))
	status, _, body := b.Chat(false, when)
	assert.Equal(b.T, http.StatusOK, status, "%s: %s", when, body)
}
