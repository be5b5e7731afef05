package dependencies

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// pgPort is the port of the preset.
const pgPort = "5433"

// postgres is Debian's PostgreSQL by the packaged preset.
type postgres struct {
	bed.Dependency
	bin string // the directory of its programs
}

func newPostgres(t *testing.T, suite string) *postgres {
	t.Helper()
	b := bed.NewOn(t, servers(suite), bed.RealWorker, "")
	bin := filepath.Dir(bed.Trim(b.MustRun(t, "sh", "-c", "echo /usr/lib/postgresql/*/bin/postgres")))
	return &postgres{preset(b, "postgresql", "postgresql"), bin}
}

// client is a command line of a program of PostgreSQL.
func (p *postgres) client(program string, args ...string) []string {
	return append([]string{"runuser", "--user=postgres", "--", "env", "PGHOST=/run/codex-dependency/postgresql",
		"PGPORT=" + pgPort, p.bin + "/" + program}, args...)
}

// ask runs a query.
func (p *postgres) ask(sql string) (string, error) {
	ctx, cancel := context.WithTimeout(p.T.Context(), bed.Bound)
	defer cancel()
	out, _, err := p.Run(ctx, p.client("psql", "--no-psqlrc", "--no-align", "--tuples-only", "--quiet",
		"--set=ON_ERROR_STOP=1", "--command="+sql, "postgres")...)
	return out, err
}

func (p *postgres) query(sql string) string {
	p.T.Helper()
	out, err := p.ask(sql)
	require.NoError(p.T, err)
	return out
}

// process is the process of the unit whose command line begins with a text, and has
// another one.
func (p *postgres) process(begin, part string) machine.Process {
	p.T.Helper()
	processes, err := p.Processes(p.Unit)
	require.NoError(p.T, err)
	for _, process := range processes {
		if strings.HasPrefix(process.Command, begin) && strings.Contains(process.Command, part) {
			return process
		}
	}
	require.Fail(p.T, "no such process", "%s … %s: %+v", begin, part, processes)
	return machine.Process{}
}

func (p *postgres) postmaster() machine.Process { return p.process(p.bin+"/postgres ", "") }

// PostgreSQL by the preset: no commit that a client has got is lost, whatever is killed.
func TestPostgreSQL(t *testing.T) { bed.EitherSuite(t, testPostgreSQL) }

func testPostgreSQL(t *testing.T, suite string) {
	p := newPostgres(t, suite)
	began := time.Now()
	p.MustRun(t, "systemctl", "start", p.Unit)
	t.Logf("the first start, which makes the cluster, took %s", time.Since(began))
	assert.Equal(t, "1\n", p.query("SELECT 1"), "systemctl returns when it answers")
	assert.Equal(t, "postgres", bed.Trim(p.MustRun(t, "stat", "--format=%U", p.State+"/data")))
	p.assertClosed(t)

	load := p.load()
	t.Run("kill", func(t *testing.T) { p.killed(t, load) })
	t.Run("stop", func(t *testing.T) { p.stopped(t, load) })
	t.Run("hang", func(t *testing.T) { p.hung(t) })
	t.Run("one owner", func(t *testing.T) { p.oneOwner(t) })
	t.Run("neighbour", func(t *testing.T) { p.neighbour(t) })
}

// assertClosed asserts that nobody gets in without a password or the system's word.
func (p *postgres) assertClosed(t *testing.T) {
	for _, args := range [][]string{
		{"runuser", "--user=postgres", "--", "psql", "--host=127.0.0.1", "--port=" + pgPort, "--no-password",
			"--list"},
		{"runuser", "--user=nobody", "--", "psql", "--host=/run/codex-dependency/postgresql", "--port=" + pgPort,
			"--username=postgres", "--no-password", "--list"},
	} {
		_, _, err := p.Run(t.Context(), args...)
		assert.Error(t, err, "%v", args)
	}
}

// killed kills the postmaster, one session and the process that supervises them, under load.
func (p *postgres) killed(t *testing.T, load *pgLoad) {
	load.reach(200)
	for name, find := range map[string]func() machine.Process{
		"postmaster": p.postmaster, "notify-exec": func() machine.Process { return supervisor(p.Dependency) },
	} {
		before := p.RunID()
		at := clock()
		p.Signal(find(), unix.SIGKILL)
		t.Logf("kill of %s to ready: %s", name, p.ReadyAgain(before)-at)
		load.reach(200)
	}
	before, restarts := p.RunID(), p.Properties(p.Unit, "NRestarts")
	session := p.process("postgres: ", " postgres postgres ") // user and database
	at := p.Signal(session, unix.SIGKILL)
	p.AwaitJournal(p.Unit, fmt.Sprintf("PID %d) was terminated by signal 9", session.Inside), bed.Bound)
	load.reach(200)
	t.Logf("kill of a session to 200 more transactions: %s", time.Since(at))
	assert.Equal(t, before, p.RunID(), "PostgreSQL recovers by itself")
	assert.Equal(t, restarts, p.Properties(p.Unit, "NRestarts"))
}

