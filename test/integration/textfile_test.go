package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const textfile = "/var/lib/prometheus/node-exporter/codex-proxy.prom"

// The directory of node exporter, if there is one, has the state of the service for as
// long as the service runs.
func TestTextfile(t *testing.T) { bothSuites(t, testTextfile) }

func testTextfile(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	assert.NotContains(t, b.journal(proxyUnit), "textfile", "without node exporter there is nothing to log")
	b.MustRun(t, "systemctl", "stop", proxyUnit)

	b.MustRun(t, "mkdir", "-p", "/var/lib/prometheus/node-exporter")
	b.MustRun(t, "chgrp", "codex-proxy", "/var/lib/prometheus/node-exporter")
	b.MustRun(t, "chmod", "g+w", "/var/lib/prometheus/node-exporter")
	b.start()
	has := func(line string) func() bool {
		return func() bool {
			text, err := b.ReadFile(textfile)
			return err == nil && strings.Contains(string(text), "\n"+line+"\n")
		}
	}
	require.Eventually(t, has("codex_textfile_ready 1"), bound, 20*time.Millisecond)
	assert.Equal(t, "644\n", b.MustRun(t, "stat", "--format=%a", textfile), "node exporter is another user")
	b.killCodex()
	b.until("ready", ready)
	require.Eventually(t, has(`codex_textfile_worker_restarts_total{worker="default"} 1`), bound, 20*time.Millisecond)
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	assert.True(t, has("codex_textfile_ready 1")(), "a reload leaves the file")
	assert.Regexp(t, `\ncodex_handoff_last_seconds (0\.|[1-9])`, b.MustRun(t, "curl", "-s", base+"/metrics"),
		"of the new process")
	b.MustRun(t, "systemctl", "stop", proxyUnit)
	_, err := b.ReadFile(textfile)
	assert.Error(t, err, "a service that was stopped is not one that is dead")
	b.start()
	require.Eventually(t, has("codex_textfile_ready 1"), bound, 20*time.Millisecond)
	b.appendTo(configFile, "textfile = \"\"\n")
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	require.Eventually(t, func() bool {
		_, err := b.ReadFile(textfile)
		return err != nil
	}, bound, 20*time.Millisecond, "a reload without it leaves none")
	assert.NotContains(t, b.journal(proxyUnit), "textfile")
}
