package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
)

// Every block of commands in docs/operations.md works unchanged, and in the end all
// units run.
func TestOperationsManual(t *testing.T) { bed.BothSuites(t, testOperationsManual) }

func testOperationsManual(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	requests := manual.Open(t, "docs/api.md").Commands()
	ends := []string{"\ndata: [DONE]\n", `"status":"completed"`, "\nevent: response.completed\n", "\nevent: message_stop\n"}
	require.Len(t, requests, len(ends))
	for i, end := range ends {
		assert.Contains(t, b.MustRun(t, "sh", "-ec", strings.Replace(requests[i], "MODEL", bed.Model, 1)), end)
	}
	b.FollowManual(manual.Open(t, "docs/operations.md"))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "ready (ready) since ")
	drain := b.Properties(bed.WorkerUnit, "ExecStop")["ExecStop"]
	assert.Contains(t, drain, "--wait=1m")
	assert.NotContains(t, drain, "--wait=5m")
}
