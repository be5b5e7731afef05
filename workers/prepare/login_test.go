package prepare

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/sharing"
	"codex-proxy/workers/shim"
)

const stored = `{"auth_mode":"chatgpt","tokens":{"access_token":"a","refresh_token":"r"}}`

// loginHomes are homes of the worker w, which is logged in.
func loginHomes(t *testing.T) homes {
	t.Helper()
	dir := t.TempDir()
	h := homes{filepath.Join(dir, "codex-worker"), filepath.Join(dir, "codex-login")}
	require.NoError(t, os.MkdirAll(filepath.Join(h.workers, "w"), 0o700))
	require.NoError(t, os.Mkdir(h.logins, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.workers, "w", "auth.json"), []byte(stored), 0o600))
	return h
}

// stops returns a stopping that records the units.
func stops() (*[]string, stopping) {
	var stopped []string
	return &stopped, func(_ context.Context, names ...string) error {
		stopped = append(stopped, names...)
		return nil
	}
}

// A login moves there once, and back. One that is in the worker's home afterwards stays there.
func TestTheLoginMoves(t *testing.T) {
	h := loginHomes(t)
	stopped, stop := stops()
	own, kept := filepath.Join(h.workers, "w", "auth.json"), filepath.Join(h.logins, "w", "auth.json")
	require.NoError(t, os.Mkdir(filepath.Join(h.logins, "w"), 0o700), "systemd may have made it already")
	require.NoError(t, h.setApart(t.Context(), "w", stop))
	assert.Equal(t, []string{"codex-login@w.service"}, *stopped)
	assert.NoFileExists(t, own)
	assert.FileExists(t, kept)

	require.NoError(t, os.WriteFile(own, []byte("planted"), 0o600))
	require.NoError(t, h.setApart(t.Context(), "w", stop))
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.JSONEq(t, stored, string(text))
	assert.Len(t, *stopped, 1, "a start that moves nothing stops nothing")

	require.ErrorContains(t, h.setBack(t.Context(), "w", stop), "file exists")
	require.NoError(t, os.Remove(own))
	require.NoError(t, h.setBack(t.Context(), "w", stop))
	assert.Equal(t, []string{"codex-login@w.socket", "codex-login@w.service"}, (*stopped)[3:])
	assert.FileExists(t, own)
	left, err := os.ReadDir(h.logins)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, h.setBack(t.Context(), "w", stop))
}

// A worker without a login says what to do.
func TestNoLoginToMove(t *testing.T) {
	h := loginHomes(t)
	_, stop := stops()
	require.NoError(t, os.Remove(filepath.Join(h.workers, "w", "auth.json")))
	assert.EqualError(t, h.setApart(t.Context(), "w", stop), "codex is not logged in: run `codex-proxy accounts login w`")
	require.NoError(t, os.WriteFile(filepath.Join(h.logins, "w", "auth.json.new"), []byte(stored), 0o600))
	assert.NoError(t, h.setApart(t.Context(), "w", stop), "a new login waits for its unit")
}

// A move that was cut goes on.
func TestACutMove(t *testing.T) {
	h := loginHomes(t)
	_, stop := stops()
	require.NoError(t, os.Mkdir(filepath.Join(h.logins, "w"), 0o700))
	own, kept := filepath.Join(h.workers, "w", "auth.json"), filepath.Join(h.logins, "w", "auth.json")
	require.NoError(t, os.Rename(own, kept))
	require.NoError(t, h.setApart(t.Context(), "w", stop))
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(text), "refresh_token"))
}

