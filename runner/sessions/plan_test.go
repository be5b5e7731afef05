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

// The plan of a local repository says what its files choose: an environment, the script of a set-up, or neither.
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
	assert.Contains(t, planned("", dir), "no manifest of an environment is in "+dir+": the packages of the host")
	assert.Contains(t, planned("setup", dir), "no set-up fits "+dir+": the command would not run")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), nil, 0o600))
	assert.Contains(t, planned("auto", dir), "by the manifests in "+dir+": venv")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".codex-runner.toml"), []byte("run = \"make all\"\n"), 0o600))
	assert.Contains(t, planned("setup", dir), "# by .codex-runner.toml # again when these change: make all ")
	assert.Contains(t, planned("setup", "https://example.org/x.git"), "the script follows from the files of the commit")
	assert.NotContains(t, planned("none", dir), "manifest")
}
