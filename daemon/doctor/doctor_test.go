package doctor

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/control"
)

// names are the names of the checks, which scripts match on.
var names = strings.Fields(`systemd units users permissions bus polkit codex sandbox login config databases homes sockets
	service models accounts database hands brokers dependencies remotes here watchdog ports console cgroup clock`)

func TestAllIsWell(t *testing.T) {
	r := Examine(t.Context(), newBed(t).host)
	assert.True(t, r.OK)
	var shown []string
	for _, f := range r.Findings {
		assert.Equal(t, OK, f.Level, "%+v", f)
		assert.Empty(t, f.Remedy)
		shown = append(shown, f.Check)
	}
	assert.Equal(t, names, shown)
}

// console turns the page for other machines on.
func (b *bed) console(origin string) {
	b.units[paths.ConsoleUnit].FileState, b.units[paths.ConsoleUnit].ActiveState = "enabled", "active"
	b.write(configFile, "[console]\norigins = ['"+origin+"']\n")
}

const garbage = "this is no database, and it is as long as the header of one.....\n"

// want is one finding among others.
type want struct {
	check  string // the level and the check: "fail units"
	detail string // part of the sentence
	remedy string // part of the remedy
}

func TestWhatIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		broken func(b *bed)
		want   want
	}{
		"old systemd":     {func(b *bed) { b.version = "247.3-7" }, want{"fail systemd", "247.3-7 is too old", "252"}},
		"strange version": {func(b *bed) { b.version = "v260" }, want{"warn systemd", "cannot be read", "252"}},

		"unit not installed": {func(b *bed) { b.units[proxyUnit].LoadState = "not-found" },
			want{"fail units", proxyUnit + ": is not installed", "reinstall"}},
		"unit masked": {func(b *bed) { b.units[defaultUnit].LoadState = "masked" },
			want{"fail units", "is masked", "systemctl unmask " + defaultUnit}},
		"unit unreadable": {func(b *bed) { b.units[proxyUnit].LoadState = "bad-setting" },
			want{"fail units", "bad-setting", "systemd-analyze verify " + proxyUnit}},
		"unit unknown": {func(b *bed) { delete(b.units, proxyUnit) },
			want{"fail units", "not checked: cannot ask", "systemctl status " + proxyUnit}},
		"worker stopped": {func(b *bed) { b.units[defaultUnit].ActiveState = "inactive" },
			want{"fail units", defaultUnit + ": is stopped", "systemctl start codex.target"}},
		"worker failed": {func(b *bed) { failed(b.units[defaultUnit], "Not started: codex is not installed") },
			want{"fail units", "has failed (exited with status 78): codex is not installed",
				"systemctl reset-failed '" + defaultUnit + "' && systemctl start codex.target"}},
		"worker crash loop": {func(b *bed) {
			d := b.units[defaultUnit]
			d.ActiveState, d.SubState = "activating", "auto-restart"
			d.ExecMainCode, d.ExecMainStatus, d.Result = 2, 9, "signal"
		}, want{"fail units", "keeps failing, and waits for its next start (killed by SIGKILL)", "journalctl -u " +
			defaultUnit}},
		"worker starting": {func(b *bed) { b.units[defaultUnit].ActiveState = "activating" },
			want{"warn units", "is on its way", "look again"}},
		"target stopped": {func(b *bed) { b.units[targetUnit].ActiveState = "inactive" },
			want{"warn units", "codex.target: is not active", "systemctl start codex.target"}},
		"target disabled": {func(b *bed) { b.units[targetUnit].FileState = "disabled" },
			want{"warn units", "codex.target: does not start at boot", "systemctl enable codex.target"}},
		"worker not wanted": {func(b *bed) { b.units[defaultUnit].WantedBy = nil },
			want{"warn units", "does not start at boot", "systemctl enable " + defaultUnit}},
		"fetcher stopped": {func(b *bed) { b.units[fetchSocket].ActiveState = "inactive" },
			want{"fail units", fetchSocket + ": is stopped", "systemctl start codex.target"}},
		"fetcher given up": {func(b *bed) {
			b.units[fetchSocket].ActiveState, b.units[fetchSocket].Result = "failed", "service-start-limit-hit"
		},
			want{"fail units", fetchSocket + ": has failed (service-start-limit-hit)",
				"journalctl -u codex-proxy-fetch.service -n 20, and mend the cause; then systemctl reset-failed '" +
					fetchSocket + "' 'codex-proxy-fetch.service' && "}},
		"daemon-reload": {func(b *bed) { b.units[proxyUnit].NeedReload = true },
			want{"warn units", "has not read", "systemctl daemon-reload"}},

		"no user": {func(b *bed) { delete(b.accounts, workerUser) },
			want{"fail users", "codex-worker: there is no such user", "systemd-sysusers"}},
		"root": {func(b *bed) { b.accounts[proxyUser] = reach.Account{} },
			want{"fail users", "codex-proxy: is root", "user id of its own"}},
		"same user": {func(b *bed) { b.accounts[workerUser] = b.accounts[proxyUser] },
			want{"fail users", "has the user id of codex-proxy", "of its own"}},
		"in the group": {func(b *bed) { b.accounts[workerUser] = reach.Account{UID: 994, GID: 992, Groups: []uint32{992, 993}} },
			want{"fail users", "is in the group of codex-proxy", "gpasswd --delete codex-worker codex-proxy"}},
		"other user": {func(b *bed) { b.units[defaultUnit].User = "" },
			want{"fail users", `runs as "", not as cw-default`, "daemon-reload"}},
		"open keys": {func(b *bed) { b.chmod(keyFile, 0o644) },
			want{"fail permissions", keyFile + ": has mode 0644: others than root may use it", "chmod 0600 " +
				keyFile}},
		"no keys": {func(b *bed) { b.remove(keyFile) },
			want{"fail permissions", keyFile + ": is missing", "codex-proxy keys add NAME"}},
		"closed config": {func(b *bed) { b.chown(configFile, "root", "root") },
			want{"fail permissions", "codex-proxy cannot read it", "chown root:codex-proxy " + configFile +
				" && chmod 0640"}},
		"open config": {func(b *bed) { b.chmod(configFile, 0o666) }, want{"fail permissions", "0666", "chmod 0640"}},
		"closed keys": {func(b *bed) { b.nameKeys(proxyUser, 0o750, 0o640) },
			want{"fail permissions", "/named: has mode 0750: codex-proxy cannot enter it",
				"move the file to /etc/codex-proxy"}},
		"root's keys": {func(b *bed) { b.nameKeys("root", 0o755, 0o640) },
			want{"fail permissions", "/named/keys: has mode 0640: codex-proxy cannot read it",
				"/named/keys && chmod 0640 /"}},
		"closed directory": {func(b *bed) { b.chmod(settingsDir+"/workers", 0o700) },
			want{"fail permissions", settingsDir + "/workers: has mode 0700: codex-proxy cannot read it",
				"chmod 0755"}},
		"login of root": {func(b *bed) { b.chown(home("default")+"/auth.json", "root", "root") },
			want{"fail permissions", "auth.json: belongs to the user 0, not to 61200", "chown 61200:61200 "}},
		"login of root, down": {func(b *bed) {
			b.units[defaultUnit].UID = units.NoUID
			b.chown(home("default")+"/auth.json", "root", "root")
		}, want{"fail permissions", "auth.json: belongs to the user 0, not to 61200", "chown 61200:61200 "}},
		"open home": {func(b *bed) { b.chmod(home("default"), 0o750) },
			want{"fail permissions", home("default") + ": has mode 0750: others than 61200 may use it", "chmod 0700"}},

		"no bus": {func(b *bed) { b.busErr = units.ErrNoBus },
			want{"fail bus", "no system bus", "apt install dbus"}},
		"mute bus": {func(b *bed) { b.busErr = errors.New("cannot greet the system bus: EOF") },
			want{"fail bus", "cannot greet", "systemctl status dbus"}},
		"no bus, units": {func(b *bed) { b.busErr = units.ErrNoBus },
			want{"warn units", "not checked: systemd does not answer", "findings of bus"}},
		"no bus, polkit": {func(b *bed) { b.busErr = units.ErrNoBus },
			want{"warn polkit", "not checked", "findings of bus"}},
		"daemon without bus": {func(b *bed) { b.report.Workers[0].ActiveState = "" },
			want{"fail bus", "gets no states of", "journalctl"}},
		"no polkit": {func(b *bed) { b.mayErr = units.ErrNoPolkit },
			want{"warn polkit", "not installed", "apt install polkitd, or dnf install polkit"}},
		"mute polkit": {func(b *bed) { b.mayErr = errors.New("cannot ask polkit: timeout") },
			want{"fail polkit", "timeout", "systemctl status polkit"}},
		"no rule": {func(b *bed) { b.may = nil },
			want{"fail polkit", "codex-proxy may not reset-failed " + defaultUnit, "reinstall the package"}},
		"large rule": {func(b *bed) { b.may["995 restart dbus.service"] = true },
			want{"fail polkit", "codex-proxy may restart dbus.service", "/etc/polkit-1/rules.d"}},
		"old rule": {func(b *bed) { b.may["995 restart "+defaultUnit] = true },
			want{"fail polkit", "codex-proxy may restart " + defaultUnit, "/etc/polkit-1/rules.d"}},
		"wrong rule": {func(b *bed) { b.may["994 restart "+defaultUnit] = true },
			want{"fail polkit", "codex-worker may restart", "/etc/polkit-1/rules.d"}},

		"no codex": {func(b *bed) {
			b.codexErr = &codexhome.Problem{Text: "codex is not installed", Hint: "install it"}
		}, want{"fail codex", "worker default: codex is not installed", "install it"}},
		"no codex, sandbox": {func(b *bed) { b.codexErr = errors.New("x") },
			want{"warn sandbox", "not checked: codex is not found", "findings of codex"}},
		"no codex, login": {func(b *bed) { b.codexErr = errors.New("x") },
			want{"ok login", "logged in", ""}},
		"old codex": {func(b *bed) {
			b.codex.versionErr = &codexhome.Problem{File: "/opt/codex", Text: "codex 0.139.0 is too old",
				Hint: "install 0.140 or later"}
		}, want{"fail codex", "/opt/codex: codex 0.139.0 is too old", "install 0.140 or later"}},
		"new codex": {func(b *bed) { b.codex.version = "0.999.0" },
			want{"ok codex", "codex 0.999.0, native, /opt/codex, newer than 0.", ""}},
		"hung codex": {func(b *bed) { b.codex.versionErr = context.DeadlineExceeded },
			want{"fail codex", "deadline", "runuser -u codex-worker -- /opt/codex --version"}},
		"sandbox": {func(b *bed) {
			b.inside = appserver.CommandResult{ExitCode: 1, Stderr: "anything"}
			b.codex.sandboxErr = &codexhome.Problem{Text: "no namespaces", Hint: "allow them"}
		}, want{"fail sandbox", "no namespaces", "allow them"}},
		"sandbox in the unit": {func(b *bed) {
			b.inside = appserver.CommandResult{ExitCode: 101,
				Stderr: "\nthread 'main' panicked\nerror applying Linux sandbox restrictions\n" +
					"note: run with RUST_BACKTRACE\n"}
		}, want{"fail sandbox", "worker default: codex cannot run a command in its sandbox (exit status 101): " +
			"error applying Linux sandbox restrictions; outside of " + defaultUnit + " this works",
			"systemctl cat " + defaultUnit}},
		"open sandbox": {func(b *bed) { b.inside.ExitCode = 1 },
			want{"fail sandbox", "shows a command " + home("default"), "systemctl cat " + defaultUnit}},
		"sandbox, down": {func(b *bed) {
			b.units[defaultUnit].ActiveState = "inactive"
			b.askErr = errors.New("it was started")
		}, want{"warn sandbox", "outside of " + defaultUnit + "; inside this was not tried: it does not run",
			"systemctl start " + defaultUnit}},
		"sandbox, mute": {func(b *bed) { b.askErr = errors.New("no answer") },
			want{"warn sandbox", "inside this was not tried: no answer", "journalctl -u " + defaultUnit}},
		"sandbox, no bus": {func(b *bed) { b.busErr = units.ErrNoBus },
			want{"warn sandbox", "inside this was not tried: systemd does not answer", "look again"}},
		"logged out": {func(b *bed) { b.logIn("default", "{}") },
			want{"fail login", "is not logged in", "codex-proxy accounts login default"}},
		"no home, login": {func(b *bed) { b.remove(home("default")) },
			want{"fail login", "has no home yet", "codex-proxy accounts login default"}},
		"bad login": {func(b *bed) { b.logIn("default", "{") },
			want{"fail login", "auth.json is damaged", "log in again"}},
		"same account": {func(b *bed) {
			b.twoLogins(`{"tokens":{"account_id":"a","refresh_token":"one"}}`,
				`{"tokens":{"account_id":"a","refresh_token":"two"}}`)
		}, want{"warn login", "worker second: has the account of the worker default: they use up one quota",
			"codex-proxy accounts login second"}},
		"same login": {func(b *bed) {
			b.twoLogins(`{"tokens":{"account_id":"a","refresh_token":"one"}}`,
				`{"tokens":{"account_id":"a","refresh_token":"one"}}`)
		}, want{"fail login", "worker second: has a copy of the login of the worker default",
			"codex-proxy accounts login second"}},
		"not root": {func(b *bed) { b.host.IsRoot = false }, want{"fail login", "only root", "sudo"}},

		"account without a login": {func(b *bed) { b.known[0].State = accounts.LoginInvalid },
			want{"fail accounts", "account default: has no valid login", "codex-proxy accounts login default"}},
		"account exhausted": {func(b *bed) {
			b.known[0].State, b.known[0].Until = accounts.Exhausted, time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
		}, want{"warn accounts", "perhaps until 2030-01-02 03:04:05", "codex-proxy accounts add"}},
		"all accounts exhausted": {func(b *bed) { b.known[0].State = accounts.Exhausted },
			want{"fail accounts", "no account may serve", "codex-proxy accounts list"}},
		"account paused": {func(b *bed) { b.known[0].Paused = true },
			want{"warn accounts", "account default: was paused", "codex-proxy accounts resume default"}},
		"account low": {func(b *bed) { b.known[0].State, b.known[0].Left = accounts.Low, 0.04 },
			want{"warn accounts", "account default: is low: 4 % left", "codex-proxy accounts list"}},
		"account not read": {func(b *bed) { b.known[0].At = b.clock.Now.Add(-16 * time.Minute) },
			want{"warn accounts", "was read 16m0s ago, and is to be read every 5m0s", "CODEX_EVENT=account-unread"}},
		"accounts, mute": {func(b *bed) { b.knownErr = errors.New("no answer") },
			want{"warn accounts", "not checked: no answer", "systemctl reload codex-proxy"}},
		"accounts, down": {func(b *bed) { b.reportErr = errors.New("none") },
			want{"warn accounts", "the daemon does not answer", "service"}},

		"console without a name": {func(b *bed) { b.units[paths.ConsoleUnit].ActiveState = "active" },
			want{"fail console", "names no origins", "systemctl restart codex-console.service"}},
		"console is down": {func(b *bed) {
			b.console("https://codex.example.com")
			b.units[paths.ConsoleUnit].ActiveState, b.units[paths.ConsoleUnit].Result = "failed", "resources"
		}, want{"fail console", "is enabled and does not listen (resources)", "systemctl start codex-console.socket"}},
		"console without TLS": {func(b *bed) { b.console("http://10.0.0.5:8791") },
			want{"warn console", "http://10.0.0.5:8791: keys and threads go over the network without TLS", "reverse proxy"}},
		"console without a key": {func(b *bed) { b.console("https://codex.example.com") },
			want{"warn console", "no API key has a right to the page", "--console=read"}},
		"console unknown": {func(b *bed) { delete(b.units, paths.ConsoleUnit) },
			want{"warn console", "not checked: cannot ask", "systemctl status codex-console.socket"}},
		"bad config": {func(b *bed) { b.write(configFile, "queue_limt = 1\n") },
			want{"fail config", `unknown key "queue_limt" (did you mean "queue_limit"?)`,
				"codex-proxy config check is content; then systemctl reload codex-proxy"}},
		"bad config, down": {func(b *bed) {
			b.write(configFile, "queue_limt = 1\n")
			failed(b.units[proxyUnit], "")
		}, want{"fail config", `unknown key "queue_limt"`,
			"then systemctl reset-failed codex-proxy && systemctl start codex.target"}},
		"bad config, login": {func(b *bed) { b.write(configFile, "queue_limt = 1\n"); b.logIn("default", "{}") },
			want{"fail login", "worker default: codex is not logged in", "login"}},
		"bad worker file": {func(b *bed) { b.write(workerFile("default"), "mode = \"plane\"\n") },
			want{"fail config", `default.toml:1: unknown mode "plane"`,
				`choose "plain", "native" or "demo"; then systemctl restart ` + defaultUnit}},
		"bad worker file, too": {func(b *bed) { b.write(workerFile("default"), "mode = \"plane\"\n") },
			want{"warn codex", "its file is bad", "findings of config"}},
		"no worker": {func(b *bed) {
			b.remove(workerFile("default"))
			b.report.Workers = nil
		}, want{"fail config", "no worker is configured", "config check"}},
		"bad keys": {func(b *bed) { b.write(keyFile, "ci sk-secret\n") },
			want{"fail config", "line 1", "systemctl restart codex-proxy"}},
		"exposed": {func(b *bed) { b.units[socketUnit].Listen = []string{"0.0.0.0:8787"} },
			want{"fail config", "listens on 0.0.0.0:8787 and there are no API keys", "codex-proxy keys add NAME"}},
		"unread config": {func(b *bed) { b.touch(configFile) },
			want{"warn config", "has changed since the service read it", "systemctl reload codex-proxy"}},
		"closed": {closeKeys, want{"warn config", keyFile + ": holds no key, and every request needs one",
			"codex-proxy keys add NAME; or, for programs on this machine alone, codex-proxy keys open"}},
		"pages": {func(b *bed) { b.write(configFile, "\ncors_origins = ['*']\n") },
			want{"fail config", configFile + ":2: cors_origins: lets web pages use the API",
				"codex-proxy config check"}},
		"unread keys": {func(b *bed) { b.inForce.Digest = "another" },
			want{"warn config", keyFile + ": differs from the keys in force", "codex-proxy keys apply"}},
		"unread key file": {func(b *bed) { b.inForce = control.Keys{Digest: "another", File: "/srv/keys"} },
			want{"warn config", "differs from the keys in force", "systemctl reload codex-proxy"}},
		"unread worker": {func(b *bed) { b.touch(workerFile("default")) },
			want{"warn config", "has changed since the worker read it", "systemctl restart " + defaultUnit}},
		"bad config, where": {func(b *bed) { b.write(configFile, "queue_limt = 1\n") },
			want{"fail config", configFile + ":1:", "codex-proxy config check"}},
		"unknown worker": {func(b *bed) { b.report.Workers[0].Name = "other" },
			want{"warn config", "worker default: is not known to the running service", "systemctl reload"}},
		"forgotten worker": {func(b *bed) { b.write(workerFile("other"), ""); b.remove(workerFile("default")) },
			want{"warn config", "worker default: is not configured, but the running service has it",
				"systemctl reload"}},
		"replaced program": {func(b *bed) {
			b.remove("/proc/80/exe")
			_ = os.Symlink("/usr/bin/codex-proxy (deleted)", b.path("/proc/80/exe"))
		}, want{"warn service", "has been replaced", "systemctl reload codex-proxy"}},
		"replaced program of a worker": {func(b *bed) {
			_ = os.Symlink("/usr/bin/codex-proxy (deleted)", b.path("/proc/81/exe"))
		}, want{"warn service", "worker default: runs a program that has been replaced", "systemctl restart " +
			defaultUnit}},

		"bad usage": {func(b *bed) { b.write(stateDir+"/usage.db", garbage) },
			want{"fail databases", "usage.db: cannot use it: file is not a database (26): usage is kept in memory",
				"mv " + stateDir + "/usage.db* "}},
		"bad responses": {func(b *bed) { b.write(stateDir+"/responses.db", garbage) },
			want{"fail databases", "no response is kept", "mv " + stateDir + "/responses.db* "}},
		"root's usage": {func(b *bed) { b.write(stateDir+"/usage.db", "") },
			want{"fail permissions", "usage.db: belongs to the user 0, not to codex-proxy",
				"chown codex-proxy:codex-proxy"}},
		"no database": {func(b *bed) { require.NoError(b.t, os.Mkdir(b.path(stateDir+"/usage.db"), 0o755)) },
			want{"fail databases", "usage.db: cannot use it: ", "mkdir"}},
		"full disk": {func(b *bed) { b.free = 4096 },
			want{"fail databases", "/var/lib/codex-proxy: its file system is full",
				"the service then goes on by itself"}},
		"log of traces": {func(b *bed) { b.grow("logs_2.sqlite-wal", 2<<30) },
			want{"warn homes", "worker default: its home /var/lib/codex-worker/default has 2.0 GiB, most of it below " +
				"logs_2.sqlite-wal", "systemctl restart " + defaultUnit}},
		"large home": {func(b *bed) { b.grow("sessions/2026/rollout.jsonl", 3<<30) },
			want{"warn homes", "has 3.0 GiB, most of it below sessions", "du -ah /var/lib/codex-worker/default/."}},
		"closed socket": {func(b *bed) { b.chmod(runDir+"/default.sock", 0o600) },
			want{"fail sockets", "has mode 0600: the proxy cannot connect",
				"chmod 0660 /run/codex-proxy/default.sock"}},
		"open socket": {func(b *bed) { b.chmod(runDir+"/default.sock", 0o666) },
			want{"fail sockets", "has mode 0666: every user", "SocketMode="}},
		"socket's owner": {func(b *bed) { b.chown(runDir+"/default.sock", "root", "root") },
			want{"fail sockets", "belongs to 0:0, not to root:codex-proxy", "chown root:codex-proxy"}},
		"no socket": {func(b *bed) { b.remove(runDir + "/default.sock") },
			want{"fail sockets", "does not exist", "systemctl stop " + defaultUnit}},
		"file for a socket": {func(b *bed) { b.remove(runDir + "/default.sock"); b.write(runDir+"/default.sock", "") },
			want{"fail sockets", "is not a socket", "rm /run/codex-proxy/default.sock"}},
		"socket elsewhere": {func(b *bed) { b.write(configFile, "socket_dir = \"/run/elsewhere\"\n") },
			want{"fail sockets", "the proxy connects to /run/elsewhere/default.sock", "agree"}},
		"socket unit down": {func(b *bed) { b.units[units.WorkerSocket("default")].ActiveState = "failed" },
			want{"warn sockets", "does not listen", "findings of units"}},
		"open control": {func(b *bed) { b.chmod(runDir+"/control/socket", 0o666) },
			want{"fail sockets", "others may drain workers", "chmod 0600"}},
		"no control": {func(b *bed) { b.reportErr = errors.New("cannot reach it") },
			want{"fail sockets", "cannot reach it", "systemctl restart codex-proxy"}},
		"control is gone": {func(b *bed) { b.reportErr = control.ErrNotRunning },
			want{"fail sockets", "is gone, while the service runs", "systemctl restart codex-proxy"}},
		"control gone, too": {func(b *bed) { b.reportErr = control.ErrNotRunning },
			want{"warn service", "not checked: its control socket is gone", "findings of sockets"}},
		"no bus, socket": {func(b *bed) { b.busErr = units.ErrNoBus; b.chmod(runDir+"/default.sock", 0o600) },
			want{"fail sockets", "has mode 0600: the proxy cannot connect", "chmod"}},
		"foreign control": {func(b *bed) { b.reportErr = control.ErrForbidden },
			want{"fail service", "only root", "sudo"}},

		"daemon stopped": {func(b *bed) {
			b.reportErr = control.ErrNotRunning
			b.units[proxyUnit].ActiveState = "inactive"
		}, want{"fail service", "does not run", "systemctl start codex.target"}},
		"daemon stopped, models": {func(b *bed) { b.reportErr = control.ErrNotRunning },
			want{"warn models", "not checked", "findings of service"}},
		"daemon hangs": {func(b *bed) { b.reportErr = errors.New("codex-proxy does not answer") },
			want{"fail service", "does not answer", "systemctl status codex-proxy"}},
		"not ready": {func(b *bed) {
			b.report.Health.Readiness = probes.Readiness{Reason: probes.BackingOff,
				Details: "worker default: backing_off"}
			b.report.Workers[0].Ready = false
		}, want{"fail service", "is not ready (backing_off): worker default: backing_off",
			"codex-proxy status; journalctl"}},
		"one not ready": {func(b *bed) {
			b.report.Workers[0].Ready, b.report.Workers[0].Reason = false,
				probes.HandshakePending
		}, want{"fail service",
			"worker default: is not ready (handshake_pending)", "codex-proxy status"}},
		"drained": {func(b *bed) { b.report.Workers[0].Drained = true },
			want{"warn service", "was drained", "codex-proxy undrain default"}},
		"flapping": {func(b *bed) { b.report.Workers[0].ConsecutiveFailures = 3 },
			want{"warn service", "has failed 3 times in a row", "journalctl -u " + defaultUnit}},
		"full": {func(b *bed) { b.report.Queue.Depth = 64 },
			want{"warn service", "queue: is full", "max_inflight"}},
		"no models": {func(b *bed) { b.report.Workers[0].Handshake.Models = nil },
			want{"fail models", "offers no model", "`model` in " + workerFile("default")}},
		"no handshake": {func(b *bed) { b.report.Workers[0].Handshake = nil },
			want{"warn models", "is not connected", "findings of service"}},
		"knows nobody": {func(b *bed) { b.report.Workers = nil },
			want{"warn models", "no worker", "findings of service"}},

		"no watchdog": {func(b *bed) { b.units[defaultUnit].Watchdog = 0 },
			want{"warn watchdog", defaultUnit + ": has no watchdog", "WatchdogSec="}},
		"silent watchdog": {func(b *bed) { b.units[proxyUnit].WatchdogAge = 40 * time.Second },
			want{"fail watchdog", "has not answered for 40s, of 30s", "systemctl restart " + proxyUnit}},
		"nothing watched": {func(b *bed) { b.units[proxyUnit].ActiveState = "inactive" },
			want{"warn watchdog", "not checked: it does not run", "findings of units"}},

		"port taken": {func(b *bed) {
			failed(b.units[socketUnit], "")
			b.write("/proc/net/tcp", "  sl  local_address\n"+
				"   0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n")
			_ = os.Symlink("socket:[4242]", b.path("/proc/99/fd/3"))
			b.write("/proc/99/comm", "nginx\n")
		}, want{"fail ports", "127.0.0.1:8787: is taken by nginx (process 99)", "systemctl edit codex-proxy.socket"}},
		"another address's port": {func(b *bed) {
			failed(b.units[socketUnit], "")
			b.write("/proc/net/tcp", "  sl  local_address\n"+
				"   0: 0200007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n")
		}, want{"warn ports", "nothing listens there", "findings of units"}},
		"everybody's port": {func(b *bed) {
			failed(b.units[socketUnit], "")
			b.write("/proc/net/tcp6", "  sl  local_address\n"+
				"   0: 00000000000000000000000000000000:2253 00000000000000000000000000000000:0000 0A "+
				"00000000:00000000 00:00000000 00000000     0        0 4242 1\n")
		}, want{"fail ports", "is taken by a process that cannot be seen", "choose another address"}},
		"port silent": {func(b *bed) { b.gets["http://127.0.0.1:8787/livez"] = get{err: errors.New("refused")} },
			want{"fail ports", "does not answer: refused", "systemctl status"}},
		"port of others": {func(b *bed) { b.gets["http://127.0.0.1:8787/livez"] = get{status: 200, body: "hello"} },
			want{"fail ports", "is answered by something else", "ss -ltnp"}},
		"not live": {func(b *bed) { b.report.Health.Liveness = probes.Liveness{Reason: probes.Stuck} },
			want{"fail ports", "not live (stuck)", "journalctl"}},
		"service down": {func(b *bed) { b.units[proxyUnit].ActiveState = "inactive" },
			want{"warn ports", "the service does not run", "findings of units"}},
		"keys not asked for": {func(b *bed) { b.write(keyFile, "ci "+strings.Repeat("ab", 32)+"\n") },
			want{"fail ports", "answers a request without an API key", "codex-proxy keys apply"}},
		"closed, and answers so": {func(b *bed) {
			closeKeys(b)
			b.gets["http://127.0.0.1:8787/v1/models"] = get{status: 401}
		}, want{"ok ports", "refuses every request, as there is no API key", ""}},
		"not closed": {closeKeys, want{"fail ports", "answers a request without an API key",
			"codex-proxy keys apply"}},
		"keys asked for": {func(b *bed) { b.gets["http://127.0.0.1:8787/v1/models"] = get{status: 401} },
			want{"warn ports", "asks for API keys that are not in", "codex-proxy keys apply"}},
		"no address": {func(b *bed) { b.units[socketUnit].Listen = nil },
			want{"warn ports", "has none", "findings of units"}},

		"controllers": {func(b *bed) { b.write("/sys/fs/cgroup/cgroup.controllers", "cpu io") },
			want{"warn cgroup", "memory, pids are missing", "ask for them"}},
		"old cgroups": {func(b *bed) { b.remove("/sys/fs/cgroup/cgroup.controllers") },
			want{"warn cgroup", "no unified hierarchy", "unified_cgroup_hierarchy"}},
		"clock runs": {func(b *bed) { b.clock.Synced = false },
			want{"warn clock", "not synchronised", "timedatectl set-ntp true"}},
		"clock wrong": {func(b *bed) { b.clock.Now = time.Unix(0, 0) },
			want{"fail clock", "1970", "timedatectl set-ntp true"}},
		"no clock": {func(b *bed) { b.clockErr = errors.New("EPERM") },
			want{"warn clock", "not checked", "timedatectl"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			c.broken(b)
			r := Examine(t.Context(), b.host)
			assertFound(t, r, c.want)
			level, _, _ := strings.Cut(c.want.check, " ")
			if Level(level) == Fail {
				assert.False(t, r.OK)
			}
			for _, f := range r.Findings {
				assert.Equal(t, f.Level == OK, f.Remedy == "", "%+v", f)
				assert.NotContains(t, f.Detail+f.Remedy, "sk-secret")
			}
			assertEveryCheck(t, r)
		})
	}
}

