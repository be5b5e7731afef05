package runner

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// TestRunnerReboot cuts the power of a machine whose sessions run, and boots it again with the same disk: what ran is lost,
// what waited runs, in the workspace of its session, and what cannot run says why.
func TestRunnerReboot(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		disk := t.TempDir()
		var binds []machine.Bind
		for _, dir := range []string{paths.StateDir, paths.Workspaces, paths.PrivateStates} {
			source := filepath.Join(disk, filepath.Base(dir))
			require.NoError(t, os.Mkdir(source, 0o700))
			binds = append(binds, machine.Bind{Source: source, Target: dir})
		}
		b := startDaemon(t, bootRunnerOn(t, machine.Debian(suite), runnerDaemonFiles, binds...))
		require.NoError(t, b.WriteFile("/etc/codex-runner/runner.toml", []byte("max_sessions = 2\n"), 0o644))
		runs := script("echo kept >file; echo running; exec sleep 4321")
		runs.Commands = append(runs.Commands, wire.NewCommand{Args: []string{"sh", "-c", "cat file; echo next"}, Kept: true})
		first := b.create(runs)
		b.until(first.ID, 1, wire.CommandRunning)
		withSecret := script("echo running; exec sleep 4321")
		withSecret.Secrets = map[string]string{"TOKEN": "very secret"}
		withSecret.Commands = append(withSecret.Commands, wire.NewCommand{Args: []string{"true"}})
		second := b.create(withSecret)
		b.until(second.ID, 1, wire.CommandRunning)
		waits := b.create(script("echo waited"))

		require.NoError(t, b.Close())
		b = startDaemon(t, bootRunnerOn(t, machine.Debian(suite), runnerDaemonFiles, binds...))
		for _, s := range []wire.Session{first, second} {
			output, c := b.follow(s.ID, 1)
			assert.Equal(t, "running\n", string(output))
			assert.Equal(t, ends.Lost, c.Outcome.Word, c.Outcome.Text)
		}
		output, c := b.follow(first.ID, 2)
		assert.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
		assert.Equal(t, "kept\nnext\n", string(output), "its workspace is as it was")
		output, c = b.follow(waits.ID, 1)
		assert.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
		assert.Equal(t, "waited\n", string(output))
		_, c = b.follow(second.ID, 2)
		assert.Equal(t, ends.WorkspaceFailed, c.Outcome.Word)
		assert.Contains(t, c.Outcome.Text, "the secrets of the session are gone with a restart of the host")
		// A session that lost its command takes another one.
		b.send(http.MethodPost, "/v1/sessions/"+first.ID+"/commands", wire.NewCommand{Args: []string{"true"}}, nil)
		_, c = b.follow(first.ID, 3)
		assert.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
	})
}
