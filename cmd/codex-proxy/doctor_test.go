package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/checkup"
)

// Where nothing is installed and nothing can be asked, nothing is well.
func TestDoctorWithoutSystemd(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	t.Setenv("RUNTIME_DIRECTORY", "/run/of-another-unit")
	got := try(t, "doctor")
	assert.Equal(t, exitFailure, got.status)
	assert.Regexp(t, `(?m)^fail  bus .*there is no system bus here`, got.stdout)
	assert.Contains(t, got.stdout, "-> apt install dbus, or dnf install dbus; then systemctl start dbus.socket\n")
	assert.Empty(t, got.stderr)

	got = try(t, "doctor", "--json")
	assert.Equal(t, exitFailure, got.status)
	var r checkup.Report
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &r))
	assert.False(t, r.OK)

	assert.Equal(t, exitUsage, try(t, "doctor", "everything").status)
}
