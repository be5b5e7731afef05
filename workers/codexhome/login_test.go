package codexhome

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex-proxy/test/codexes"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loginProgram is the stand-in as the program of a home; FAKE_CODEX_DIR must be set in the unit.
func loginProgram(t *testing.T, f *fake) *Program {
	t.Helper()
	w, err := Load(f.File)
	require.NoError(t, err)
	return &Program{worker: w, codex: codex{path: f.SearchPath + "/codex", home: "/", dir: "/", limit: inspectLimit,
		as:  &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: os.Getuid() != 0},
		env: []string{"FAKE_CODEX_DIR=" + f.dir, "HTTPS_PROXY=http://proxy:1", "HOME=/elsewhere"}}}
}

// The key goes from our standard input to codex's, and nowhere else.
func TestLogIn(t *testing.T) {
	f := newFake(t, "mode = \"plain\"\nmodel = \"m\"\n[codex]\nchatgpt_base_url = \"https://chat\"\n")
	p := loginProgram(t, f)
	var out, talk strings.Builder
	dir := t.TempDir()
	require.NoError(t, p.LogIn(t.Context(), dir, true, strings.NewReader("sk-SECRET"), &out, &talk, nil))
	assert.Equal(t, "home "+dir+", key sk-SECRET\n", out.String())
	assert.Equal(t, "open the page\n", talk.String())
	assert.Equal(t, []string{`login --with-api-key -c cli_auth_credentials_store="file"`}, f.runs(t))
	config, err := os.ReadFile(filepath.Join(dir, "config.toml"))
	require.NoError(t, err)
	assert.Contains(t, string(config), "chatgpt_base_url = 'https://chat'\n", "the settings are the worker's")
	assert.NotContains(t, string(config), f.Dir, "the worker's home is for the worker alone")
	assert.Contains(t, p.environ(), "HTTPS_PROXY=http://proxy:1", "the way out is the unit's")

	f.answers(t, "approved", "yes")
	require.NoError(t, p.LogIn(t.Context(), t.TempDir(), false, strings.NewReader(""), &out, &talk, nil))
	assert.Equal(t, `login --device-auth -c cli_auth_credentials_store="file"`, f.runs(t)[0])
}

// Every codex takes the settings for a login.
func TestLogInWithEachCodex(t *testing.T) {
	codexes.Each(t, 0, func(t *testing.T, _ int, program string) {
		f := newFake(t, `mode = "plain"`)
		p := loginProgram(t, f)
		p.path = program
		var out, talk strings.Builder
		dir := t.TempDir()
		require.NoError(t, p.LogIn(t.Context(), dir, true, strings.NewReader("sk-SECRET"), &out, &talk, nil), &talk)
		assert.FileExists(t, filepath.Join(dir, authName))
		require.NoError(t, p.LogOut(t.Context(), dir))
		assert.NoFileExists(t, filepath.Join(dir, authName))
	})
}

// Ctrl-C reaches codex, although codex has no terminal.
func TestLogInIsInterrupted(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	signals := make(chan os.Signal, 1)
	talk := &waker{signals: signals}
	err := loginProgram(t, f).LogIn(t.Context(), t.TempDir(), false, strings.NewReader(""), &strings.Builder{},
		talk, signals)
	assert.EqualError(t, err, "codex has not logged in (signal: interrupt)")
}

// waker interrupts codex after its first output.
type waker struct{ signals chan<- os.Signal }

func (w *waker) Write(p []byte) (int, error) {
	select {
	case w.signals <- os.Interrupt:
	default:
	}
	return len(p), nil
}

func TestLogOut(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	p := loginProgram(t, f)
	require.NoError(t, p.LogOut(t.Context(), t.TempDir()))
	f.answers(t, "logout", "no network")
	assert.EqualError(t, p.LogOut(t.Context(), t.TempDir()), "codex cannot end a login: no network")
}
