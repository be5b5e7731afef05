package runnerdoctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/config"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
	"codex-proxy/units"
	"codex-proxy/units/survey"
)

// daemonUID is the user of the daemon: the one of this process, so that it can give files to it.
var daemonUID = uint32(os.Getuid())

// bed is a machine without faults, until a test adds one.
type bed struct {
	t    *testing.T
	host Host

	version           string
	busErr            error
	units             map[string]units.Description
	may               func(unit, verb string) bool
	mayErr            error
	status            wire.Status
	statusErr         error
	listed, effective bool
	git               error
	missing           map[string]error
	free              uint64
	uid               map[string]uint32
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{
		t: t, version: "257.9-1~deb13u1", units: map[string]units.Description{}, listed: true, effective: true, free: 100 << 30,
		status:  wire.Status{Version: "1.2.3", Ready: true, MaxSessions: 8, MaxQueued: 10},
		missing: map[string]error{"Python": nil, "Node": nil},
		uid:     map[string]uint32{"root": daemonUID, account: daemonUID},
		may: func(unit, verb string) bool {
			return strings.Contains(unit, "@") && (verb == "start" || verb == "set-property")
		},
	}
	b.host = Host{
		Machine: survey.Machine{Root: t.TempDir(), IsRoot: true, Systemd: b}, Version: "1.2.3", Config: config.Path, User: "alice",
		Status:  func(context.Context) (wire.Status, error) { return b.status, b.statusErr },
		Group:   func(string) (bool, bool, error) { return b.listed, b.effective, nil },
		Git:     func() error { return b.git },
		Missing: func(context.Context) map[string]error { return b.missing },
		Disk:    func(string) (uint64, uint64, error) { return 200 << 30, b.free, nil },
		UID: func(name string) (uint32, error) {
			uid, ok := b.uid[name]
			if !ok {
				return 0, errors.New("unknown user " + name)
			}
			return uid, nil
		},
	}
	for _, name := range append([]string{socketUnit, serviceUnit, sliceUnit}, templates()...) {
		b.units[name] = units.Description{
			State: units.State{Unit: name, LoadState: "loaded", ActiveState: "active"}, FileState: "enabled",
		}
	}
	b.file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n", 0o444)
	for _, key := range []string{"user/max_user_namespaces", "fs/inotify/max_user_instances", "fs/inotify/max_user_watches", "kernel/pid_max"} {
		b.file("/proc/sys/"+key, "65536\n", 0o644)
	}
	for _, node := range []string{"reg", "dir", "sock"} {
		b.file("/run/systemd/inaccessible/"+node, "", 0)
	}
	b.file(config.Path, "max_sessions = 8\n", 0o644)
	b.file(paths.Socket, "", 0o660)
	b.chmod(paths.StateDir, 0o700)
	b.chmod(paths.RuntimeDir, 0o755)
	b.chmod(paths.EnvironmentStates, 0o700)
	b.chmod(paths.PrivateStates, 0o700)
	st, err := store.Open(t.Context(), b.path(paths.StateDir, store.FileName))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	return b
}

func (b *bed) path(elem ...string) string {
	return filepath.Join(append([]string{b.host.Root}, elem...)...)
}

func (b *bed) file(path, text string, mode os.FileMode) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(filepath.Dir(b.path(path)), 0o755))
	_ = os.Remove(b.path(path)) // only root can write to a file of mode 0444
	require.NoError(b.t, os.WriteFile(b.path(path), []byte(text), 0o600))
	require.NoError(b.t, os.Chmod(b.path(path), mode))
}

// chmod makes a directory.
func (b *bed) chmod(dir string, mode os.FileMode) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(b.path(dir), 0o755))
	require.NoError(b.t, os.Chmod(b.path(dir), mode))
}

func (b *bed) Version(context.Context) (string, error) { return b.version, b.busErr }

func (b *bed) Describe(_ context.Context, unit string) (units.Description, error) {
	return b.units[unit], nil
}

func (b *bed) MayManage(_ context.Context, uid uint32, unit, verb string) (bool, error) {
	assert.Equal(b.t, daemonUID, uid)
	return b.may(unit, verb), b.mayErr
}

// change changes the description of a unit.
func (b *bed) change(unit string, f func(*units.Description)) {
	d := b.units[unit]
	f(&d)
	b.units[unit] = d
}

