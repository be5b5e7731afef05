package remoteexec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes/remoteconfig"
)

// A remote adds its requirements to those of the machine, and loosens none.
func TestRequirements(t *testing.T) {
	file := filepath.Join(t.TempDir(), "requirements.toml")
	writes, reads := &remoteconfig.Settings{Sandbox: remoteconfig.WorkspaceWrite}, &remoteconfig.Settings{Sandbox: remoteconfig.ReadOnly}
	for _, tc := range []struct {
		machine  string
		settings *remoteconfig.Settings
		want     string
	}{
		{"", writes, "allow_remote_control = false\nallowed_sandbox_modes = ['read-only', 'workspace-write']\n"},
		{"", reads, "allow_remote_control = false\nallowed_sandbox_modes = ['read-only']\n"},
		{"allowed_sandbox_modes = [\"read-only\", \"danger-full-access\"]\nallowed_approval_policies = [\"never\"]", reads,
			"allow_remote_control = false\nallowed_approval_policies = ['never']\nallowed_sandbox_modes = ['read-only']\n"},
	} {
		require.NoError(t, os.WriteFile(file, []byte(tc.machine), 0o600))
		got, err := requirements(file, tc.settings)
		require.NoError(t, err)
		assert.Equal(t, tc.want, got)
	}
	require.NoError(t, os.WriteFile(file, []byte("allowed_sandbox_modes = [\"read-only\"]"), 0o600))
	_, err := requirements(file, writes)
	assert.ErrorContains(t, err, `does not allow "workspace-write": choose another one there or here`)
	require.NoError(t, os.WriteFile(file, []byte("x ="), 0o600))
	_, err = requirements(file, writes)
	assert.Error(t, err)
}
