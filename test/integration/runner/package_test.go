package runner

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/config"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/nightly"
)

// TestRunnerPackage is the life of codex-runner's package on a server, without codex-proxy.
func TestRunnerPackage(t *testing.T) {
	debs := bed.AptGetOf("codex-runner", os.Getenv("CODEX_PROXY_TEST_RUNNER_DEB"))
	require.NotEmpty(t, debs.Now, "CODEX_PROXY_TEST_RUNNER_DEB is not set; `make test` sets it")
	debs = bed.WithNext(t, debs, "etc/codex-runner/runner.toml")
	rpms := bed.RpmOf("codex-runner", os.Getenv("CODEX_PROXY_TEST_RUNNER_RPM"), "/etc/codex-runner", paths.StateDir, paths.Workspaces,
		paths.SessionStates, paths.PrivateStates+"/codex-session", "/var/lib/codex-repository", paths.RepositoryStates,
		"/var/lib/codex-environment-build", paths.PrivateStates+"/codex-environment-build", paths.EnvironmentStates)
	rpms.Next = rpms.Now
	bed.BothSuites(t, func(t *testing.T, suite string) {
		t.Run("deb", func(t *testing.T) { liveRunner(serverWithout(t, suite), debs) })
		if nightly.Is() || suite == bed.Oldest { // the systemd of most servers with rpm
			t.Run("rpm", func(t *testing.T) { liveRunner(serverWithout(t, suite), rpms) })
		}
	})
}

// serverWithout is a machine with the packages of Debian that codex-runner needs, and a user.
func serverWithout(t *testing.T, suite string) *bed.Bed {
	t.Helper()
	m := machine.Boot(t, machine.Debian(suite, "git", "python3", "python3-pip"), machine.Options{Units: []string{"codex-*"}})
	m.MustRun(t, "useradd", "--create-home", "alice")
	m.MustRun(t, "systemctl", "start", "polkit") // it makes directories of its own
	return &bed.Bed{Machine: m, T: t}
}

// liveRunner goes through an image, an installation, commands, an upgrade, a mistake, a downgrade, a removal, another
// installation, and a purge.
func liveRunner(b *bed.Bed, p bed.Packager) {
	t, before := b.T, bed.Files(b)
	assert.Contains(t, bed.InstallInImage(b, p), "members of the group codex-runner may run commands")
	p.Purge(b)
	assert.Empty(t, bed.FilesSince(b, before), "what a purge of the image leaves")

	assert.Contains(t, bed.MustPrint(b, append(p.Command, bed.CopyPackage(b, p.Now))...), "usermod --append --groups codex-runner NAME")
	b.MustRun(t, "usermod", "--append", "--groups", "codex-runner", "alice")
	assertRunner(b)
	assertUnits(b)

	session, run := sessionThatRuns(b), b.Properties(runnerService, "MainPID")
	socket := b.Properties(runnerSocket, "InvocationID")
	b.AppendTo(config.Path, "# mine\n")
	p.Install(b, p.Next)
	assert.NotEqual(t, run, b.Properties(runnerService, "MainPID"), "the daemon is another one")
	assert.Equal(t, socket, b.Properties(runnerSocket, "InvocationID"), "the socket stays")
	assert.Contains(t, b.MustRun(t, "cat", config.Path), "# mine\n", "an edited file is kept")
	session.assertRuns()
	assertRunner(b)

	b.MustRun(t, "sed", "-i", "1imax_session = 3", config.Path)
	assert.Contains(t, p.Install(b, p.Next), "codex-runner: the service does not run, for what systemctl status codex-runner says; mend that")
	assertRefused(b, `Failed: /etc/codex-runner/runner.toml:1: unknown key "max_session" \(did you mean "max_sessions"\?\)`)
	session.assertRuns()
	b.MustRun(t, "sed", "-i", "1d", config.Path)
	p.Install(b, p.Now)
	assertRunner(b)

	schemaOfStore(b, "+ 1")
	assert.Contains(t, p.Install(b, p.Now), "the service does not run")
	assertRefused(b, `Failed: cannot use /var/lib/codex-runner/runner.db: it was written by a newer version \(schema \d+, this one knows \d+\); install that version`)
	session.assertRuns()
	schemaOfStore(b, "- 1")
	b.MustRun(t, "systemctl", "start", runnerService)
	session.assertRuns()

	p.Remove(b)
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--no-legend", "codex*"), "what a removal leaves")
	assert.Empty(t, b.MustRun(t, "sh", "-c", "ps -e -o args= | grep '[c]odex-\\|[s]leep' || true"))
	assert.Equal(t, "begun\n", b.MustRun(t, "cat", paths.StateDir+"/"+paths.CommandDir(session.id, 1)+"/"+paths.Output))

	p.Install(b, p.Now)
	assertRunner(b)
	shown := b.MustRun(t, "codex-runner", "show", session.id)
	assert.NotContains(t, shown, "running")
	sessionThatRuns(b)
	p.Purge(b)
	assert.Empty(t, bed.FilesSince(b, before), "what a purge leaves")
	assert.Empty(t, b.MustRun(t, "systemctl", "list-units", "--all", "--no-legend", "codex*"))
	assert.Empty(t, b.MustRun(t, "sh", "-c", "ps -e -o args= | grep '[c]odex-\\|[s]leep' || true"))
}

