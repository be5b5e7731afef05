package workers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
)

// TestIdleWatch asserts that watching fifty worker units costs next to nothing while
// nothing happens. systemd reports changes by signals.
func TestIdleWatch(t *testing.T) { bed.EitherSuite(t, testIdleWatch) }

func testIdleWatch(t *testing.T, suite string) {
	b := bed.New(t, suite, `mode = "demo"`, "")
	var names []string
	for n := range bed.Fifty - 1 {
		name := fmt.Sprintf("w%d", n)
		require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/"+name+".toml", []byte(`mode = "demo"`), 0o644))
		names = append(names, "codex-worker@"+name+".service")
	}
	b.MustRun(t, "sh", "-c", "systemctl start codex.target "+strings.Join(names, " "))
	b.Until("all ready", func(status int, r probes.Report) bool {
		for _, w := range r.Workers {
			if !w.Ready {
				return false
			}
		}
		return status == http.StatusOK && len(r.Workers) == bed.Fifty
	})
	const span = 70 * time.Second // with the work of each minute
	before := bed.UnitCPU(b, bed.ProxyUnit)
	<-time.After(span) // the assertion is about time in which nothing happens
	used := bed.UnitCPU(b, bed.ProxyUnit) - before
	share := 100 * float64(used) / float64(span)
	t.Logf("%d worker units, idle for %s: %.3f %% CPU (%s)", bed.Fifty, span, share, used)
	assert.LessOrEqual(t, share, 0.1, "per cent of a CPU")
}
