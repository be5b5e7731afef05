package integration

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/config"
	"codex-proxy/runner/paths"
	"codex-proxy/test/machine"
)

// TestRunnerPackage is the life of codex-runner's package on a server, without codex-proxy.
func TestRunnerPackage(t *testing.T) {
	debs := aptGetOf("codex-runner", os.Getenv("CODEX_PROXY_TEST_RUNNER_DEB"))
	require.NotEmpty(t, debs.now, "CODEX_PROXY_TEST_RUNNER_DEB is not set; `make test` sets it")
	debs = withNext(t, debs, "etc/codex-runner/runner.toml")
	rpms := rpmOf("codex-runner", os.Getenv("CODEX_PROXY_TEST_RUNNER_RPM"), "/etc/codex-runner", paths.StateDir, paths.Workspaces,
		paths.SessionStates, paths.PrivateStates+"/codex-session", "/var/lib/codex-repository", paths.RepositoryStates,
		"/var/lib/codex-environment-build", paths.PrivateStates+"/codex-environment-build", paths.EnvironmentStates)
	rpms.next = rpms.now
	bothSuites(t, func(t *testing.T, suite string) {
		t.Run("deb", func(t *testing.T) { serverWithout(t, suite).liveRunner(debs) })
		t.Run("rpm", func(t *testing.T) { serverWithout(t, suite).liveRunner(rpms) })
	})
}

// serverWithout is a machine with the packages of Debian that codex-runner needs, and a user.
func serverWithout(t *testing.T, suite string) *bed {
	t.Helper()
	m := machine.Boot(t, machine.Debian(suite, "git", "python3", "python3-pip"), machine.Options{Units: []string{"codex-*"}})
	m.MustRun(t, "useradd", "--create-home", "alice")
	m.MustRun(t, "systemctl", "start", "polkit") // it makes directories of its own
	return &bed{Machine: m, t: t}
}

// liveRunner goes through an image, an installation, commands, an upgrade, a mistake, a downgrade, a removal, another
// installation, and a purge.
func (b *bed) liveRunner(p packager) {
	t, before := b.t, b.files()
	assert.Contains(t, b.installInImage(p), "members of the group codex-runner may run commands")
	p.purge(b)
	assert.Empty(t, b.left(before), "what a purge of the image leaves")

	assert.Contains(t, b.mustPrint(append(p.command, b.copied(p.now))...), "usermod --append --groups codex-runner NAME")
	b.MustRun(t, "usermod", "--append", "--groups", "codex-runner", "alice")
	b.assertRunner()
	b.assertUnits()

	session, run := b.sessionThatRuns(), b.show(runnerService, "MainPID")
	socket := b.show(runnerSocket, "InvocationID")
	b.appendTo(config.Path, "# mine\n")
	p.install(b, p.next)
	assert.NotEqual(t, run, b.show(runnerService, "MainPID"), "the daemon is another one")
	assert.Equal(t, socket, b.show(runnerSocket, "InvocationID"), "the socket stays")
	assert.Contains(t, b.MustRun(t, "cat", config.Path), "# mine\n", "an edited file is kept")
	session.assertRuns()
	b.assertRunner()

	b.MustRun(t, "sed", "-i", "1imax_session = 3", config.Path)
	assert.Contains(t, p.install(b, p.next), "codex-runner: the service does not run, for what systemctl status codex-runner says; mend that")
	b.assertRefused(`Failed: /etc/codex-runner/runner.toml:1: unknown key "max_session" \(did you mean "max_sessions"\?\)`)
	session.assertRuns()
	b.MustRun(t, "sed", "-i", "1d", config.Path)
	p.install(b, p.now)
	b.assertRunner()

	b.schemaOfStore("+ 1")
	assert.Contains(t, p.install(b, p.now), "the service does not run")
	b.assertRefused(`Failed: cannot use /var/lib/codex-runner/runner.db: it was written by a newer version \(schema \d+, this one knows \d+\); install that version`)
	session.assertRuns()
	b.schemaOfStore("- 1")
	b.MustRun(t, "systemctl", "start", runnerService)
	session.assertRuns()

	p.remove(b)
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--no-legend", "codex*"), "what a removal leaves")
	assert.Empty(t, b.MustRun(t, "sh", "-c", "ps -e -o args= | grep '[c]odex-\\|[s]leep' || true"))
	assert.Equal(t, "begun\n", b.MustRun(t, "cat", paths.StateDir+"/"+paths.CommandDir(session.id, 1)+"/"+paths.Output))

	p.install(b, p.now)
	b.assertRunner()
	shown := b.MustRun(t, "codex-runner", "show", session.id)
	assert.NotContains(t, shown, "running")
	b.sessionThatRuns()
	p.purge(b)
	assert.Empty(t, b.left(before), "what a purge leaves")
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--all", "--no-legend", "codex*"))
	assert.Empty(t, b.MustRun(t, "sh", "-c", "ps -e -o args= | grep '[c]odex-\\|[s]leep' || true"))
}

