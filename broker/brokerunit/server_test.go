package brokerunit

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/broker"
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
