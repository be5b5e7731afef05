package runner

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// TestRunnerFullDisk fills the disk of the service while commands run and wait: it is not ready, the record says what became
// of them, and work goes on when there is room.
func TestRunnerFullDisk(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		b.MustRun(t, "mkdir", "-p", paths.StateDir)
		b.MustRun(t, "mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs", paths.StateDir)
		b.MustRun(t, "chown", "codex-runner:", paths.StateDir)
		require.NoError(t, b.WriteFile("/etc/codex-runner/runner.toml", []byte("max_sessions = 1\nworkspaces = 1\n"), 0o644))
		runs := b.create(script("sleep 3; yes | head -c 1000000; exit 7"))
		waits := b.create(script("echo later"))
		b.until(runs.ID, 1, wire.CommandRunning)
		const fill = paths.StateDir + "/fill"
		_, _, _ = b.Run(t.Context(), "dd", "if=/dev/zero", "of="+fill, "bs=4k") // until there is no room
		var s wire.Status
		b.send(http.MethodGet, "/v1/status", nil, &s)
		assert.False(t, s.Ready)
		assert.Contains(t, s.Reason, "the disk of /var/lib/codex-runner is full")
		status, text, err := b.try(http.MethodPost, "/v1/sessions", script("true"))
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, status, string(text))
		await.True(t, func() bool { // its end is decided, and waits for room in the store
			_, _, err := b.Run(t.Context(), "journalctl", "--quiet", "--unit="+runnerService, "--grep=cannot record the end of a command")
			return err == nil
		}, bed.Bound)
		b.MustRun(t, "rm", fill)
		_, c := b.follow(runs.ID, 1)
		assert.Equal(t, ends.DiskFull, c.Outcome.Word, c.Outcome.Text)
		output, c := b.follow(waits.ID, 1)
		assert.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
		assert.Equal(t, "later\n", string(output))
	})
}
