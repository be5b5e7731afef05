package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMistakes(t *testing.T) {
	for want, s := range map[string]Settings{
		`sandbox.path has "bin": use an absolute path`:                  {Path: []string{"bin"}},
		`sandbox.path has "/a:/b": use an absolute path`:                {Path: []string{"/a:/b"}},
		`sandbox.path has "/home/a/bin": sandboxes hide /home;`:         {Path: []string{"/home/a/bin"}},
		`sandbox.env has the name "a b": use letters`:                   {Env: map[string]string{"a b": "x"}},
		`sandbox.env has PATH: name the directories in sandbox.path`:    {Env: map[string]string{"PATH": "/x"}},
		`sandbox.env has HOME, which each sandbox has of its own`:       {Env: map[string]string{"HOME": "/x"}},
		`sandbox.env has A with a NUL byte`:                             {Env: map[string]string{"A": "secret\x00"}},
		`sandbox.env has 1 variables of 65537 bytes`:                    {Env: map[string]string{"A": strings.Repeat("x", 1<<16)}},
		`sandbox.toolchains has "/home/a", which has more than`:         {Toolchains: []string{"/home/a"}},
		`sandbox.toolchains has "/root", which has more than`:           {Toolchains: []string{"/root"}},
		`sandbox.toolchains has "/", which has more than`:               {Toolchains: []string{"/"}},
		`sandbox.toolchains has "/home/a/../b/c": use an absolute path`: {Toolchains: []string{"/home/a/../b/c"}},
		`sandbox.toolchains has "/run/x": what is below /run`:           {Toolchains: []string{"/run/x"}},
		`sandbox.toolchains has "/home/a/x/y", which is in "/home/a/x"`: {Toolchains: []string{"/home/a/x", "/home/a/x/y"}},
	} {
		err := s.Check()
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
	assert.NoError(t, Settings{
		Path: []string{"/opt/bin", "/home/a/.sdk/java/bin"}, Toolchains: []string{"/home/a/.sdk", "/opt/go", "/root/.rustup"},
		Env: map[string]string{"HTTPS_PROXY": "http://u:p@proxy:3128"},
	}.Check())
}

// Root takes [sandbox] alone from the file, and nothing of a file with a mistake there.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runner.toml")
	s, err := Read(file)
	require.NoError(t, err)
	assert.Empty(t, s.Wanted())
	require.NoError(t, os.WriteFile(file, []byte("max_session = 3\n[sandbox]\ntoolchains = [\"/home/a/.rustup\", \"/opt/go\"]\n"), 0o600))
	s, err = Read(file)
	require.NoError(t, err)
	assert.Equal(t, []Toolchain{
		{Dir: "/home/a/.rustup", Seen: "/toolchains/home/a/.rustup"}, {Dir: "/opt/go", Seen: "/opt/go"},
	}, s.Wanted())
	require.NoError(t, os.WriteFile(file, []byte("[sandbox]\ntoolchains = [\"/\"]\n"), 0o600))
	_, err = Read(file)
	assert.ErrorContains(t, err, "(codex-runner doctor has the line)")
}

// A user has what the usual installers make, but for what the settings show.
func TestOfUser(t *testing.T) {
	all := OfUser("/srv/a", []Toolchain{{Dir: "/srv/a/.cargo"}, {Dir: "/srv/a/.nvm/versions/node"}})
	for _, one := range all {
		assert.True(t, one.User)
		assert.Equal(t, "/toolchains"+one.Dir, one.Seen, "a home may be closed to others wherever it is")
		assert.NotContains(t, one.Dir, ".cargo")
		assert.NotContains(t, one.Dir, ".nvm")
	}
	assert.Len(t, all, len(ofUser)-2)
}

// PATH has the programs of each kind of toolchain.
func TestPath(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{
		"plain", "go/bin", "nvm/versions/node/v9.1.0/bin", "nvm/versions/node/v20.0.1/bin", "rustup/toolchains",
		"sdkman/bin", "sdkman/candidates/java/current/bin", "sdkman/candidates/java/17/bin", "sdkman/candidates/maven/current/bin",
		".pyenv/versions/3.9.1/bin", ".pyenv/versions/3.12.0/bin",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(top+"/rustup/settings.toml", nil, 0o600))
	p := Programs{First: []string{"/first", "/host/go/bin"}, Usual: "/usr/bin:/first"}
	for _, name := range []string{"plain", "nvm", "rustup", "sdkman", ".pyenv/versions"} {
		p.Toolchains = append(p.Toolchains, Toolchain{Dir: "/host/" + name, Seen: filepath.Join(top, name)})
	}
	p.Toolchains = append(p.Toolchains, Toolchain{Dir: "/host/go", Seen: top + "/go", User: true},
		Toolchain{Dir: "/gone", Seen: top + "/plain", Fault: "gone"})
	path := func(p Programs) string {
		return strings.ReplaceAll(strings.TrimSuffix(p.Path(), ":"+goTools), top+"/", "")
	}
	const others = ":plain:nvm/versions/node/v20.0.1/bin:sdkman/candidates/java/current/bin:" +
		"sdkman/candidates/maven/current/bin:.pyenv/versions/3.12.0/bin:/usr/bin"
	assert.Equal(t, "/first:go/bin"+others, path(p))
	p.First = nil
	assert.Equal(t, others[1:]+":/first", path(p.Shared()), "without the user's")
	assert.Equal(t, map[string]string{"RUSTUP_HOME": top + "/rustup"}, p.Env())
	assert.Equal(t, top+"/go/x", p.Seen("/host/go/x"))
	assert.Equal(t, "/gone/x", p.Seen("/gone/x"))
	assert.Equal(t, "gone", p.Faults())
}
