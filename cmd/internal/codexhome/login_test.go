package codexhome

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loginProgram is the stand-in as the program of a home; FAKE_CODEX_DIR must be set in the unit.
func loginProgram(f *fake) *Program {
	return &Program{codex{path: f.SearchPath + "/codex", home: f.Dir, dir: "/", limit: inspectLimit,
		as:  &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: os.Getuid() != 0},
		env: []string{"FAKE_CODEX_DIR=" + f.dir, "HTTPS_PROXY=http://proxy:1", "HOME=/elsewhere"}}}
}

func TestWhatAHomeIsLoggedInWith(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	p := loginProgram(f)
	const apiKey = "API key configured - sk-te***23456\nAuthentication is checked when you send a request."
	for status, want := range map[string]Login{
		"Logged in using ChatGPT": ChatGPT, apiKey: APIKey,
		"Logged in using an API key - sk-te***": APIKey, "Logged in using access token": OtherLogin,
	} {
		f.answers(t, "login-kind", status)
		got, err := p.Login(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got, status)
	}
	f.answers(t, "login", "Not logged in")
	got, err := p.Login(t.Context())
	require.NoError(t, err)
	assert.Equal(t, NoLogin, got)
	f.answers(t, "login", "Error checking login status: it is broken")
	_, err = p.Login(t.Context())
	assert.EqualError(t, err, "codex cannot read its login: Error checking login status: it is broken")
}

// The key goes from our standard input to codex's, and nowhere else.
func TestLogIn(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	p := loginProgram(f)
	var out, talk strings.Builder
	dir := t.TempDir()
	require.NoError(t, p.LogIn(t.Context(), dir, true, strings.NewReader("sk-SECRET"), &out, &talk, nil))
	assert.Equal(t, "home "+dir+", key sk-SECRET\n", out.String())
	assert.Equal(t, "open the page\n", talk.String())
	assert.Equal(t, []string{`login --with-api-key -c cli_auth_credentials_store="file"`}, f.runs(t))
	link, err := os.Readlink(filepath.Join(dir, "config.toml"))
	require.NoError(t, err)
	assert.Equal(t, f.configFile(), link, "the settings are the worker's")
	assert.Contains(t, p.environ(), "HTTPS_PROXY=http://proxy:1", "the way out is the unit's")

	f.answers(t, "approved", "yes")
	require.NoError(t, p.LogIn(t.Context(), t.TempDir(), false, strings.NewReader(""), &out, &talk, nil))
	assert.Equal(t, `login --device-auth -c cli_auth_credentials_store="file"`, f.runs(t)[0])
}

// Ctrl-C reaches codex, although codex has no terminal.
func TestLogInIsInterrupted(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	signals := make(chan os.Signal, 1)
	talk := &waker{signals: signals}
	err := loginProgram(f).LogIn(t.Context(), t.TempDir(), false, strings.NewReader(""), &strings.Builder{},
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

func TestTakeOver(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	p := loginProgram(f)
	for _, login := range []string{"first", "second"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "auth.json"), []byte(login), 0o600))
		require.NoError(t, p.TakeOver(dir))
		got, err := os.ReadFile(f.authFile())
		require.NoError(t, err)
		assert.Equal(t, login, string(got))
		before, err := os.ReadFile(filepath.Join(dir, "auth.json"))
		if login == "first" {
			assert.ErrorIs(t, err, os.ErrNotExist)
		} else {
			assert.Equal(t, "first", string(before))
		}
	}
	assert.ErrorContains(t, p.TakeOver(t.TempDir()), "cannot put the login into the worker's home")
	got, err := os.ReadFile(f.authFile())
	require.NoError(t, err)
	assert.Equal(t, "second", string(got), "the login that is there stays")

	f.answers(t, "logout", "no network")
	assert.EqualError(t, p.LogOut(t.Context(), t.TempDir()), "codex cannot end a login: no network")
}
