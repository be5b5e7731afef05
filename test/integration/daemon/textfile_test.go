package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

const textfile = "/var/lib/prometheus/node-exporter/codex-proxy.prom"

// The directory of node exporter, if there is one, has the state of the service for as
// long as the service runs.
func TestTextfile(t *testing.T) { bed.EitherSuite(t, testTextfile) }

func testTextfile(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "textfile", "without node exporter there is nothing to log")
	b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)

	b.MustRun(t, "mkdir", "-p", "/var/lib/prometheus/node-exporter")
	b.MustRun(t, "chgrp", "codex-proxy", "/var/lib/prometheus/node-exporter")
	b.MustRun(t, "chmod", "g+w", "/var/lib/prometheus/node-exporter")
	b.Start()
	has := func(line string) func() bool {
		return func() bool {
			text, err := b.ReadFile(textfile)
			return err == nil && strings.Contains(string(text), "\n"+line+"\n")
		}
	}
	await.True(t, has("codex_textfile_ready 1"), bed.Bound)
	assert.Equal(t, "644\n", b.MustRun(t, "stat", "--format=%a", textfile), "node exporter is another user")
	b.KillCodex()
	b.Until("ready", bed.Ready)
	await.True(t, has(`codex_textfile_worker_restarts_total{worker="default"} 1`), bed.Bound)
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	assert.True(t, has("codex_textfile_ready 1")(), "a reload leaves the file")
	assert.Regexp(t, `\ncodex_handoff_last_seconds (0\.|[1-9])`, b.MustRun(t, "curl", "-s", bed.Base+"/metrics"),
		"of the new process")
	b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
	_, err := b.ReadFile(textfile)
	assert.Error(t, err, "a service that was stopped is not one that is dead")
	b.Start()
	await.True(t, has("codex_textfile_ready 1"), bed.Bound)
	b.AppendTo(bed.ConfigFile, "textfile = \"\"\n")
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	await.True(t, func() bool {
		_, err := b.ReadFile(textfile)
		return err != nil
	}, bed.Bound, "a reload without it leaves none")
	assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "textfile")
}
