package codexhome

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatAWorkerNeeds(t *testing.T) {
	const provider = "\n[provider]\nname = \"x\"\nbase_url = \"http://x/v1\"\n"
	for name, c := range map[string]struct {
		file            string
		login, commands bool
	}{
		"plain":             {`mode = "plain"`, true, false},
		"native":            {`mode = "native"`, true, true},
		"demo":              {`mode = "demo"`, false, false},
		"provider":          {"mode = \"plain\"\nmodel = \"m\"" + provider, false, false},
		"native provider":   {"mode = \"native\"\nmodel = \"m\"" + provider, false, true},
		"plain with a tool": {"mode = \"plain\"\n[codex.features]\nshell_tool = true", true, true},
		"native without": {"mode = \"native\"\n[codex.features]\nshell_tool = false\nunified_exec = false",
			true, false},
		"asks for a login": {"mode = \"plain\"\n[codex]\nmodel_provider = \"y\"\n[codex.model_providers.y]\n" +
			"requires_openai_auth = true", true, false},
		"needs none": {"mode = \"plain\"\n[codex]\nmodel_provider = \"y\"\n[codex.model_providers.y]\n" +
			"base_url = \"http://y\"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "w.toml")
			require.NoError(t, os.WriteFile(file, []byte(c.file), 0o600))
			w, err := Load(file)
			require.NoError(t, err)
			assert.Equal(t, c.login, w.NeedsLogin())
			assert.Equal(t, c.commands, w.RunsCommands())
		})
	}
}

// The unit may not see a codex that root finds.
func TestProgramIsOneThatTheUnitSees(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	w, err := Load(f.File)
	require.NoError(t, err)
	_, err = w.Program("", []string{"PATH=/nowhere", "PATH=" + f.SearchPath}, Account{})
	var problem *Problem
	require.ErrorAs(t, err, &problem)
	assert.Contains(t, problem.Text, "the worker cannot see "+f.SearchPath+"/codex: its unit hides /tmp/")
	assert.Contains(t, problem.Hint, "install codex elsewhere")
	assert.Empty(t, f.runs(t))

	w.CodexPath = "/bin/true"
	p, err := w.Program("", nil, Account{UID: 7, GID: 8})
	require.NoError(t, err)
	real, err := filepath.EvalSymlinks("/bin/true")
	require.NoError(t, err)
	assert.Equal(t, real, p.Path())
	assert.Equal(t, []string{"PATH=" + systemdPath, "LANG=C.UTF-8", "HOME=/", "RUST_BACKTRACE=0", "CODEX_HOME=/"},
		p.environ(), "nothing of root's environment, and no home")
	assert.EqualValues(t, 7, p.as.Uid)
	assert.EqualValues(t, 8, p.as.Gid)
}

func TestSearchPath(t *testing.T) {
	assert.Equal(t, systemdPath, searchPath(nil))
	assert.Equal(t, "/b", searchPath([]string{"PATH=/a", "MANPATH=/x", "PATH=/b"}))
}
