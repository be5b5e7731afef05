// Package bed has what the tests of booted machines share: machines with codex-proxy, codex and a model endpoint, each
// file for one noun.
package bed

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

const (
	// Base is the address of the API.
	Base = "http://127.0.0.1:8787"
	// ModelAddr is the address of the model endpoint.
	ModelAddr = "127.0.0.1:18080"
	// Model is the model of the scripts.
	Model = "gpt-test"
	// ProxyUnit is the unit of the service.
	ProxyUnit = "codex-proxy.service"
	// WorkerUnit is the unit of the first worker.
	WorkerUnit = "codex-worker@default.service"
	// WorkerFile has the settings of the first worker.
	WorkerFile = "/etc/codex-proxy/workers/default.toml"
	// KeyFile has the API keys.
	KeyFile = "/etc/codex-proxy/api-keys"
	// CodexDir is codex's directory in the machine.
	CodexDir = "/opt/codex"

	// Bound is the longest that any wait of these tests may take, on a machine that is busy with other tests as well.
	Bound = 3 * time.Minute
)

// Bed is a machine with the package installed and a model endpoint inside its
// network. Nothing of ours runs yet.
type Bed struct {
	*machine.Machine
	T        *testing.T
	root     machine.Root
	options  machine.Options
	HTTP     *http.Client
	Models   *modelserver.Server
	Endpoint *Endpoint // of models, or of the accounts' server
	Workers  []string  // their names
	Front    *Front    // the reverse proxy for load and hold, if any
	Key      string    // the API key of load and hold, if any
}

// New boots a Debian of that suite on which the package is installed. It writes the
// settings after the installation, as an operator does, and removes the API key of
// the installation, because most tests use none.
func New(t *testing.T, suite, worker, config string, binds ...machine.Bind) *Bed {
	t.Helper()
	return NewOn(t, machine.Debian(suite), worker, config, binds...)
}

// NewOn is New with another Debian.
func NewOn(t *testing.T, root machine.Root, worker, config string, binds ...machine.Bind) *Bed {
	t.Helper()
	b := Boot(t, machine.Installed(root, os.Getenv("CODEX_PROXY_TEST_DEB")), binds...)
	b.configure(worker, config)
	return b
}

// Install is for a bed without the package whose test is about the installation, or on whose Debian no other test runs.
func (b *Bed) Install(worker, config string) {
	b.T.Helper()
	out, err := b.InstallDeb(b.T.Context(), os.Getenv("CODEX_PROXY_TEST_DEB"))
	require.NoError(b.T, err, out)
	b.configure(worker, config)
}

// Empty is a bed without the package.
func Empty(t *testing.T, suite string, binds ...machine.Bind) *Bed {
	t.Helper()
	return Boot(t, machine.Debian(suite), binds...)
}

// Neighbours is a Debian with the programs that operators run beside us, make and tmux.
// All tests that need any of them share it, as making it takes a minute.
func Neighbours() machine.Root {
	return machine.Debian("trixie", "prometheus", "prometheus-node-exporter", "haproxy", "nginx-light", "caddy", "make",
		"tmux")
}

// RequireCodex returns the path of the real codex. It skips t without codex or without
// our package.
func RequireCodex(t *testing.T) string {
	t.Helper()
	codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if codex == "" || os.Getenv("CODEX_PROXY_TEST_DEB") == "" {
		if os.Getenv(machine.RequireEnv) == "1" {
			t.Fatal("CODEX_PROXY_TEST_CODEX and CODEX_PROXY_TEST_DEB are not set; `make test` sets them")
		}
		t.Skip("CODEX_PROXY_TEST_CODEX and CODEX_PROXY_TEST_DEB are not set; `make test` sets them")
	}
	native, err := filepath.EvalSymlinks(codex)
	require.NoError(t, err)
	return native
}

// Made returns what `make test` has made and named in an environment variable.
func Made(t *testing.T, variable string) string {
	t.Helper()
	file := os.Getenv(variable)
	require.NotEmpty(t, file, "%s is not set; `make test` sets it", variable)
	return file
}

// Boot boots a machine, without anything installed in it.
func Boot(t *testing.T, root machine.Root, binds ...machine.Bind) *Bed {
	t.Helper()
	return BootWith(t, root, machine.Options{Binds: binds})
}

// BootWith is Boot with further options.
func BootWith(t *testing.T, root machine.Root, o machine.Options) *Bed {
	t.Helper()
	o.Binds = append(o.Binds, machine.Bind{Source: filepath.Dir(filepath.Dir(RequireCodex(t))), Target: CodexDir,
		ReadOnly: true})
	o.Units = []string{"codex*"}
	b := &Bed{T: t, root: root, options: o, Workers: []string{"default"}}
	b.Boot()
	l, err := newEndpoint(func() (net.Listener, error) { return b.Listen("tcp", ModelAddr) })
	require.NoError(t, err)
	b.Endpoint, b.Models = l, modelserver.StartOn(t, l, Model)
	return b
}

// Boot boots the machine again, with its files.
func (b *Bed) Boot() {
	b.T.Helper()
	b.Machine = machine.Boot(b.T, b.root, b.options)
	b.HTTP = b.HTTPClient()
}

// Start runs `systemctl start codex.target`, after which the service must be ready.
func (b *Bed) Start() {
	b.T.Helper()
	b.MustRun(b.T, "systemctl", "start", "codex.target")
	status, report := b.Readyz()
	require.Equal(b.T, http.StatusOK, status, "%+v", report)
}