// A removal that was cut at any point, or a home that an operator has removed, leaves the way back open, and the way there.
func TestACutRemoval(t *testing.T) {
	private := func(h homes) string { return filepath.Join(filepath.Dir(h.logins), "private", "codex-login", "w") }
	link, mark := func(h homes) string { return filepath.Join(h.logins, "w") }, homes.mark
	for name, cut := range map[string]func(h homes) error{
		"before the home": func(h homes) error { return os.Remove(mark(h, "w")) },
		"before the link": func(h homes) error { return errors.Join(os.Remove(mark(h, "w")), os.RemoveAll(private(h))) },
		"a mark alone":    func(h homes) error { return errors.Join(os.RemoveAll(private(h)), os.Remove(link(h))) },
		"by an operator":  func(h homes) error { return os.RemoveAll(private(h)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := loginHomes(t)
			_, stop := stops()
			require.NoError(t, os.MkdirAll(private(h), 0o700))
			require.NoError(t, os.Symlink(filepath.Join("..", "private", "codex-login", "w"), link(h)))
			require.NoError(t, os.WriteFile(mark(h, "w"), nil, 0o600))
			require.NoError(t, cut(h))
			require.NoError(t, h.setBack(t.Context(), "w", stop))
			for _, left := range []string{private(h), link(h), mark(h, "w")} {
				_, err := os.Lstat(left)
				assert.ErrorIs(t, err, os.ErrNotExist)
			}
			assert.FileExists(t, filepath.Join(h.workers, "w", "auth.json"))
			require.NoError(t, h.setApart(t.Context(), "w", stop))
		})
	}
	h := loginHomes(t)
	_, stop := stops()
	require.NoError(t, os.Symlink(filepath.Join("..", "private", "codex-login", "w"), link(h)))
	require.NoError(t, h.setApart(t.Context(), "w", stop), "the link leads to no home")
	assert.FileExists(t, filepath.Join(h.logins, "w", "auth.json"))
}

// A worker that gets a provider has no account that others read any more; its login stays where it is.
func TestAProviderInPlaceOfALogin(t *testing.T) {
	h := loginHomes(t)
	_, stop := stops()
	file := filepath.Join(t.TempDir(), "w.toml")
	place := func(text string) error {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		w, err := codexhome.Load(file)
		require.NoError(t, err)
		return h.place(t.Context(), "w", w, w.Brokered, stop)
	}
	const apart = "mode = \"plain\"\nnetwork = \"model\"\n"
	require.NoError(t, place(apart))
	assert.FileExists(t, h.mark("w"))
	require.NoError(t, place(apart+"model = \"m\"\n[provider]\nname = \"p\"\nbase_url = \"https://p.test/v1\"\n"))
	assert.NoFileExists(t, h.mark("w"))
	assert.FileExists(t, filepath.Join(h.logins, "w", "auth.json"))
	require.NoError(t, place(apart))
	assert.FileExists(t, h.mark("w"))
	require.NoError(t, os.RemoveAll(filepath.Join(h.logins, "w")))
	assert.EqualError(t, place(apart), "codex is not logged in: run `codex-proxy accounts login w`")
}

// A login whose link is gone is found all the same.
func TestALostLink(t *testing.T) {
	h := loginHomes(t)
	_, stop := stops()
	private := filepath.Join(filepath.Dir(h.logins), "private", "codex-login", "w")
	require.NoError(t, os.MkdirAll(private, 0o700))
	own := filepath.Join(h.workers, "w", "auth.json")
	require.NoError(t, os.Rename(own, filepath.Join(private, "auth.json")))
	require.NoError(t, h.setBack(t.Context(), "w", stop))
	assert.FileExists(t, own)
}

func TestMakeHome(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	require.NoError(t, MakeHome(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "auth.json"), nil, 0o600))
	require.NoError(t, MakeHome(dir), "one that is there is kept")
	assert.FileExists(t, filepath.Join(dir, "auth.json"))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.ModeDir|0o700, info.Mode())
	assert.ErrorContains(t, MakeHome(filepath.Join(dir, "x", "y")), "no such file")
}

