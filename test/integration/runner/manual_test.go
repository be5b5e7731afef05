package runner

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
)

// manualBed is a machine with the package of codex-runner, and docs/runner.md.
type manualBed struct {
	*machine.Machine
	manual *manual.Manual
}

// TestRunnerManual does what docs/runner.md says on a machine with the package: the tour, the tools
// of agents, and what is answered to mistakes.
func TestRunnerManual(t *testing.T) { bed.EitherSuite(t, testRunnerManual) }

func testRunnerManual(t *testing.T, suite string) {
	native := bed.RequireCodex(t)
	b := &manualBed{manual: manual.Open(t, "docs/runner.md")}
	b.Machine = machine.Boot(t, machine.Debian(suite, "git", "python3", "python3-pip"), machine.Options{
		Binds: []machine.Bind{{Source: filepath.Dir(filepath.Dir(native)), Target: bed.CodexDir, ReadOnly: true}},
		Units: []string{"codex-*"},
	})
	out, err := b.InstallDeb(t.Context(), os.Getenv("CODEX_PROXY_TEST_RUNNER_DEB"))
	require.NoError(t, err, out)
	b.tour(t)
	b.handshake(t)
	b.agents(t)
	b.mistakes(t)
	b.sandbox(t)
}

// sandbox has the settings of programs, variables and toolchains, of which this machine lacks some.
func (b *manualBed) sandbox(t *testing.T) {
	const settings = "/etc/codex-runner/runner.toml"
	require.NoError(t, b.WriteFile(settings, []byte(b.manual.File(settings)), 0o644))
	b.MustRun(t, "systemctl", "restart", "codex-runner.service")
	_, stdout, stderr := b.alice(t, `codex-runner run -- sh -c 'echo $HTTPS_PROXY'; codex-runner status`)
	assert.Contains(t, stdout, "http://proxy:3128\n", stderr)
	assert.Contains(t, stdout, "not shown to commands: /opt/zig is not there")
}

// tour runs the commands of the document, the first ones as root, the others as alice in one shell, and the commands for
// operators.
func (b *manualBed) tour(t *testing.T) {
	commands := b.manual.Commands()
	b.MustRun(t, "sh", "-ec", commands[0])
	status, stdout, stderr := b.alice(t, "set -e; "+strings.Join(commands[1:], ""))
	require.Zero(t, status, "%s\n%s", stdout, stderr)
	for _, want := range []string{
		"hello\nexit status 3\nexit status 124\nexit status 127\n", "alice  closed  1         timed out  ", "\none\n2\n",
		"\nworking\ndone\n", "Directory listing for /", "\n41\n42\n", "\n+echo more\n", "\ncodex-runner: sh -c 'echo \"echo last\" >>answer.sh'\nChanges that were not committed\nThe answer\nnew\n", "\n42\nmore\nexit status 125\nexit status 125\n", "\n6\n***", "fine\n",
	} {
		assert.Contains(t, stdout, want)
	}
	for _, want := range []string{
		"on stderr\n", "The command ran longer than its time", "cannot find the program no-such-program", "no-such-branch",
	} {
		assert.Contains(t, stderr, want)
	}
	var operators strings.Builder
	for _, command := range manual.Open(t, "docs/runner-operations.md").Commands() {
		out, stderr, err := b.Run(t.Context(), "sh", "-ec", command)
		for deadline := time.Now().Add(bed.Bound); err != nil; { // the journal gets what a unit prints somewhat later
			require.True(t, time.Now().Before(deadline), "%s\n%s%s", command, out, stderr)
			out, stderr, err = b.Run(t.Context(), "sh", "-ec", command)
		}
		operators.WriteString(out)
	}
	assert.Contains(t, operators.String(), `codex_runner_commands_ended_total{outcome="timed_out"} 1`)
}

// handshake starts the server of tools as .mcp.json has it.
func (b *manualBed) handshake(t *testing.T) {
	var config struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	require.NoError(t, json.Unmarshal([]byte(b.manual.File(".mcp.json")), &config))
	server := config.Servers["runner"]
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}`
	start := server.Command + " " + strings.Join(server.Args, " ")
	status, stdout, stderr := b.alice(t, "coproc { "+start+"; } && echo '"+hello+"' >&${COPROC[1]} && head --lines=1 <&${COPROC[0]}")
	assert.Zero(t, status, stderr)
	assert.Contains(t, stdout, `"serverInfo":{"name":"codex-runner"`)
}

// alice runs a shell script as alice, and returns its exit status and what it wrote.
func (b *manualBed) alice(t *testing.T, script string) (status int, stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := b.Run(t.Context(), "runuser", "-u", "alice", "--", "env", "HOME=/home/alice", "bash", "-c", "cd; "+script)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), stdout, stderr
	}
	require.NoError(t, err)
	return 0, stdout, stderr
}
