package prepare

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

func TestEnd(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	require.NoError(t, os.Mkdir(b.Cgroup, 0o700))
	for name, text := range map[string]string{
		"memory.events": "low 0\noom 2\noom_kill 3\n", "pids.events": "max 5\n", "memory.peak": "4096\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(b.Cgroup, name), []byte(text), 0o600))
	}
	dropIns := filepath.Join(b.SystemControl, paths.SessionUnit(id)+".d")
	require.NoError(t, os.MkdirAll(dropIns, 0o700))
	b.write(paths.SessionDir(id)+"/"+paths.Current, "2") // too early
	require.NoError(t, b.End(id, systemd("success")))

	text, err := os.ReadFile(b.command(paths.Ended))
	require.NoError(t, err)
	assert.Equal(t, daemon, b.owner(b.command(paths.Ended)))
	ended, err := session.ReadEnded(bytes.NewReader(text))
	require.NoError(t, err)
	boot, err := os.ReadFile(bootID)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), ended.Time, time.Hour)
	ended.Time = time.Time{}
	assert.Equal(t, &session.Ended{
		Version: session.Version, ServiceResult: "success", ExitCode: "exited", ExitStatus: "0", Invocation: "i",
		Boot: strings.TrimSpace(string(boot)), OOMKills: 3, TaskLimit: 5, MemoryPeak: 4096,
	}, ended)
	for _, path := range []string{dropIns, filepath.Join(b.Sessions, id),
		filepath.Join(b.RuntimeDir, paths.ControlDir(id), paths.ControlSocket)} {
		_, err := os.Lstat(path)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

// A start that is refused leaves its reason.
func TestRefusal(t *testing.T) {
	b := newBed(t)
	b.write(paths.CommandDir(id, 1)+"/"+paths.Spec, "{}")
	err := b.Prepare(t.Context(), id, b.notifier)
	require.Error(t, err)
	require.NoError(t, b.End(id, systemd("exit-code")))
	text, readErr := os.ReadFile(b.command(paths.Ended))
	require.NoError(t, readErr)
	ended, readErr := session.ReadEnded(bytes.NewReader(text))
	require.NoError(t, readErr)
	assert.Equal(t, err.Error(), ended.Refusal)
}
