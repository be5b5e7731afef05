package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A soak names all that has grown, and nothing that has not.
func TestWhatHasGrown(t *testing.T) {
	first := burden{disk: disk{written: 1000, kept: 500_000}, rss: 100, files: 40, threads: 20}
	assert.NoError(t, first.grown(first, 100))
	last := burden{disk: disk{written: 1000 + 100*mostWritten, kept: 500_000 + 100*mostKept}, rss: 125, files: 56, threads: 52}
	assert.NoError(t, last.grown(first, 100))
	last = burden{disk: disk{written: last.written + 100, kept: last.kept + 100}, rss: 126, files: 57, threads: 53}
	assert.EqualError(t, last.grown(first, 100), `126 MiB of memory, and at most 125 are bearable
57 open files, and at most 56 are bearable
53 threads, and at most 52 are bearable
2001 bytes written in a turn, and at most 2000 are bearable
251 bytes kept of a turn, and at most 250 are bearable`)
}

// What a process writes into its home counts.
func TestDisk(t *testing.T) {
	home := t.TempDir()
	own := &process{Cmd: &exec.Cmd{Path: filepath.Join(home, "codex"), Process: &os.Process{Pid: os.Getpid()}}}
	before, err := own.disk()
	var system unix.Statfs_t
	if require.NoError(t, unix.Statfs(home, &system)); system.Type == unix.TMPFS_MAGIC {
		require.ErrorContains(t, err, "hint: TMPDIR=")
		return
	}
	require.NoError(t, err)
	const size = 1 << 20
	require.NoError(t, os.Mkdir(filepath.Join(home, "sessions"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "sessions", "x"), make([]byte, size), 0o600))
	after, err := own.disk()
	require.NoError(t, err)
	grown := after.since(before, 1)
	assert.InDelta(t, size, grown.kept, 64<<10)
	assert.InDelta(t, size, grown.written, 64<<10)
}

// A codex keeps its threads if worker-prepare could not turn that off.
func TestKeepsThreads(t *testing.T) {
	codex := &process{Cmd: &exec.Cmd{Path: filepath.Join(t.TempDir(), "codex")}}
	_, err := keepsThreads(codex)
	require.ErrorIs(t, err, os.ErrNotExist)
	for config, want := range map[string]bool{
		"model = 'demo'\n": true, "model = 'demo'\nthread_unload_delay_secs = 0\nweb_search = 'disabled'\n": false,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(codex.Path), "config.toml"), []byte(config), 0o600))
		keeps, err := keepsThreads(codex)
		require.NoError(t, err)
		assert.Equal(t, want, keeps, config)
	}
}
