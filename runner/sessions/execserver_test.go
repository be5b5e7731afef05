package sessions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A codex without the options of the exec-server is named, in place of its own words about an option.
func TestExecServerVersions(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte(strings.Repeat("x", 64)), 0o600))
	program := filepath.Join(dir, "codex")
	command, err := ExecServer(program, token)
	require.NoError(t, err)
	for version, works := range map[string]bool{
		"0.9.0": false, "0.99.1": false, "0.140.0": false, "0.159.9": false, "0.160.0": true, "0.171.0": true,
		"0.1000.0": true, "1.0.0": true,
	} {
		script := "#!/bin/sh\n[ $1 = --version ] && echo codex-cli " + version + " || echo runs \"$@\"\n"
		require.NoError(t, os.WriteFile(program, []byte(script), 0o755))
		out, err := exec.Command(command.Args[0], command.Args[1:]...).CombinedOutput()
		if works {
			require.NoError(t, err, version)
			assert.Contains(t, string(out), "runs exec-server --listen ws://127.0.0.1:18900 ", version)
			continue
		}
		assert.Error(t, err, version)
		assert.Equal(t, "codex "+version+" has no exec-server that takes a token: install codex 0.160 or later\n", string(out))
	}
}
