package brokerunit

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
