package dependenciescli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// bed is a machine with a systemd and without dependencies.
type bed struct {
	*Dependencies
	systemd        *unitstest.Systemd
	stdout, stderr bytes.Buffer
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{systemd: unitstest.Start(t).Systemd}
	b.Dependencies = dependenciesIn(t, &b.stdout, &b.stderr)
	return b
}

// dependenciesIn are those of a new directory, with the presets of the packages.
func dependenciesIn(t *testing.T, stdout, stderr *bytes.Buffer) *Dependencies {
	t.Helper()
	dir := t.TempDir()
	d := &Dependencies{
		Systemd: units.NewManager(), Etc: dir, Settings: filepath.Join(dir, "dependencies"),
		Presets: "../../packaging/dependencies", States: filepath.Join(dir, "states"),
		PrivateStates: filepath.Join(dir, "private"), Units: filepath.Join(dir, "units"),
		Socket: filepath.Join(dir, "none"), Stdout: stdout, Stderr: stderr,
	}
	t.Cleanup(d.Systemd.Close)
	require.NoError(t, os.Mkdir(d.Settings, 0o755))
	return d
}

// write writes the file of a dependency.
func (b *bed) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(b.of(name).file, []byte(text), 0o644))
}

// fill gives PATH one directory with these programs.
func fill(t *testing.T, programs ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755), "every user reaches it")
	for _, name := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	t.Setenv("PATH", dir)
	return dir
}

// simple is a file of a server that is on each machine.
const simple = "command = [\"/bin/sh\", \"-c\", \"exec sleep 1000\"]\n[probe]\ncheck = \"tcp:127.0.0.1:1\"\n"

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