// assertRunner asserts that the service runs, at boot as well, and that a user's command does.
func assertRunner(b *bed.Bed) {
	t := b.T
	t.Helper()
	for _, unit := range []string{runnerSocket, runnerService} {
		assert.Equal(t, "enabled", bed.Trim(b.MustRun(t, "systemctl", "is-enabled", unit)))
		assert.Equal(t, "active", b.Properties(unit, "ActiveState")["ActiveState"], unit)
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
func assertUnits(b *bed.Bed) {
	t := b.T
	t.Helper()
	units := []string{runnerSocket, runnerService, "codex-sessions.slice"}
	rows := bed.SecurityRows(t, `^codex-(runner|session|repository|environment|sweep)\S*\.service$`)
	require.Len(t, rows, 7)
	for _, row := range rows[1:] {
		units = append(units, strings.Replace(row[0], "@", "@abcdefghijklmnop", 1))
	}
	stdout, stderr, err := b.Run(t.Context(), append([]string{"systemd-analyze", "verify", "--man=no"}, units...)...)
	assert.NoError(t, err)
	assert.Empty(t, bed.UnknownBefore254.ReplaceAllString(stdout+stderr, ""))
	for _, row := range rows {
		unit := strings.Replace(row[0], "@", "@abcdefghijklmnop", 1)
		out := b.MustRun(t, "systemd-analyze", "security", "--no-pager", unit)
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		require.NotNil(t, m, out)
		t.Logf("%s: %s", unit, m[1])
		assert.LessOrEqual(t, bed.Seconds(t, m[1]), bed.Seconds(t, strings.TrimSpace(row[1])), out)
	}
}

// assertRefused asserts that the service has ended for a reason that another try would find again.
func assertRefused(b *bed.Bed, status string) {
	b.T.Helper()
	shown := b.Properties(runnerService, "ActiveState", "ExecMainStatus", "StatusText", "NRestarts")
	assert.Equal(b.T, "failed", shown["ActiveState"])
	assert.Equal(b.T, "78", shown["ExecMainStatus"])
	assert.Equal(b.T, "0", shown["NRestarts"])
	assert.Regexp(b.T, status, shown["StatusText"])
}

// schemaOfStore changes the version of the store, while the service does not use it.
func schemaOfStore(b *bed.Bed, change string) {
	b.T.Helper()
	b.MustRun(b.T, "systemctl", "stop", runnerService)
	b.MustRun(b.T, "runuser", "-u", "codex-runner", "--", "python3", "-c", `import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
version, = db.execute("PRAGMA user_version").fetchone()
db.execute(f"PRAGMA user_version = {eval(f'{version} {sys.argv[2]}')}")
db.commit()`, paths.StateDir+"/runner.db", change)
}

// runningSession is a session of alice with one command, which goes on.
type runningSession struct {
	*bed.Bed
	id   string
	unit map[string]string
}

func sessionThatRuns(b *bed.Bed) *runningSession {
	b.T.Helper()
	id := bed.Trim(b.MustRun(b.T, "runuser", "-u", "alice", "--", "codex-runner", "run", "--detach", "--", "sh", "-c", "echo begun; exec sleep 4321"))
	require.NoError(b.T, paths.CheckID(id))
	s := &runningSession{Bed: b, id: id}
	b.UntilShow(paths.SessionUnit(id), "ActiveState", "active")
	s.unit = b.Properties(paths.SessionUnit(id), "InvocationID", "MainPID", "ActiveState")
	return s
}

// assertRuns asserts that the command of the session still runs.
func (s *runningSession) assertRuns() {
	s.T.Helper()
	assert.Equal(s.T, s.unit, s.Properties(paths.SessionUnit(s.id), "InvocationID", "MainPID", "ActiveState"))
}
