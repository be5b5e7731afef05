package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
)

// The session gets the hash of the token, and the token nowhere.
func TestExecServerOptions(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	secret := strings.Repeat("0123456789abcdef", 4)
	require.NoError(t, os.WriteFile(token, []byte(secret+"\n"), 0o600))
	var asked wire.NewSession
	daemon := apitest.Start(t, func(c *apitest.Command) {
		asked = c.Of
		echo(c)
	})
	got := try(t, "run", "--socket", daemon.Socket, "--keep", "--detach", "--exec-server", "--token-file", token, "--memory", "2G")
	require.Equal(t, 0, got.status, got.stderr)
	id := strings.TrimSpace(got.stdout)
	daemon.Await(id, func(s wire.Session) bool { return s.State == wire.SessionIdle })
	require.Len(t, asked.Commands, 1)
	line := strings.Join(asked.Commands[0].Args, " ")
	hash := sha256.Sum256([]byte(secret))
	assert.True(t, strings.HasSuffix(line, "codex exec-server --listen ws://127.0.0.1:18900 --concurrent-requests 16 "+
		"--ws-auth capability-token --ws-token-sha256 "+hex.EncodeToString(hash[:])), line)
	assert.NotContains(t, line, secret)
	assert.Empty(t, asked.Secrets)
	assert.EqualValues(t, 2<<30, asked.Commands[0].Limits.Memory)

	short := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, []byte("hunter2"), 0o600))
	for want, args := range map[string][]string{
		"needs --token-file":          {"--keep", "--detach", "--exec-server"},
		"add --keep --detach":         {"--exec-server", "--token-file", token},
		"leave its arguments out":     {"--detach", "--exec-server", "--token-file", token, "codex", "x"},
		"give both or none":           {"--token-file", token, "true"},
		"has no token":                {"--detach", "--exec-server", "--token-file", short},
		"cannot read the token":       {"--detach", "--exec-server", "--token-file", short + "-none"},
		"leave --tty and --stdin out": {"--detach", "--exec-server", "--token-file", token, "--stdin", "-"},
	} {
		got := try(t, append([]string{"run", "--socket", daemon.Socket}, args...)...)
		assert.Contains(t, got.stderr, want)
		assert.NotEqual(t, 0, got.status, want)
		if strings.HasPrefix(want, "has no") || strings.HasPrefix(want, "cannot") {
			continue
		}
		assert.Equal(t, cli.Usage, got.status, want)
	}
}
