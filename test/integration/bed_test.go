package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

const (
	base       = "http://127.0.0.1:8787"
	modelAddr  = "127.0.0.1:18080"
	model      = "gpt-test"
	proxyUnit  = "codex-proxy.service"
	workerUnit = "codex-worker@default.service"
	workerFile = "/etc/codex-proxy/workers/default.toml"
	keyFile    = "/etc/codex-proxy/api-keys"
	codexDir   = "/opt/codex"

	// bound is the longest that any wait of these tests may take, on a machine that is busy with other tests as well.
	bound = 3 * time.Minute
)

// realWorker is a worker file for the real codex and the scripted endpoint.
const realWorker = `mode = "plain"
codex_path = "` + codexDir + `/bin/codex"
model = "` + model + `"
[provider]
name = "scripted"
base_url = "http://` + modelAddr + `/v1"
`

// patient has requests wait for a worker for as long as its restart takes on a busy
// machine.
const patient = "ready_timeout = \"1m\"\n"

// bed is a machine with the package installed and a model endpoint inside its
// network. Nothing of ours runs yet.
type bed struct {
	*machine.Machine
	t        *testing.T
	root     machine.Root
	options  machine.Options
	http     *http.Client
	models   *modelserver.Server
	endpoint *endpoint // of models, or of the accounts' server
	workers  []string  // their names
	front    *front    // the reverse proxy for load and hold, if any
	key      string    // the API key of load and hold, if any
}

// newBed boots a Debian of that suite on which the package is installed. It writes the
// settings after the installation, as an operator does, and removes the API key of
// the installation, because most tests use none.
func newBed(t *testing.T, suite, worker, config string, binds ...machine.Bind) *bed {
	t.Helper()
	return newBedOn(t, machine.Debian(suite), worker, config, binds...)
}

// newBedOn is newBed with another Debian.
func newBedOn(t *testing.T, root machine.Root, worker, config string, binds ...machine.Bind) *bed {
	t.Helper()
	b := bootBed(t, machine.Installed(root, os.Getenv("CODEX_PROXY_TEST_DEB")), binds...)
	b.configure(worker, config)
	return b
}

// install is for a bed without the package whose test is about the installation, or on whose Debian no other test runs.
func (b *bed) install(worker, config string) {
	b.t.Helper()
	out, err := b.InstallDeb(b.t.Context(), os.Getenv("CODEX_PROXY_TEST_DEB"))
	require.NoError(b.t, err, out)
	b.configure(worker, config)
}

func (b *bed) configure(worker, config string) {
	b.t.Helper()
	require.NoError(b.t, b.WriteFile(keyFile, nil, 0o600))
	require.NoError(b.t, b.WriteFile(workerFile, []byte(worker), 0o644))
	if config != "" {
		require.NoError(b.t, b.WriteFile(configFile, []byte(config), 0o644))
	}
}

// emptyBed is a bed without the package.
func emptyBed(t *testing.T, suite string, binds ...machine.Bind) *bed {
	t.Helper()
	return bootBed(t, machine.Debian(suite), binds...)
}

// neighbours is a Debian with the programs that operators run beside us, make and tmux.
// All tests that need any of them share it, as making it takes a minute.
func neighbours() machine.Root {
	return machine.Debian("trixie", "prometheus", "prometheus-node-exporter", "haproxy", "nginx-light", "caddy", "make",
		"tmux")
}

