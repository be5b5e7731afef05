package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/broker/upstream"
	"codex-proxy/codex/appserver"
	"codex-proxy/codex/copies"
	"codex-proxy/dependencies/dependenciescheck"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/control"
	"codex-proxy/workers/workerscheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	defaultUnit = "codex-worker@default.service"
	defaultUID  = 61200 // of the running worker
)

type (
	Level   = checkup.Level
	Finding = checkup.Finding
	Report  = checkup.Report
)

const (
	OK   = checkup.OK
	Warn = checkup.Warn
	Fail = checkup.Fail

	proxyUser   = paths.User
	workerUser  = paths.WorkerUser
	targetUnit  = paths.TargetUnit
	fetchSocket = paths.FetchSocketUnit
	socketUnit  = paths.SocketUnit
	proxyUnit   = paths.ServiceUnit
	program     = paths.Program
	configFile  = paths.Config
	settingsDir = paths.Settings
	keyFile     = paths.KeyFile
	runDir      = paths.WorkerSockets
	stateDir    = paths.StateDir
	generated   = survey.Generated
)

func ok(subject, detail string) Finding           { return checkup.Passed(subject, detail) }
func warn(subject, detail, remedy string) Finding { return checkup.Warning(subject, detail, remedy) }
func fail(subject, detail, remedy string) Finding { return checkup.Failure(subject, detail, remedy) }

func workerFile(name string) string     { return paths.WorkerSettings + "/" + name + ".toml" }
func home(name string) string           { return paths.WorkerHomes + "/" + name }
func dependencyFile(name string) string { return dependenciescheck.File(name) }

// bed is a machine without faults, until a test adds one.
type bed struct {
	t    *testing.T
	host Host

	version  string
	busErr   error
	units    map[string]*units.Description
	accounts map[string]reach.Account
	may      map[string]bool // by "user verb unit"
	mayErr   error

	inForce   control.Keys // of the daemon; empty: those of the file
	report    probes.Report
	reportErr error
	gets      map[string]get // by URL

	codex    fakeCodex
	codexErr error
	inside   appserver.CommandResult // of a command in the worker
	askErr   error                   // the worker's codex cannot be asked
	copies   copies.Report
	clock    survey.Clock
	clockErr error
	known    []accounts.Account
	knownErr error
	free     uint64
	probeErr error
	faults   []string // of each remote and dependency

	reason    upstream.Reason // of the broker
	reasonErr error
	here      remotes.Status
}

type get struct {
	status int
	body   any
	err    error
}

// newBed needs root: it gives files to users.
func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	root, err := os.MkdirTemp("", "doctor") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	b := &bed{t: t, version: "257.13-1~deb13u1", codex: fakeCodex{version: "0.169.0"}, free: 1 << 30}
	b.accounts = map[string]reach.Account{
		"root": {Groups: []uint32{0}}, proxyUser: {UID: 995, GID: 993, Groups: []uint32{993}},
		workerUser: {UID: 994, GID: 992, Groups: []uint32{992}},
	}
	b.may = map[string]bool{"995 reset-failed " + defaultUnit: true, "995 reset-failed " + proxyUnit: true,
		"995 reset-failed codex-dependency@x.service": true, "995 reset-failed codex-remote@x.service": true}
	b.clock = survey.Clock{Now: time.Now(), Synced: true}
	b.known = []accounts.Account{{Worker: "default", State: accounts.Available, Left: 0.58,
		Limits: []accounts.Limit{{}}, At: b.clock.Now}}
	b.host = Host{
		Machine: survey.Machine{Root: root, IsRoot: true, Systemd: b, Account: b.account,
			Clock: func() (survey.Clock, error) { return b.clock, b.clockErr }},
		Workers: workerscheck.Host{Codex: b.findCodex, Command: b.command, Copies: func() copies.Report { return b.copies },
			Accounts: func(context.Context, string) ([]accounts.Account, error) { return b.known, b.knownErr }},
		Dependencies: dependenciescheck.Host{
			Probe:  func(_ context.Context, p dependencyconfig.Probe) (string, error) { return p.Check, b.probeErr },
			Faults: func(*dependencyconfig.Settings) []string { return b.faults }},
		RemoteFaults: func(*remoteconfig.Settings) []string { return b.faults },
		Here:         func(context.Context, string) (remotes.Status, error) { return b.here, nil },
		Control:      runDir + "/control/socket", Status: b.status, Keys: b.keys, Get: b.get,
		Free: func(string) (uint64, error) { return b.free, nil },
	}
	b.install()
	b.start()
	return b
}