func assertFound(t *testing.T, r Report, w want) {
	t.Helper()
	for _, f := range r.Findings {
		if string(f.Level)+" "+f.Check == w.check && strings.Contains(f.Sentence(), w.detail) &&
			strings.Contains(f.Remedy, w.remedy) {
			return
		}
	}
	var page strings.Builder
	require.NoError(t, r.Write(&page))
	assert.Fail(t, "not found", "%+v in\n%s", w, page.String())
}

// assertEveryCheck asserts that a fault hides no check and does not change the order.
func assertEveryCheck(t *testing.T, r Report) {
	t.Helper()
	var shown []string
	for _, f := range r.Findings {
		if len(shown) == 0 || shown[len(shown)-1] != f.Check {
			shown = append(shown, f.Check)
		}
	}
	assert.Equal(t, names, shown)
}

// A key file that the unit hides from the daemon is a fault. The daemon gets the default
// key file as a credential, so its place does not matter.
func TestKeysThatTheUnitHides(t *testing.T) {
	facts := &survey.Facts{Machine: newBed(t).host.Machine}
	s := &service{Facts: facts, config: &config.Config{KeyFile: "/root/../root/keys"}}
	found := s.namedKeys()
	require.Len(t, found, 1)
	assert.Equal(t, "/root/keys: cannot be seen by the service (ProtectHome= in its unit)", found[0].Sentence())
	s.config.KeyFile = keyFile
	assert.Empty(t, s.namedKeys())
}

// closeKeys leaves the key file as after the removal of the last key.
func closeKeys(b *bed) { b.write(keyFile, auth.ClosedLine()+"\n") }