// What an operator sets for the worker changes neither the home of the login nor the log of its codex.
func TestTheEnvironmentOfALogin(t *testing.T) {
	for name, value := range map[string]string{"CODEX_HOME": "/srv/x", "HOME": "/srv/x", "RUST_LOG": "trace",
		"STATE_DIRECTORY": "/var/lib/codex-login/w"} {
		t.Setenv(name, value)
	}
	file := filepath.Join(t.TempDir(), "w.toml")
	require.NoError(t, os.WriteFile(file, []byte("mode = \"plain\"\nnetwork = \"model\"\n"), 0o600))
	w, err := codexhome.Load(file)
	require.NoError(t, err)
	assert.EqualError(t, ownHome("w", w), "CODEX_HOME=/srv/x, and with network = \"model\" the home is /var/lib/codex-worker/w: "+
		"take CODEX_HOME out by `systemctl edit codex-worker@w.service`")
	require.NoError(t, keptEnvironment())
	assert.Equal(t, "/var/lib/codex-login/w", os.Getenv("CODEX_HOME"))
	assert.Equal(t, "/var/lib/codex-login/w", os.Getenv("HOME"))
	assert.Equal(t, "error", os.Getenv("RUST_LOG"))
	assert.Error(t, ownHome("w", w))
	t.Setenv("CODEX_HOME", "/var/lib/codex-worker/w")
	assert.NoError(t, ownHome("w", w))
}

// The worker of an account that another one serves is stopped, and its login moves; an account without one keeps none
// of the others from it.
func TestTheLoginOfAServedAccountMoves(t *testing.T) {
	h := loginHomes(t)
	stopped, stop := stops()
	var journal bytes.Buffer
	h.placeServed(t.Context(), []string{"none", "w"}, stop, func(line string) { journal.WriteString(line + "\n") })
	assert.Equal(t, []string{"codex-worker@none.service", "codex-login@none.service", "codex-worker@w.service",
		"codex-login@w.service"}, *stopped)
	assert.FileExists(t, filepath.Join(h.logins, "w", "auth.json"))
	assert.FileExists(t, h.mark("w"))
	assert.FileExists(t, h.mark("none"))
	assert.Contains(t, journal.String(), "codex is not logged in: run `codex-proxy accounts login none`")
	assert.Equal(t, 1, strings.Count(journal.String(), "\n"))
}

// The start of a worker that serves others does not fail for want of its own login, which has a reason in the journal;
// a worker that cannot start stops none of the others.
func TestTheServingWorkerHasNoLogin(t *testing.T) {
	h := loginHomes(t)
	require.NoError(t, os.Mkdir(filepath.Join(h.workers, "a"), 0o700))
	stopped, stop := stops()
	file := filepath.Join(t.TempDir(), "a.toml")
	require.NoError(t, os.WriteFile(file, []byte("mode = \"plain\"\nnetwork = \"model\"\n"), 0o600))
	w, err := codexhome.Load(file)
	require.NoError(t, err)
	t.Setenv("RUNTIME_DIRECTORY", t.TempDir())
	t.Setenv("CODEX_HOME", "/srv/x")
	t.Setenv(shim.BrokerVariable, "/run/codex-worker/a/broker.sock")
	t.Setenv(sharing.ServesVariable, "w")
	var journal bytes.Buffer
	place := func() {
		h.placeLogins(t.Context(), "a", w, stop, func(line string) { journal.WriteString(line + "\n") })
	}
	place()
	require.ErrorContains(t, placedLogin(), "take CODEX_HOME out")
	assert.Empty(t, *stopped)

	t.Setenv("CODEX_HOME", "")
	t.Setenv("RUNTIME_DIRECTORY", t.TempDir())
	place()
	require.NoError(t, placedLogin())
	assert.Equal(t, "it does not serve the account a: codex is not logged in: run `codex-proxy accounts login a`\n",
		journal.String())
	assert.FileExists(t, filepath.Join(h.logins, "w", "auth.json"))

	t.Setenv(sharing.ServesVariable, "")
	place()
	assert.ErrorContains(t, placedLogin(), "codex is not logged in", "a worker of one account has no turns")
}