func (b *bed) status(context.Context, string) (probes.Report, error) { return b.report, b.reportErr }

// keys are the keys of the file, unless a test sets inForce.
func (b *bed) keys(context.Context, string) (control.Keys, error) {
	if b.inForce.Digest != "" {
		return b.inForce, nil
	}
	text, err := os.ReadFile(b.host.Path(keyFile))
	if err != nil {
		return control.Keys{}, err
	}
	keys, err := auth.Parse(bytes.NewReader(text))
	return control.Keys{Digest: keys.Digest(), File: keyFile}, err
}

// install lays out the files of the package, of systemd and of the kernel.
func (b *bed) install() {
	for _, dir := range []string{
		"/proc/80/fd", "/proc/81", "/proc/99/fd", "/proc/net", "/usr/bin", "/sys/fs/cgroup",
		settingsDir + "/workers", runDir + "/control", stateDir, home("default"),
	} {
		require.NoError(b.t, os.MkdirAll(b.path(dir), 0o755))
	}
	b.write(program, "program")
	b.chmod(program, 0o755)
	b.write(configFile, "queue_limit = 64\n")
	b.chown(configFile, "root", proxyUser)
	b.chmod(configFile, 0o640)
	b.write(workerFile("default"), "mode = \"native\"\n")
	b.write(keyFile, "")
	b.chmod(keyFile, 0o600)
	b.chmod(home("default"), 0o700)
	b.give(home("default"), defaultUID)
	b.logIn("default", `{"OPENAI_API_KEY":"sk-x"}`)
	b.chmod(stateDir, 0o700)
	b.chown(stateDir, proxyUser, proxyUser)
	b.chmod(runDir+"/control", 0o700)
	b.chown(runDir+"/control", proxyUser, proxyUser)
	b.listen(runDir+"/control/socket", 0o600, proxyUser, proxyUser)
	b.listen(runDir+"/default.sock", 0o660, "root", proxyUser)
	b.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
	b.write("/proc/stat", fmt.Sprintf("cpu 1 2 3\nbtime %d\n", time.Now().Unix()))
	for pid, name := range map[int]string{80: "codex-proxy", 81: "a) b c"} {
		const stat = "%d (%s) S 1 80 80 0 -1 4194560 1 0 0 0 3 1 0 0 20 0 7 0 %d 1 1\n"
		b.write(fmt.Sprintf("/proc/%d/stat", pid), fmt.Sprintf(stat, pid, name, 10*100))
	}
	require.NoError(b.t, os.Symlink("/usr/bin/codex-proxy", b.path("/proc/80/exe")))
}

