package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
)

// The plan of a local repository has the script of its set-up.
func TestPlannedPackages(t *testing.T) {
	dir := repository(t)
	planned := func(environment, source string) string {
		t.Helper()
		r := try(t, nil)
		r.DryRun, r.Source, r.New = true, source, wire.NewSession{Environment: environment}
		status, text := r.run(t)
		require.Zero(t, status, text)
		return strings.Join(strings.Fields(r.stdout.String()), " ")
	}
	assert.Contains(t, planned("", dir), "no set-up fits "+dir+": the programs of the host alone")
	assert.Contains(t, planned("setup", dir), "no set-up fits "+dir+": the command would not run")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), nil, 0o600))
	assert.Contains(t, planned("auto", dir), "# venv, by \"requirements.txt\"")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".codex-runner.toml"), []byte("run = \"make all\"\n"), 0o600))
	assert.Contains(t, planned("setup", dir), "# by .codex-runner.toml # again when these change: make all ")
	assert.Contains(t, planned("", "https://example.org/x.git"), "the script follows from the files of the commit")
	for _, other := range []string{"none", "conda"} {
		assert.NotContains(t, planned(other, dir), "make all")
	}
}
