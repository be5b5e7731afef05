package paths

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindControlSocket(t *testing.T) {
	root := t.TempDir()
	assert.Equal(t, ControlSocket, FindControlSocket(root, ""))
	assert.Equal(t, "/srv/socket", FindControlSocket(root, "/srv/socket"), "neither exists")
	for _, path := range []string{ControlSocket, "/srv/socket"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, ControlSocket), nil, 0o600))
	assert.Equal(t, ControlSocket, FindControlSocket(root, "/srv/socket"), "the daemon has not read the settings")
	require.NoError(t, os.WriteFile(filepath.Join(root, "/srv/socket"), nil, 0o600))
	assert.Equal(t, "/srv/socket", FindControlSocket(root, "/srv/socket"))
}
