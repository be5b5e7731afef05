package doctor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/units"
)

const serverUnit = "codex-dependency@d.service"

// ofDependencies are the findings of the check.
func (b *bed) ofDependencies() []Finding {
	var found []Finding
	for _, f := range Examine(b.t.Context(), b.host).Findings {
		if f.Check == "dependencies" {
			found = append(found, f)
		}
	}
	return found
}

func TestDependenciesThatAreWell(t *testing.T) {
	b := newBed(t)
	assert.Equal(t, []Finding{{Check: "dependencies", Level: OK, Detail: "none is configured"}}, b.ofDependencies())

	b.depend("d", "")
	b.depend("e", "ports = [7233]\n")
	answers := func(name string) Finding {
		return Finding{Check: "dependencies", Level: OK, Subject: "dependency " + name,
			Detail: "answers (tcp:127.0.0.1:9)"}
	}
	assert.Equal(t, []Finding{answers("d"), answers("e")}, b.ofDependencies())

	// A unit that another one starts needs no start at boot of its own.
	b.units[serverUnit].FileState = "disabled"
	b.requires("d")
	assert.Equal(t, []Finding{answers("d"), answers("e")}, b.ofDependencies())
}

// What the unit's sandbox probes is not probed from outside: its watchdog shows whether it answers.
func TestDependenciesThatOnlyTheirUnitCanProbe(t *testing.T) {
	for name, file := range map[string]string{
		"another network": "command = [\"/usr/bin/server\"]\nnetwork = \"none\"\n[probe]\ncheck = \"tcp:127.0.0.1:9\"\n",
		"a command":       "command = [\"/usr/bin/server\"]\n[probe]\ncheck = \"exec:false\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.depend("d", "")
			b.write(dependencyFile("d"), file)
			b.reload()
			b.probeErr = errors.New("was probed from outside")
			b.units[serverUnit].StatusText = "Ready: passes"
			assert.Equal(t, []Finding{{Check: "dependencies", Level: OK, Subject: "dependency d",
				Detail: "answers (Ready: passes)"}}, b.ofDependencies())
		})
	}
}

// The unit of a dependency without a file is stopped: only the file is the finding.
func TestARequiredDependencyWithoutFileIsOneFinding(t *testing.T) {
	b := newBed(t)
	b.requires("x")
	b.units["codex-dependency@x.service"] = &units.Description{State: units.State{Unit: "codex-dependency@x.service",
		LoadState: "loaded", ActiveState: "inactive", SubState: "dead"}}
	found := b.ofDependencies()
	assert.Len(t, found, 1, found)
	assert.Contains(t, found[0].Detail, "has no file")
}