// assertRunner asserts that the service runs, at boot as well, and that a user's command does.
func (b *bed) assertRunner() {
	t := b.t
	t.Helper()
	for _, unit := range []string{runnerSocket, runnerService} {
		assert.Equal(t, "enabled", trim(b.MustRun(t, "systemctl", "is-enabled", unit)))
		assert.Equal(t, "active", b.show(unit, "ActiveState")["ActiveState"], unit)
	}
	out, stderr, err := b.Run(t.Context(), "runuser", "-u", "alice", "--", "codex-runner", "run", "--", "sh", "-c", "id -u; exit 3")
	require.ErrorContains(t, err, "exit status 3", stderr)
	assert.Regexp(t, `^\d{5}\n$`, out, "a user of its own")
	assert.Contains(t, b.MustRun(t, "codex-runner", "status"), "ready")
	_, stderr, err = b.Run(t.Context(), "runuser", "-u", "codex-runner", "--", "mv", paths.Socket, paths.Socket+".old")
	require.Error(t, err, "the daemon's user replaces the socket")
	assert.Contains(t, stderr, "Permission denied")
}

// assertUnits asserts what systemd finds of the installed units.
func (b *bed) assertUnits() {
	t := b.t
	t.Helper()
	units := []string{runnerSocket, runnerService, "codex-sessions.slice"}
	rows := securityRows(t, `^codex-(runner|session|repository|environment|sweep)\S*\.service$`)
	require.Len(t, rows, 7)
	for _, row := range rows[1:] {
		units = append(units, strings.Replace(row[0], "@", "@abcdefghijklmnop", 1))
	}
	stdout, stderr, err := b.Run(t.Context(), append([]string{"systemd-analyze", "verify", "--man=no"}, units...)...)
	assert.NoError(t, err)
	assert.Empty(t, unknownBefore254.ReplaceAllString(stdout+stderr, ""))
	for _, row := range rows {
		unit := strings.Replace(row[0], "@", "@abcdefghijklmnop", 1)
		out := b.MustRun(t, "systemd-analyze", "security", "--no-pager", unit)
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		require.NotNil(t, m, out)
		t.Logf("%s: %s", unit, m[1])
		assert.LessOrEqual(t, seconds(t, m[1]), seconds(t, strings.TrimSpace(row[1])), out)
	}
}

// assertRefused asserts that the service has ended for a reason that another try would find again.
func (b *bed) assertRefused(status string) {
	b.t.Helper()
	shown := b.show(runnerService, "ActiveState", "ExecMainStatus", "StatusText", "NRestarts")
	assert.Equal(b.t, "failed", shown["ActiveState"])
	assert.Equal(b.t, "78", shown["ExecMainStatus"])
	assert.Equal(b.t, "0", shown["NRestarts"])
	assert.Regexp(b.t, status, shown["StatusText"])
}

// schemaOfStore changes the version of the store, while the service does not use it.
func (b *bed) schemaOfStore(change string) {
	b.t.Helper()
	b.MustRun(b.t, "systemctl", "stop", runnerService)
	b.MustRun(b.t, "runuser", "-u", "codex-runner", "--", "python3", "-c", `import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
version, = db.execute("PRAGMA user_version").fetchone()
db.execute(f"PRAGMA user_version = {eval(f'{version} {sys.argv[2]}')}")
db.commit()`, paths.StateDir+"/runner.db", change)
}

// runningSession is a session of alice with one command, which goes on.
type runningSession struct {
	*bed
	id   string
	unit map[string]string
}

func (b *bed) sessionThatRuns() *runningSession {
	b.t.Helper()
	id := trim(b.MustRun(b.t, "runuser", "-u", "alice", "--", "codex-runner", "run", "--detach", "--", "sh", "-c", "echo begun; exec sleep 4321"))
	require.NoError(b.t, paths.CheckID(id))
	s := &runningSession{bed: b, id: id}
	b.untilShow(paths.SessionUnit(id), "ActiveState", "active")
	s.unit = b.show(paths.SessionUnit(id), "InvocationID", "MainPID", "ActiveState")
	return s
}

// assertRuns asserts that the command of the session still runs.
func (s *runningSession) assertRuns() {
	s.t.Helper()
	assert.Equal(s.t, s.unit, s.show(paths.SessionUnit(s.id), "InvocationID", "MainPID", "ActiveState"))
}
