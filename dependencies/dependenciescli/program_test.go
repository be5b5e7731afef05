package dependenciescli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/dependencies/dependencyconfig"
)

// The preset of PostgreSQL names four programs, and a user and a database that are called like one of them.
func TestProgramsOfPostgreSQL(t *testing.T) {
	dir := fill(t, "postgres", "initdb", "pg_isready", "psql")
	text, err := os.ReadFile("../../packaging/dependencies/postgresql.toml")
	require.NoError(t, err)
	placed, err := place(string(text), dir)
	require.NoError(t, err)
	const installed = "/usr/lib/postgresql/17/bin" // the file does not accept programs in /tmp
	s, err := dependencyconfig.Parse("/x/db.toml", []byte(strings.ReplaceAll(placed, dir, installed)))
	require.NoError(t, err)
	dir = installed
	assert.Equal(t, filepath.Join(dir, "postgres"), s.Command[0])
	assert.Equal(t, "postgres", s.User)
	assert.Contains(t, s.Prepare[2], filepath.Join(dir, "initdb")+" --pgdata=/var/lib/codex-dependency/db/new ")
	assert.Contains(t, s.Probe.Check, "exec:"+filepath.Join(dir, "pg_isready")+" -")
	assert.Contains(t, s.Probe.Ready, "exec:"+filepath.Join(dir, "psql")+" ")
	assert.Contains(t, s.Probe.Ready, " -d postgres ")
	assert.Contains(t, placed, "runuser -u postgres -- createuser", "comments stay")
}

// Debian has each version of PostgreSQL in a directory, and on PATH starters that choose one.
func TestTheHighestVersion(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9.6", "15", "17"} {
		dir := filepath.Join(root, version, "bin")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for _, name := range []string{"server", "client"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
		}
	}
	p := program{dirs: []string{filepath.Join(root, "*/bin")}}
	onPath := fill(t, "client")
	path, err := p.find("server", onPath)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "17/bin/server"), path)
	beside, err := besideOf(path, "client", onPath)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "17/bin/client"), beside, "not the starter")

	link := filepath.Join(onPath, "server")
	require.NoError(t, os.Symlink(filepath.Join(root, "15/bin/server"), link))
	path, err = p.find("server", onPath)
	require.NoError(t, err)
	assert.Equal(t, link, path, "PATH comes first")
	beside, err = besideOf(path, "client", onPath)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "15/bin/client"), beside)
	_, err = besideOf(path, "other", onPath)
	assert.EqualError(t, err, "the program other is missing beside "+link)
}

func TestProgramThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	_, err := program{}.find("plain", dir)
	assert.EqualError(t, err, "cannot use the program plain ("+dir+"/plain: it is not executable)")
}

// Each program without a directory in a preset is one that an operator can get.
func TestPresetsNameProgramsWithASource(t *testing.T) {
	const dir = "../../packaging/dependencies"
	names, err := PresetNames(dir)
	require.NoError(t, err)
	found := 0
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".toml"))
		require.NoError(t, err)
		if m := commandName.FindStringSubmatch(string(text)); m != nil {
			found++
			assert.NotEmpty(t, programs[m[1]].get, "%s: %s", name, m[1])
		}
	}
	assert.Equal(t, len(programs), found)
}
