package bed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// ClientsDir is the machine's directory of the npm clients and their cases.
const ClientsDir = "/opt/clients"

// NodeClients are the binds of the npm clients and their cases, and node as the machine sees it.
func NodeClients(t *testing.T) (binds []machine.Bind, node string) {
	t.Helper()
	installed := os.Getenv("CODEX_PROXY_TEST_CLIENTS")
	if installed == "" {
		if os.Getenv(machine.RequireEnv) == "1" {
			t.Fatal("CODEX_PROXY_TEST_CLIENTS is not set; `make test` sets it")
		}
		t.Skip("CODEX_PROXY_TEST_CLIENTS is not set; `make test` sets it")
	}
	cases, err := filepath.Abs("../../clients/cases")
	require.NoError(t, err)
	program, err := os.Readlink(filepath.Join(installed, "node"))
	require.NoError(t, err)
	return []machine.Bind{
		{Source: filepath.Join(installed, "node_modules"), Target: ClientsDir + "/node_modules", ReadOnly: true},
		{Source: cases, Target: ClientsDir + "/cases", ReadOnly: true},
	}, ClientsDir + "/" + program
}

// BuildClients builds the tests of a module of clients; go's cache keeps their packages.
func BuildClients(t *testing.T, module string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "clients")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-mod=readonly", "-o="+program)
	build.Dir = module
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// AnthropicVersion is the version of Anthropic's API, which its clients name.
const AnthropicVersion = "2023-06-01"

// CliConfig makes the codex CLI a client of the proxy.
const CliConfig = `model = "%s"
model_provider = "proxy"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[tui]
show_tooltips = false
[model_providers.proxy]
name = "proxy"
base_url = "` + Base + `/v1"
wire_api = "responses"
supports_websockets = %t
request_max_retries = 0
stream_max_retries = 0
`