// stopped stops PostgreSQL while clients are connected: it does not wait for them.
func (p *postgres) stopped(t *testing.T, load *pgLoad) {
	began := time.Now()
	p.MustRun(t, "systemctl", "stop", p.Unit)
	t.Logf("the stop with clients took %s", time.Since(began))
	load.end()
	assert.Equal(t, map[string]string{"ActiveState": "inactive", "Result": "success"},
		p.Properties(p.Unit, "ActiveState", "Result"))
	journal := p.UnitJournal(p.Unit)
	assert.Contains(t, journal, "received fast shutdown request")
	assert.Contains(t, journal, "database system is shut down")
	p.MustRun(t, "systemctl", "start", p.Unit)
	assert.NotContains(t, p.since(t), "recovery", "the stop has written everything")
	load.verify(t, 600)
}

// since is the journal of the present start.
func (p *postgres) since(t *testing.T) string {
	t.Helper()
	out, err := p.Journal(t.Context(), "_SYSTEMD_INVOCATION_ID="+p.RunID(), "--output=cat")
	require.NoError(t, err)
	return out
}

// hung stops the postmaster: the kernel goes on to accept connections for it.
func (p *postgres) hung(t *testing.T) {
	p.MustRun(t, "sed", "-i", "-e", `s/^# interval = .*/interval = "1s"/`,
		"-e", `s/^timeout = .*/timeout = "900ms"/`, p.File)
	p.MustRun(t, "systemctl", "daemon-reload")
	p.MustRun(t, "systemctl", "restart", p.Unit)
	before := p.RunID()
	at := clock()
	stopServer(p.Dependency, p.postmaster(), "127.0.0.1:"+pgPort)
	t.Logf("hang to ready: %s", p.ReadyAgain(before)-at)
	assert.Contains(t, p.UnitJournal(p.Unit), "Watchdog timeout")
	assert.Equal(t, "1\n", p.query("SELECT 1"))
}

// oneOwner asserts that the data have one postmaster, and that an error names it.
func (p *postgres) oneOwner(t *testing.T) {
	text, err := p.ReadFile(p.File)
	require.NoError(t, err)
	second := strings.NewReplacer("{state}", p.State, pgPort, "5434", `# lock = ""`,
		fmt.Sprintf("lock = %q", p.State+"/.lock")).Replace(string(text))
	require.NoError(t, p.WriteFile(filepath.Dir(p.File)+"/second.toml", []byte(second), 0o644))
	p.MustRun(t, "systemctl", "daemon-reload")
	server := p.postmaster().Host
	p.refused(t, "codex-dependency@second.service", p.Unit)
	assert.Equal(t, server, p.postmaster().Host, "the refusal leaves it alone")

	p.MustRun(t, "systemctl", "stop", p.Unit)
	p.MustRun(t, "systemd-run", "--unit=by-hand", "--property=User=postgres", "--", p.bin+"/postgres", "-D",
		p.State+"/data", "-c", "port=5435", "-c", "unix_socket_directories=/tmp")
	p.AwaitJournal("by-hand.service", "database system is ready to accept connections", bed.Bound)
	p.refused(t, p.Unit, "by-hand.service")
	p.MustRun(t, "systemctl", "stop", "by-hand.service")
	p.MustRun(t, "systemctl", "start", p.Unit)
}

// refused asserts that a start fails because of a process of another unit.
func (p *postgres) refused(t *testing.T, unit, holder string) {
	t.Helper()
	_, _, err := p.Run(t.Context(), "systemctl", "start", unit)
	require.Error(t, err)
	status := p.Properties(unit, "StatusText")["StatusText"]
	t.Log(status)
	processes, err := p.Processes(holder)
	require.NoError(t, err)
	named := false
	for _, process := range processes {
		named = named || strings.Contains(status, fmt.Sprintf("held by pid %d (", process.Inside))
	}
	assert.True(t, named, "%s, not one of %v", status, processes)
	assert.Contains(t, status, "unit "+holder)
	assert.Equal(t, map[string]string{"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "75"},
		p.Properties(unit, "ActiveState", "NRestarts", "ExecMainStatus"))
}

// neighbour asserts that a stop leaves Debian's own cluster of the same user alone.
func (p *postgres) neighbour(t *testing.T) {
	p.MustRun(t, "sh", "-c", "pg_ctlcluster $(pg_lsclusters --no-header | cut -d' ' -f1,2) start")
	shared := func() string { // of a segment its key, id, mode, size and maker: others change as processes come and go
		return p.MustRun(t, "sh", "-c",
			"awk '{ print $1, $2, $3, $4, $5 }' /proc/sysvipc/shm; find /dev/shm -name 'PostgreSQL*' -user postgres | sort")
	}
	p.MustRun(t, "systemctl", "stop", p.Unit)
	before := shared()
	assert.Contains(t, before, "PostgreSQL")
	p.MustRun(t, "systemctl", "start", p.Unit)
	p.MustRun(t, "systemctl", "stop", p.Unit)
	assert.Equal(t, before, shared())
	p.MustRun(t, "sh", "-c", "pg_ctlcluster $(pg_lsclusters --no-header | cut -d' ' -f1,2) stop")
}