// start sets the answers of systemd, the daemon and the endpoint when all units run.
func (b *bed) start() {
	unit := func(name string) *units.Description {
		running := units.State{Unit: name, LoadState: "loaded", ActiveState: "active", SubState: "running", MainPID: 81}
		return &units.Description{State: running, WantedBy: []string{targetUnit}}
	}
	b.units = map[string]*units.Description{
		targetUnit: unit(targetUnit), socketUnit: unit(socketUnit), proxyUnit: unit(proxyUnit),
		fetchSocket:            unit(fetchSocket),
		paths.CopiesSocketUnit: unit(paths.CopiesSocketUnit),
		paths.ConsoleUnit: {State: units.State{Unit: paths.ConsoleUnit, LoadState: "loaded", ActiveState: "inactive"},
			FileState: "disabled"},
		defaultUnit: unit(defaultUnit), units.WorkerSocket("default"): unit(units.WorkerSocket("default")),
	}
	b.units[targetUnit].FileState = "enabled"
	b.units[socketUnit].Listen = []string{"127.0.0.1:8787"}
	b.units[units.WorkerSocket("default")].Listen = []string{runDir + "/default.sock"}
	proxy, worker := b.units[proxyUnit], b.units[defaultUnit]
	proxy.MainPID, proxy.User, proxy.Watchdog, proxy.WatchdogAge = 80, proxyUser, 30*time.Second, 5*time.Second
	worker.User, worker.Watchdog, worker.WatchdogAge = "cw-default", 10*time.Second, time.Second
	worker.UID = defaultUID
	b.report = probes.Report{
		OK: true,
		Health: probes.Health{
			Readiness: probes.Readiness{Ready: true, Reason: probes.Ready},
			Liveness:  probes.Liveness{Live: true, Reason: probes.Ready},
		},
		Workers: []probes.Worker{{
			Name: "default", Unit: defaultUnit, ActiveState: "active", SubState: "running",
			Ready: true, Reason: probes.Ready, Handshake: &probes.Handshake{Models: []string{"gpt-a"}},
		}},
		Queue: probes.Queue{Limit: 64},
	}
	b.gets = map[string]get{
		"http://127.0.0.1:8787/livez":     {status: 200, body: &b.report},
		"http://127.0.0.1:8787/v1/models": {status: 200},
	}
}

func (b *bed) path(path string) string { return b.host.Path(path) }

func (b *bed) write(path, text string) {
	require.NoError(b.t, os.WriteFile(b.path(path), []byte(text), 0o644))
}

func (b *bed) chmod(path string, mode os.FileMode) {
	require.NoError(b.t, os.Chmod(b.path(path), mode))
}

func (b *bed) chown(path, user, group string) {
	require.NoError(b.t, os.Chown(b.path(path), int(b.accounts[user].UID), int(b.accounts[group].GID)))
}

func (b *bed) give(path string, uid int) {
	require.NoError(b.t, os.Chown(b.path(path), uid, uid))
}

// logIn gives a login to a worker of the user defaultUID.
func (b *bed) logIn(worker, doc string) {
	require.NoError(b.t, os.MkdirAll(b.path(home(worker)), 0o700))
	b.write(home(worker)+"/auth.json", doc)
	b.chmod(home(worker)+"/auth.json", 0o600)
	b.give(home(worker)+"/auth.json", defaultUID)
}

// twoLogins adds the worker second, and logs both in.
func (b *bed) twoLogins(first, second string) {
	b.write(configFile, "workers = [\"default\", \"second\"]\n")
	b.write(workerFile("second"), "mode = \"native\"\n")
	b.logIn("default", first)
	b.logIn("second", second)
}

// nameKeys sets api_keys to a file of root's. The file exists at its own path, for the
// configuration, and below the root of the machine, for the checks.
func (b *bed) nameKeys(group string, dirMode, mode os.FileMode) {
	dir := b.path("/named")
	b.write(configFile, fmt.Sprintf("api_keys = %q\n", dir+"/keys"))
	require.NoError(b.t, os.MkdirAll(b.path(dir), 0o755))
	require.NoError(b.t, os.Mkdir(dir, 0o755))
	for _, path := range []string{"/named/keys", dir + "/keys"} {
		b.write(path, "")
		b.chmod(path, mode)
		b.chown(path, "root", group)
	}
	b.chmod(dir, dirMode)
}

