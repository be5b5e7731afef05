package runner

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// brainConfig is codex's configuration for the scripted model.
const brainConfig = `model = "gpt-test"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "http://` + bed.ModelAddr + `/v1"
wire_api = "responses"
supports_websockets = false
`

// A codex has its commands executed in a session, and in the same workspace by the next exec-server of the session. No
// other user reaches the exec-server, and the session does not have the token.
func TestExecServer(t *testing.T) { bed.BothSuites(t, testExecServer) }

func testExecServer(t *testing.T, suite string) {
	oldest, err := filepath.EvalSymlinks(bed.Made(t, "CODEX_PROXY_TEST_CODEX_OLDEST"))
	require.NoError(t, err)
	m := bootRunnerOn(t, machine.Debian(suite), runnerDaemonFiles,
		machine.Bind{Source: filepath.Dir(filepath.Dir(bed.RequireCodex(t))), Target: bed.CodexDir, ReadOnly: true},
		machine.Bind{Source: filepath.Dir(filepath.Dir(oldest)), Target: "/opt/oldest", ReadOnly: true})
	b := startDaemon(t, m)
	l, err := b.Listen("tcp", bed.ModelAddr)
	require.NoError(t, err)
	models := modelserver.StartOn(t, l, bed.Model)
	for _, user := range []string{"alice", "bob"} {
		b.MustRun(t, "useradd", "--create-home", "--groups=codex-runner", user)
	}
	as := func(user, script string) string {
		return strings.TrimSpace(b.MustRun(t, "runuser", "-u", user, "--", "env", "HOME=/home/"+user, "bash", "-euc", "cd; "+script))
	}
	as("alice", `umask 077; mkdir .codex; head -c 32 /dev/urandom | base64 -w0 | tr -d /+= >token
		printf 'default = "hands"\ninclude_local = false\n[[environments]]\nid = "hands"\nurl = "ws://127.0.0.1:28900"\nauth_bearer_token = "%s"\n' \
			"$(cat token)" >.codex/environments.toml`)
	require.NoError(t, b.WriteFile("/home/alice/.codex/config.toml", []byte(brainConfig), 0o644))
	const run = "codex-runner run --keep --detach --exec-server --token-file token --memory 1G"

	id := as("alice", run+" -- /opt/codex/bin/codex")
	b.until(id, 1, wire.CommandRunning)
	forward := func() {
		b.MustRun(t, "systemd-run", "--uid=alice", "--unit=forward", "--collect", "codex-runner", "port-forward", id, "28900:18900")
		b.MustRun(t, "sh", "-c", "until curl -sfo /dev/null http://127.0.0.1:28900/readyz; do sleep 0.02; done")
	}
	forward()
	const ask = "curl -so /dev/null -w '%{http_code} ' "
	const upgrade = ` -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' http://127.0.0.1:28900/`
	assert.Equal(t, "200 401 401", as("bob", ask+"http://127.0.0.1:28900/readyz; "+ask+upgrade+"; "+ask+" -H 'Authorization: Bearer 0123456789'"+upgrade))
	_, stderr, err := b.Run(t.Context(), "runuser", "-u", "bob", "--", "codex-runner", "port-forward", id, "28901:18900")
	require.Error(t, err)
	assert.Contains(t, stderr, "no such session of yours")

	turn := func(script string) string {
		text, err := json.Marshal(map[string]any{"cmd": script, "login": false, "yield_time_ms": 20000})
		require.NoError(t, err)
		require.NoError(t, models.Script("call exec_command "+string(text)))
		require.NoError(t, models.Script("text done"))
		return as("alice", "timeout 120 /opt/codex/bin/codex exec --skip-git-repo-check --sandbox danger-full-access -C /workspace go 2>&1 </dev/null")
	}
	out := turn("echo user $(id -un); pwd; ls /home; grep -rs \"$(printf %s%s auth_ bearer)\" / --include=environments.toml; cat /proc/*/cmdline | tr '\\0' ' '; echo; echo kept >file; exec 3<>/dev/tcp/" + strings.Replace(bed.ModelAddr, ":", "/", 1) + " || echo alone")
	assert.Contains(t, out, "user cs-"+id)
	assert.Contains(t, out, "alone", "the session has no network")
	assert.NotContains(t, out, as("alice", "cat token"), "the session has no token")
	assert.Contains(t, out, "--ws-token-sha256", "the search is right")

	as("alice", "codex-runner cancel --command 1 "+id)
	assert.Equal(t, id, as("alice", "codex-runner run --detach --exec-server --token-file token --session "+id+" -- /opt/codex/bin/codex"))
	b.MustRun(t, "sh", "-c", "while systemctl is-active --quiet forward; do sleep 0.02; done") // it was of the first command
	forward()
	assert.Contains(t, turn("cat file"), "kept")
	as("alice", "codex-runner cancel "+id)

	old := as("alice", run+" -- /opt/oldest/bin/codex")
	output, ended := b.follow(old, 1)
	assert.Equal(t, 69, ended.Outcome.ExitStatus)
	assert.Regexp(t, `codex 0\.140\.\d+ has no exec-server that takes a token: install codex 0\.160 or later`, string(output))
}
