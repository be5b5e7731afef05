package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
)

// fifty is how many worker units are watched.
const fifty = 50

// TestIdleWatch asserts that watching fifty worker units costs next to nothing while
// nothing happens. systemd reports changes by signals.
func TestIdleWatch(t *testing.T) { bothSuites(t, testIdleWatch) }

func testIdleWatch(t *testing.T, suite string) {
	b := newBed(t, suite, `mode = "demo"`, "")
	var names []string
	for n := range fifty - 1 {
		name := fmt.Sprintf("w%d", n)
		require.NoError(t, b.WriteFile("/etc/codex-proxy/workers/"+name+".toml", []byte(`mode = "demo"`), 0o644))
		names = append(names, "codex-worker@"+name+".service")
	}
	b.MustRun(t, "sh", "-c", "systemctl start codex.target "+strings.Join(names, " "))
	b.until("all ready", func(status int, r probes.Report) bool {
		for _, w := range r.Workers {
			if !w.Ready {
				return false
			}
		}
		return status == http.StatusOK && len(r.Workers) == fifty
	})
	const span = 70 * time.Second // with the work of each minute
	before := b.cpu(proxyUnit)
	<-time.After(span) // the assertion is about time in which nothing happens
	used := b.cpu(proxyUnit) - before
	share := 100 * float64(used) / float64(span)
	t.Logf("%d worker units, idle for %s: %.3f %% CPU (%s)", fifty, span, share, used)
	assert.LessOrEqual(t, share, 0.1, "per cent of a CPU")
}