// requireCodex returns the path of the real codex. It skips t without codex or without
// our package.
func requireCodex(t *testing.T) string {
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

func bootBed(t *testing.T, root machine.Root, binds ...machine.Bind) *bed {
	t.Helper()
	return bootBedWith(t, root, machine.Options{Binds: binds})
}

// bootBedWith is bootBed with further options.
func bootBedWith(t *testing.T, root machine.Root, o machine.Options) *bed {
	t.Helper()
	o.Binds = append(o.Binds, machine.Bind{Source: filepath.Dir(filepath.Dir(requireCodex(t))), Target: codexDir,
		ReadOnly: true})
	o.Units = []string{"codex*"}
	b := &bed{t: t, root: root, options: o, workers: []string{"default"}}
	b.boot()
	l, err := newEndpoint(func() (net.Listener, error) { return b.Listen("tcp", modelAddr) })
	require.NoError(t, err)
	b.endpoint, b.models = l, modelserver.StartOn(t, l, model)
	return b
}

func (b *bed) boot() {
	b.t.Helper()
	b.Machine = machine.Boot(b.t, b.root, b.options)
	b.http = b.HTTPClient()
}

// reboot boots a machine with a disk again: after a shutdown, or as after a power cut.
func (b *bed) reboot(shutdown bool) {
	b.t.Helper()
	if shutdown {
		_, _, _ = b.Run(b.t.Context(), "systemctl", "--no-block", "poweroff") // which may end it
		select {
		case <-b.Done():
		case <-time.After(bound):
			require.Fail(b.t, "the machine does not shut down")
		}
	}
	require.NoError(b.t, b.Close())
	b.endpoint.down()
	b.boot()
	require.NoError(b.t, b.endpoint.up())
}

// start runs `systemctl start codex.target`, after which the service must be ready.
func (b *bed) start() {
	b.t.Helper()
	b.MustRun(b.t, "systemctl", "start", "codex.target")
	status, report := b.readyz()
	require.Equal(b.t, http.StatusOK, status, "%+v", report)
}

// startShort is start with a start_timeout that a worker's start may exceed.
func (b *bed) startShort() {
	b.t.Helper()
	b.MustRun(b.t, "systemctl", "start", "codex.target")
	b.until("ready", ready)
}

// get is a GET of the proxy.
func (b *bed) get(path string) (int, []byte) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	require.NoError(b.t, err)
	res, err := b.http.Do(req)
	require.NoError(b.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return res.StatusCode, body
}

func (b *bed) readyz() (int, probes.Report) {
	b.t.Helper()
	status, body := b.get("/readyz")
	var report probes.Report
	require.NoError(b.t, json.Unmarshal(body, &report), string(body))
	return status, report
}

// until asks /readyz until the answer satisfies ok, and returns it with the
// time at which it came.
func (b *bed) until(what string, ok func(status int, r probes.Report) bool) (probes.Report, time.Time) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); ; pause(b.t.Context(), 2*time.Millisecond) {
		status, report := b.readyz()
		if ok(status, report) {
			return report, time.Now()
		}
		require.True(b.t, time.Now().Before(deadline), "never %s: %+v", what, report)
	}
}

func ready(status int, _ probes.Report) bool { return status == http.StatusOK }

// unreadySince is for until: the first worker was not ready at some time since then. It
// may be ready again, before until has asked.
func unreadySince(then time.Time) func(status int, r probes.Report) bool {
	return func(_ int, r probes.Report) bool {
		return slices.ContainsFunc(r.Workers[0].Transitions, func(tr probes.Transition) bool {
			return tr.At.After(then) && tr.Reason != probes.Ready
		})
	}
}

// killCodex kills codex, and returns the time of it when the proxy has noticed it.
func (b *bed) killCodex() time.Time {
	b.t.Helper()
	codex, then := b.codex(), time.Now()
	killed := b.signal(codex, unix.SIGKILL)
	b.until("not ready", unreadySince(then))
	return killed
}

// chat posts a raw chat completion and returns status, header and body.
func (b *bed) chat(stream bool, prompt string) (int, http.Header, string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := b.http.Do(req)
	require.NoError(b.t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return res.StatusCode, res.Header, string(answer)
}

// client is the official SDK, pointed at the proxy.
func (b *bed) client() openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("none"),
		option.WithHTTPClient(b.http), option.WithMaxRetries(0))
}

// isCodex distinguishes codex from the process that supervises it.
func isCodex(p machine.Process) bool {
	return strings.Contains(p.Command, "app-server") && !strings.Contains(p.Command, "notify-exec")
}

// codex is the host's PID of the codex process of the worker.
func (b *bed) codex() machine.Process {
	b.t.Helper()
	processes, err := b.Processes(workerUnit)
	require.NoError(b.t, err)
	for _, p := range processes {
		if isCodex(p) {
			return p
		}
	}
	require.Fail(b.t, "no codex process", "%+v", processes)
	return machine.Process{}
}

func (b *bed) signal(p machine.Process, s unix.Signal) time.Time {
	b.t.Helper()
	require.NoError(b.t, unix.Kill(p.Host, s))
	return time.Now()
}

func (b *bed) show(unit string, properties ...string) map[string]string {
	b.t.Helper()
	values, err := b.Show(b.t.Context(), unit, properties...)
	require.NoError(b.t, err)
	return values
}

func (b *bed) journal(unit string) string {
	b.t.Helper()
	out, err := b.Journal(b.t.Context(), "--unit="+unit, "--output=cat")
	require.NoError(b.t, err)
	return out
}

// export is the whole journal.
func (b *bed) export() string {
	b.t.Helper()
	out, err := b.Journal(b.t.Context(), "--output=export")
	require.NoError(b.t, err)
	return out
}
