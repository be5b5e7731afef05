package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A web server by the preset: systemctl shows a wrong status and a wrong body, and a hang
// that TCP does not show ends.
func TestDependencyHTTP(t *testing.T) { bothSuites(t, testDependencyHTTP) }

func testDependencyHTTP(t *testing.T, suite string) {
	b := webBed(t, suite)
	d := b.preset("web", "http",
		`"/usr/local/bin/server", "--listen", "127.0.0.1:8080"`, webServer,
		`# interval = "5s"`, `interval = "1s"`, `# status = []`, `status = [200]`, `# body = ""`, `body = "well"`)
	d.start()
	assert.Contains(t, d.reason(), "Ready: http")

	for _, c := range []struct{ page, reason string }{
		{"all is lost", `200 OK, and the body lacks "well"`},
		{"", "404 File not found, want status 200"},
	} {
		run := d.run()
		b.page(c.page)
		t.Log(d.awaitReason(c.reason))
		b.untilShown(d.unit, func(v map[string]string) bool {
			return v["InvocationID"] != run && v["ActiveState"] == "activating" &&
				strings.Contains(v["StatusText"], c.reason)
		}, "InvocationID", "ActiveState", "StatusText") // restarted, and not ready
		b.page("all is well")
		d.readyAgain(run)
	}

	run, at := d.run(), clock()
	d.stopServer(d.server(), "127.0.0.1:8080")
	t.Logf("hang to ready: %s", d.readyAgain(run)-at)
	assert.Contains(t, b.journal(d.unit), "Watchdog timeout")
}
