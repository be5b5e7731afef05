package brokerunit

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/broker"
	"codex-proxy/workers/sharing"
)

// Every user can read the status of the unit: it has no login and no parameters of the endpoint.
func TestStatus(t *testing.T) {
	settings := t.TempDir()
	t.Setenv(MadeOf, ":")
	file := strings.Replace(worker, "https://model.test/v1", "https://user:secret@model.test/v1?subscription-key=secret", 1)
	require.NoError(t, os.WriteFile(filepath.Join(settings, "w.toml"), []byte(file), 0o600))
	_, status, err := Load("w", settings, t.TempDir(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	assert.Equal(t, "Ready: requests go to https://model.test", status)
}

// A unit of a login that is gone has a name in the words of its broker; its own words stay.
func TestNamedLogin(t *testing.T) {
	assert.EqualError(t, namedLogin("w", errors.New("cut")),
		"codex-login@w.service gives no login (`journalctl -u codex-login@w.service`): cut")
	own := &broker.Error{Code: broker.LoginInvalid, Message: "own"}
	assert.Equal(t, own, namedLogin("w", own))
	assert.NoError(t, namedLogin("w", nil))
}

// A broker serves the accounts with a socket in its unit, and logs the other ones.
func TestServedLogins(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	assert.Empty(t, servedLogins("a", nil, logger), "a worker of one account")
	t.Setenv(sharing.ServesVariable, "b c")
	t.Setenv("RUNTIME_DIRECTORY", dir)
	open, err := net.Listen("unix", filepath.Join(dir, "login-1.sock"))
	require.NoError(t, err)
	defer open.Close()
	logins := servedLogins("a", nil, logger)
	assert.Equal(t, []string{"a", "c"}, slices.Sorted(maps.Keys(logins)))
	assert.Contains(t, log.String(), "systemctl status codex-login@b.socket")
	assert.NotContains(t, log.String(), "codex-login@c")
}

// Without the socket of its login, as one of an earlier build, a broker names the units to restart.
func TestNoSocketOfTheLogin(t *testing.T) {
	settings := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(settings, "w.toml"), []byte("mode = \"plain\"\nnetwork = \"model\"\n"), 0o600))
	t.Setenv(MadeOf, "login")
	t.Setenv(LoginVariable, filepath.Join(settings, "login.sock"))
	_, _, err := Load("w", settings, t.TempDir(), slog.New(slog.DiscardHandler))
	require.EqualError(t, err, "the socket of its login is not there: `systemctl restart codex-login@w.socket codex-worker@w.service`")
}