// grow makes a file of that size, in bytes, in the home of the worker default. It takes no room.
func (b *bed) grow(name string, size int64) {
	path := b.path(home("default") + "/" + name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(b.t, os.WriteFile(path, nil, 0o600))
	require.NoError(b.t, os.Truncate(path, size))
}

func (b *bed) remove(path string) { require.NoError(b.t, os.RemoveAll(b.path(path))) }

// touch sets the time of a file's last change to the future.
func (b *bed) touch(path string) {
	later := time.Now().Add(time.Minute)
	require.NoError(b.t, os.Chtimes(b.path(path), later, later))
}

// serverUID is the number of the user of a dependency that runs.
const serverUID = 61300

// depend adds a dependency that runs and answers, with its file, program and state, required by the worker default.
func (b *bed) depend(name, more string) {
	for _, dir := range []string{paths.DependencySettings, generated, dependencyconfig.StateDir(name)} {
		require.NoError(b.t, os.MkdirAll(b.path(dir), 0o755))
	}
	b.write("/usr/bin/server", "")
	b.chmod("/usr/bin/server", 0o755)
	b.write(dependencyFile(name), "command = [\"/usr/bin/server\"]\n"+more+"[probe]\ncheck = \"tcp:127.0.0.1:9\"\n")
	b.chmod(dependencyconfig.StateDir(name), 0o700)
	b.give(dependencyconfig.StateDir(name), serverUID)
	b.reload()
	running := units.State{Unit: units.Dependency(name), LoadState: "loaded", ActiveState: "active",
		SubState: "running", MainPID: 81}
	b.units[running.Unit] = &units.Description{State: running, FileState: "enabled", UID: serverUID,
		Watchdog: 15 * time.Second, WatchdogAge: time.Second}
}

// reload is a daemon-reload: the generators run.
func (b *bed) reload() {
	_ = remoteconfig.Generate(b.path(paths.RemoteSettings), b.path(generated))
	_ = dependencyconfig.Generate(b.path(paths.DependencySettings), b.path(generated)) // bad files have no drop-in
}

// requires makes the worker default require a dependency.
func (b *bed) requires(name string) {
	b.write(workerFile("default"), fmt.Sprintf("mode = \"native\"\nrequires = [%q]\n", name))
}

func (b *bed) listen(path string, mode os.FileMode, user, group string) {
	l, err := net.Listen("unix", b.path(path))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	b.chmod(path, mode)
	b.chown(path, user, group)
}

func (b *bed) account(name string) (reach.Account, error) {
	a, known := b.accounts[name]
	if !known {
		return a, errors.New("unknown user " + name)
	}
	return a, nil
}

func (b *bed) Version(context.Context) (string, error) { return b.version, b.busErr }

func (b *bed) Describe(_ context.Context, unit string) (units.Description, error) {
	d, known := b.units[unit]
	if !known {
		return units.Description{}, errors.New("cannot ask systemd about " + unit)
	}
	return *d, nil
}

func (b *bed) MayManage(_ context.Context, uid uint32, unit, verb string) (bool, error) {
	return b.may[fmt.Sprintf("%d %s %s", uid, verb, unit)], b.mayErr
}

func (b *bed) get(_ context.Context, url string) (int, []byte, error) {
	g, known := b.gets[url]
	if !known {
		return http.StatusNotFound, nil, nil
	}
	body, err := json.Marshal(g.body)
	require.NoError(b.t, err)
	return g.status, body, g.err
}

func (b *bed) findCodex(_ string, _ *codexhome.Worker, _ []string, as reach.Account) (workerscheck.Codex, error) {
	if as.UID != b.accounts[workerUser].UID {
		return nil, fmt.Errorf("codex is to run as %d", as.UID)
	}
	return b.codex, b.codexErr
}

func (b *bed) command(_ context.Context, socket string, command []string) (appserver.CommandResult, error) {
	want := codexhome.SandboxTest(home("default"))
	if !strings.HasSuffix(socket, "/default.sock") || !slices.Equal(want, command) {
		return appserver.CommandResult{}, fmt.Errorf("%v is run by way of %s", command, socket)
	}
	return b.inside, b.askErr
}

type fakeCodex struct {
	version                string
	versionErr, sandboxErr error
}

func (fakeCodex) Path() string                              { return "/opt/codex" }
func (c fakeCodex) Version(context.Context) (string, error) { return c.version, c.versionErr }
func (c fakeCodex) Sandbox(context.Context) error           { return c.sandboxErr }

// failed sets the state of a unit that systemd has given up on.
func failed(d *units.Description, text string) {
	d.ActiveState, d.SubState, d.Result, d.StatusText = "failed", "failed", "exit-code", text
	d.ExecMainCode, d.ExecMainStatus = 1, 78
}
