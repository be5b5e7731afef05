package doctor

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/units"
)

const (
	remoteUnit = "codex-remote@build.service"
	remoteOpen = "codex-remote@build.socket"
	remoteText = "directory = \"/srv\"\nmodel = \"m\"\n[provider]\nname = \"local\"\nbase_url = \"http://127.0.0.1:1/v1\"\n"
)

// remote makes a remote that is well: it sleeps, and its socket is open.
func (b *bed) remote(keys string) {
	for _, dir := range []string{paths.RemoteSettings, generated, "/proc/sys/user", "/proc/sys/kernel"} {
		require.NoError(b.t, os.MkdirAll(b.path(dir), 0o755))
	}
	b.write(paths.RemoteSettings+"/build.toml", keys+remoteText)
	b.reload()
	b.units[remoteUnit] = &units.Description{State: units.State{Unit: remoteUnit, LoadState: "loaded",
		ActiveState: "inactive", SubState: "dead"}}
	b.units[remoteOpen] = &units.Description{State: units.State{Unit: remoteOpen, LoadState: "loaded",
		ActiveState: "active", SubState: "listening"}, FileState: "enabled"}
}

func (b *bed) ofRemotes() (found []Finding) {
	for _, f := range Examine(b.t.Context(), b.host).Findings {
		if f.Check == "remotes" {
			found = append(found, f)
		}
	}
	return found
}

func TestRemotesThatAreWell(t *testing.T) {
	b := newBed(t)
	assert.Equal(t, []Finding{{Check: "remotes", Level: OK, Detail: "none is configured"}}, b.ofRemotes())
	b.remote("")
	well := func(detail string) []Finding {
		return []Finding{{Check: "remotes", Level: OK, Subject: "remote build", Detail: detail}}
	}
	assert.Equal(t, well("asleep, an attach starts it"), b.ofRemotes())
	b.units[remoteUnit].ActiveState = "active"
	assert.Equal(t, well("runs"), b.ofRemotes())
	b.report.Remotes = []probes.Remote{{Name: "build", Use: &probes.RemoteUse{Owners: 1, Viewers: 1, Turns: 1}}}
	assert.Equal(t, well("runs: attached 2, turns 1"), b.ofRemotes())
}

func TestRemotesThatAreBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(b *bed)
		want   Finding // parts of its texts
	}{
		"file": {func(b *bed) { b.remote("directry = 1\n") },
			fail("remote build", `unknown key "directry"`, "codex-proxy remotes check build reports no fault")},
		"fault": {func(b *bed) { b.faults = []string{"directory: the user has no permission for /srv"} },
			fail("remote build", "directory: the user has no permission", "codex-proxy remotes check build")},
		"account": {func(b *bed) {
			b.write(paths.RemoteSettings+"/build.toml",
				"directory = \"/srv\"\nmodel = \"m\"\naccounts = [\"default\", \"gone\"]\n")
			b.reload()
		}, fail("remote build", `there is no account "gone", but default`, "codex-proxy accounts add gone")},
		"codex": {func(b *bed) { b.codex.version = "0.168.3" },
			fail("remote build", "its codex is 0.168.3, and remotes need 0.169", "npm install")},
		"not read": {func(b *bed) { b.write(paths.RemoteSettings+"/build.toml", "tasks = 64\n"+remoteText) },
			fail("build.toml", "systemd has not read it", "systemctl daemon-reload && systemctl restart "+remoteOpen)},
		"drop-in of an operator": {func(b *bed) { b.units[remoteUnit].NeedReload = true },
			fail("build.toml", "systemd has not read it", "systemctl daemon-reload")},
		"failed": {func(b *bed) { failed(b.units[remoteUnit], "Not started: build.toml:1: x") },
			fail("remote build", "has failed (exited with status 78): build.toml:1: x", "systemctl reset-failed "+remoteUnit)},
		"crash loop": {func(b *bed) {
			d := b.units[remoteUnit]
			d.ActiveState, d.SubState, d.Result = "activating", "auto-restart", "watchdog"
		}, fail("remote build", "keeps failing, and waits for its next start (watchdog)", "journalctl -u "+remoteUnit)},
		"socket closed": {func(b *bed) { b.units[remoteOpen].ActiveState = "inactive" },
			fail("remote build", "its socket is closed: nobody can attach", "systemctl start "+remoteOpen)},
		"socket never open": {func(b *bed) {
			b.units[remoteOpen].ActiveState, b.units[remoteOpen].FileState = "inactive", "disabled"
		}, warn("remote build", "its socket is closed: nobody can attach", "systemctl enable --now "+remoteOpen)},
		"no browser": {func(b *bed) {
			b.write(paths.RemoteSettings+"/build.toml", remoteText+"[notify]\npush = true\n")
			b.reload()
		},
			warn("remote build", "push = true, and the page for other machines", "systemctl enable --now codex-console.socket")},
		"not at boot": {func(b *bed) { b.units[remoteOpen].FileState = "disabled" },
			warn("remote build", "does not open at boot", "systemctl enable --now "+remoteOpen)},
		"no user namespaces": {func(b *bed) { b.write("/proc/sys/user/max_user_namespaces", "0\n") },
			fail("/proc/sys/user/max_user_namespaces", "is 0: users may make no user namespaces", "sysctl")},
		"apparmor": {func(b *bed) { b.write("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n") },
			fail("userns", "is 1: users may make no user namespaces", "sysctl")},
		"no bus":  {func(b *bed) { b.busErr = units.ErrNoBus }, warn("remote build", "not checked", "findings of bus")},
		"no unit": {func(b *bed) { delete(b.units, remoteOpen) }, fail("remote build", "not checked", "systemctl status "+remoteOpen)},
		"masked": {func(b *bed) { b.units[remoteUnit].LoadState = "masked" },
			fail(remoteUnit, "is masked", "systemctl unmask "+remoteUnit)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.remote("")
			tc.change(b)
			for _, f := range b.ofRemotes() {
				if f.Level == OK {
					continue
				}
				assert.Equal(t, tc.want.Level, f.Level)
				assert.Contains(t, f.Subject, tc.want.Subject)
				assert.Contains(t, f.Detail, tc.want.Detail)
				assert.Contains(t, f.Remedy, tc.want.Remedy)
				return
			}
			assert.Fail(t, "nothing is found")
		})
	}
}
