package dependencies

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/bed"
)

// A web server by the preset: systemctl shows a wrong status and a wrong body, and a hang
// that TCP does not show ends.
func TestDependencyHTTP(t *testing.T) { bed.EitherSuite(t, testDependencyHTTP) }

func testDependencyHTTP(t *testing.T, suite string) {
	b := webBed(t, suite)
	d := preset(b, "web", "http",
		`"/usr/local/bin/server", "--listen", "127.0.0.1:8080"`, webServer,
		`# interval = "5s"`, `interval = "1s"`, `# status = []`, `status = [200]`, `# body = ""`, `body = "well"`)
	d.Start()
	assert.Contains(t, reason(d), "Ready: http")

	for _, c := range []struct{ page, reason string }{
		{"all is lost", `200 OK, and the body lacks "well"`},
		{"", "404 File not found, want status 200"},
	} {
		run := d.RunID()
		page(b, c.page)
		t.Log(awaitReason(d, c.reason))
		b.UntilShown(d.Unit, func(v map[string]string) bool {
			return v["InvocationID"] != run && v["ActiveState"] == "activating" &&
				strings.Contains(v["StatusText"], c.reason)
		}, "InvocationID", "ActiveState", "StatusText") // restarted, and not ready
		page(b, "all is well")
		d.ReadyAgain(run)
	}

	run, at := d.RunID(), clock()
	stopServer(d, serverProcess(d), "127.0.0.1:8080")
	t.Logf("hang to ready: %s", d.ReadyAgain(run)-at)
	assert.Contains(t, b.UnitJournal(d.Unit), "Watchdog timeout")
}