func TestDependenciesThatAreBroken(t *testing.T) {
	for name, c := range map[string]struct {
		broken func(b *bed)
		want   want
	}{
		"bad file": {func(b *bed) { b.write(dependencyFile("d"), "comand = []\n") },
			want{"fail dependencies", `dependencies/d.toml:1: unknown key "comand"`,
				"codex-proxy dependencies check d reports no fault; then systemctl daemon-reload && systemctl restart " +
					serverUnit}},
		"required, no file": {func(b *bed) { b.requires("x") },
			want{"fail dependencies", "dependency x: has no file /etc/codex-proxy/dependencies/x.toml, and " + defaultUnit +
				" requires it", "codex-proxy dependencies add x"}},
		"fault": {func(b *bed) { b.faults = []string{"command: /usr/bin/server: there is no such program"} },
			want{"fail dependencies", "dependency d: command: /usr/bin/server: there is no such program",
				"codex-proxy dependencies check d"}},
		"too many": {func(b *bed) {
			for i := range settingsfile.MaxFiles {
				b.write(dependencyFile("n"+string(rune('a'+i/26))+string(rune('a'+i%26))), "")
			}
		}, want{"fail dependencies", paths.DependencySettings + ": ", "remove files"}},

		"no bus": {func(b *bed) { b.busErr = units.ErrNoBus },
			want{"warn dependencies", "not checked", "findings of bus"}},
		"unknown unit": {func(b *bed) { delete(b.units, serverUnit) },
			want{"fail dependencies", "not checked: cannot ask", "systemctl status " + serverUnit}},
		"masked": {func(b *bed) { b.units[serverUnit].LoadState = "masked" },
			want{"fail dependencies", "is masked", "systemctl unmask " + serverUnit}},
		"refused": {func(b *bed) {
			failed(b.units[serverUnit], "Not started: port 7233 is held by pid 812 (temporal), unit session-3.scope")
			b.units[serverUnit].ExecMainStatus = 75
		}, want{"fail dependencies", "was not started: port 7233 is held by pid 812",
			"stop that process in its own unit or session; then systemctl start " + serverUnit}},
		"invalid when it started": {func(b *bed) { failed(b.units[serverUnit], "") },
			want{"fail dependencies", "has failed (exited with status 78)", "systemctl reset-failed " + serverUnit +
				" && systemctl start " + serverUnit}},
		"start limit": {func(b *bed) {
			b.requires("d")
			failed(b.units[serverUnit], "")
			b.units[serverUnit].ExecMainStatus = 1
		}, want{"fail dependencies", "has failed (exited with status 1), and " + defaultUnit + " requires it",
			"journalctl -u " + serverUnit}},
		"crash loop": {func(b *bed) {
			d := b.units[serverUnit]
			d.ActiveState, d.SubState, d.Result = "activating", "auto-restart", "watchdog"
		}, want{"fail dependencies", "keeps failing, and waits for its next start (watchdog)", "journalctl -u"}},
		"starting": {func(b *bed) { b.units[serverUnit].ActiveState = "activating" },
			want{"warn dependencies", "is on its way", "look again"}},
		"stopped and required": {func(b *bed) {
			b.requires("d")
			b.units[serverUnit].ActiveState = "inactive"
		}, want{"fail dependencies", "is stopped, and " + defaultUnit + " requires it", "systemctl start " + serverUnit}},
		"stopped and enabled": {func(b *bed) { b.units[serverUnit].ActiveState = "inactive" },
			want{"warn dependencies", "is stopped, and starts at boot", "systemctl start " + serverUnit}},
		"stopped and forgotten": {func(b *bed) {
			b.units[serverUnit].ActiveState, b.units[serverUnit].FileState = "inactive", "disabled"
		}, want{"warn dependencies", "nothing starts it", "codex-proxy dependencies remove d"}},
		"not enabled": {func(b *bed) { b.units[serverUnit].FileState = "disabled" },
			want{"warn dependencies", "does not start at boot", "systemctl enable " + serverUnit}},

		"no watchdog": {func(b *bed) { b.units[serverUnit].Watchdog = 0 },
			want{"warn dependencies", "has no watchdog", "systemctl cat " + serverUnit}},
		"hangs": {func(b *bed) { b.units[serverUnit].WatchdogAge = 20e9 },
			want{"fail dependencies", "has not answered its probe for 20s, of 15s", "systemctl restart " + serverUnit}},
		"fails its probe": {func(b *bed) { b.probeErr = errors.New("NOT_SERVING") },
			want{"fail dependencies", "does not pass its probe tcp:127.0.0.1:9: NOT_SERVING",
				"systemctl restart " + serverUnit}},

		"no daemon-reload": {func(b *bed) {
			b.write(dependencyFile("d"), "command = [\"/usr/bin/server\", \"-v\"]\n"+
				"[probe]\ncheck = \"tcp:127.0.0.1:9\"\n")
		},
			want{"warn dependencies", "d.toml: has changed, and systemd has not read it",
				"systemctl daemon-reload && systemctl restart " + serverUnit}},
		"no drop-in": {func(b *bed) { b.remove(generated) },
			want{"warn dependencies", "has changed, and systemd has not read it", "systemctl daemon-reload"}},
		"no restart": {func(b *bed) { b.touch(dependencyFile("d")) },
			want{"warn dependencies", "d.toml: has changed since the server started", "systemctl restart " + serverUnit}},
		"state of another": {func(b *bed) { b.give(dependencyconfig.StateDir("d"), 7) },
			want{"fail dependencies", "belongs to the user 7, not to 61300", "chown -R 61300:61300 /var/lib/codex-dependency/d/"}},
		"open state": {func(b *bed) { b.chmod(dependencyconfig.StateDir("d"), 0o750) },
			want{"fail dependencies", "has mode 0750", "chmod 0700 /var/lib/codex-dependency/d/"}},

		"two with a port": {func(b *bed) {
			b.depend("d", "ports = [80, 7233]\n")
			b.depend("e", "ports = [7233]\n")
		}, want{"fail dependencies", "dependencies d, e: have the same port 7233", "change ports"}},
		"two with a lock, one stopped": {func(b *bed) {
			b.depend("d", "lock = \"/srv/lock\"\n")
			b.depend("e", "lock = \"/srv/lock\"\n")
			b.units[serverUnit].ActiveState, b.units[serverUnit].FileState = "inactive", "disabled"
		}, want{"warn dependencies", "dependencies d, e: have the same lock /srv/lock", "systemctl disable --now"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.depend("d", "")
			c.broken(b)
			assertFound(t, Report{Findings: b.ofDependencies()}, c.want)
		})
	}
}