func TestNoFaults(t *testing.T) {
	r := Examine(t.Context(), newBed(t).host)
	var page strings.Builder
	require.NoError(t, r.Write(&page))
	assert.True(t, r.OK)
	assert.Contains(t, page.String(), "13 ok, 0 warn, 0 fail")
	assert.Contains(t, page.String(), "is ready; 0 of 8 commands run, 0 wait")
}

// A member of the group without privileges has no failure, either.
func TestWithoutRoot(t *testing.T) {
	b := newBed(t)
	b.host.IsRoot = false
	r := Examine(t.Context(), b.host)
	assert.True(t, r.OK)
	for _, f := range r.Findings {
		if f.Level != checkup.OK {
			assert.Equal(t, asRoot, f.Remedy, "%+v", f)
		}
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		broken                func(*bed)
		check, detail, remedy string
	}{
		"no bus":  {func(b *bed) { b.busErr = errors.New("there is no bus") }, "fail systemd", "there is no bus", "apt install dbus"},
		"old":     {func(b *bed) { b.version = "247" }, "fail systemd", "version 247 is too old", "252"},
		"strange": {func(b *bed) { b.version = "x" }, "warn systemd", `"x" cannot be read`, "252"},
		"not installed": {func(b *bed) {
			b.change(paths.OnlineUnit(anyID), func(d *units.Description) { d.LoadState = "not-found" })
		}, "fail units", "codex-session-online@aaaaaaaaaaaaaaaa.service: is not installed", "reinstall"},
		"masked": {func(b *bed) { b.change(sliceUnit, func(d *units.Description) { d.LoadState = "masked" }) },
			"fail units", "is masked", "systemctl unmask codex-sessions.slice"},
		"bad file": {func(b *bed) { b.change(serviceUnit, func(d *units.Description) { d.LoadState = "bad-setting" }) },
			"fail units", "bad-setting", "systemd-analyze verify"},
		"changed": {func(b *bed) { b.change(serviceUnit, func(d *units.Description) { d.NeedReload = true }) },
			"warn units", "have changed", "systemctl daemon-reload"},
		"failed": {func(b *bed) {
			b.change(serviceUnit, func(d *units.Description) { d.ActiveState, d.Result = "failed", "exit-code" })
		},
			"fail units", "codex-runner.service: has failed: exit-code", "reset-failed"},
		"stopped": {func(b *bed) { b.change(socketUnit, func(d *units.Description) { d.ActiveState = "inactive" }) },
			"fail units", "codex-runner.socket: is stopped", "systemctl start codex-runner.socket"},
		"disabled": {func(b *bed) { b.change(socketUnit, func(d *units.Description) { d.FileState = "disabled" }) },
			"warn units", "does not start at boot", "systemctl enable codex-runner.socket"},
		"settings": {func(b *bed) { b.file(config.Path, "max_session = 8\n", 0o644) },
			"fail config", `runner.toml:1: unknown key "max_session"`, "restart codex-runner"},
		"gone toolchain": {func(b *bed) {
			b.file(config.Path, "[sandbox]\npath = [\"/usr\"]\ntoolchains = [\"/home/a/.rustup\"]\n", 0o644)
			b.chmod("/usr", 0o755)
		},
			"warn sandbox", "/home/a/.rustup is not there", "take it out of toolchains of [sandbox]"},
		"gone path": {func(b *bed) { b.file(config.Path, "[sandbox]\npath = [\"/opt/x\"]\n", 0o644) },
			"warn sandbox", "/opt/x is not there", "take it out of path of [sandbox]"},
		"no socket": {func(b *bed) { b.statusErr = fmt.Errorf("x: %w", client.ErrNotRunning) }, "fail access", "nothing listens", "systemctl start"},
		"silent":    {func(b *bed) { b.statusErr = errors.New("i/o timeout") }, "fail access", "i/o timeout", "systemctl status codex-runner"},
		"no member": {func(b *bed) { b.statusErr, b.listed, b.effective = client.ErrForbidden, false, false },
			"fail access", "alice is not in the group codex-runner", "usermod -aG codex-runner alice"},
		"old login": {func(b *bed) { b.statusErr, b.effective = client.ErrForbidden, false },
			"fail access", "not since this login", "log in anew"},
		"drop-in of the socket": {func(b *bed) { b.statusErr = client.ErrForbidden }, "fail access", "still may not", "SocketGroup="},
		"open socket":           {func(b *bed) { b.file(paths.Socket, "", 0o666) }, "fail access", "every user may run commands", "SocketMode="},
		"not ready": {func(b *bed) { b.status.Ready, b.status.Reason = false, "systemd does not answer" },
			"fail service", "is not ready: systemd does not answer", "journalctl -u codex-runner"},
		"other version": {func(b *bed) { b.status.Version = "1.0.0" }, "warn service", "runs version 1.0.0, and 1.2.3 is installed", "restart"},
		"full queue":    {func(b *bed) { b.status.Queued = 10 }, "warn service", "queue is full: 10", "max_queued"},
		"no rule":       {func(b *bed) { b.may = func(string, string) bool { return false } }, "fail polkit", "may not start codex-session@", "reinstall"},
		"too much":      {func(b *bed) { b.may = func(string, string) bool { return true } }, "fail polkit", "may restart codex-runner.service", "/etc/polkit-1"},
		"no polkit":     {func(b *bed) { b.mayErr = units.ErrNoPolkit }, "fail polkit", "not installed", "apt install polkitd"},
		"polkit hangs":  {func(b *bed) { b.mayErr = errors.New("no answer") }, "fail polkit", "no answer", "journalctl -u polkit"},
		"no user":       {func(b *bed) { delete(b.uid, account) }, "fail polkit", "there is no user codex-runner", "systemd-sysusers"},
		"no controller": {func(b *bed) { b.file("/sys/fs/cgroup/cgroup.controllers", "cpu io\n", 0o444) },
			"warn cgroup", "the controllers memory, pids are missing", "cgroup_enable=memory"},
		"old hierarchy": {func(b *bed) { os.Remove(b.path("/sys/fs/cgroup/cgroup.controllers")) }, "warn cgroup", "no unified hierarchy", "unified"},
		"watches":       {func(b *bed) { b.file("/proc/sys/fs/inotify/max_user_watches", "10\n", 0o644) }, "fail kernel", "is 10", "fs.inotify.max_user_watches=4096"},
		"no git":        {func(b *bed) { b.git = errors.New("this host has no git") }, "fail tools", "has no git", "apt install git"},
		"no pip": {func(b *bed) { b.missing["Python"] = errors.New("this host has no pip: install python3-pip") },
			"warn tools", "set-ups of Python: cannot be made: this host has no pip", "install python3-pip"},
		"open logs":         {func(b *bed) { b.chmod(paths.StateDir, 0o755) }, "fail directories", "has mode 0755, not 0700", "chmod 0700"},
		"open environments": {func(b *bed) { b.chmod(paths.EnvironmentStates, 0o711) }, "fail directories", "not 0700", "chmod 0700"},
		"nothing to hide with": {func(b *bed) { os.Remove(b.path("/run/systemd/inaccessible/reg")) }, "fail systemd",
			"is not there: units of sessions need it", "systemctl daemon-reexec"},
		"no environments": {func(b *bed) { os.RemoveAll(b.path(paths.EnvironmentStates)) }, "fail directories", "no such file", "systemd-tmpfiles"},
		"other owner":     {func(b *bed) { b.uid["root"] = daemonUID + 1 }, "fail directories", "belongs to the user", "chown root:"},
		"no database":     {func(b *bed) { b.file(paths.StateDir+"/"+store.FileName, strings.Repeat("x", 1<<13), 0o600) }, "fail store", "runner.db", "begins a new one"},
		"low disk":        {func(b *bed) { b.free = 1 << 30 }, "warn disk", "1024 of 204800 MiB are free", "codex-runner prune"},
		"full disk":       {func(b *bed) { b.free = 1 << 20 }, "fail disk", "commands fail", "make room"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			c.broken(b)
			r := Examine(t.Context(), b.host)
			level, check, _ := strings.Cut(c.check, " ")
			found := false
			for _, f := range r.Findings {
				found = found || (string(f.Level) == level && f.Check == check && strings.Contains(f.Sentence(), c.detail) &&
					strings.Contains(f.Remedy, c.remedy))
				assert.Equal(t, f.Level == checkup.OK, f.Remedy == "", "%+v", f)
			}
			assert.True(t, found, "%+v", r.Findings)
			assert.Equal(t, level != "fail", r.OK)
		})
	}
}
