package runner

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// escapes are commands that do all to outlive their timeout: each leaves processes named "outlive".
var escapes = []string{
	`f() { outlive 1234 & f; }; f`, // a bomb, up to the limit of tasks
	`trap "" TERM INT HUP; setsid setsid outlive 1234 & while :; do outlive 1234; done`,
	`(setsid sh -c 'trap "" TERM; (outlive 1234 &); outlive 1234' &) ; wait; exec outlive 1234`,
	`setsid outlive 1234 & echo held`, // ends by itself, and leaves a process that holds the pipes
}

// sessionsOr is the number of sessions of a test: CODEX_RUNNER_SESSIONS, or usual. The goal is 1000 in a row, and 200 at once.
func sessionsOr(t *testing.T, usual int) int {
	t.Helper()
	if text := os.Getenv("CODEX_RUNNER_SESSIONS"); text != "" {
		_, err := fmt.Sscan(text, &usual)
		require.NoError(t, err)
	}
	return usual
}

// leftoversProject is a repository with a set-up that leaves about 1 MB, in the workspace and in HOME.
const leftoversProject = `mkdir /srv/app; cd /srv/app; git init -q -b main; git config user.name t; git config user.email t@t
printf 'run = "sh make.sh"\ninputs = ["make.sh"]\n' >.codex-runner.toml; echo /made >.gitignore
echo 'head -c 600000 /dev/zero >made; head -c 600000 /dev/zero >$HOME/made' >make.sh; git add .; git commit -qm first
git daemon --base-path=/srv --export-all --listen=127.0.0.1 --reuseaddr --detach`

// TestRunnerLeftovers runs many sessions whose commands try to outlive them: no process is left, and nothing piles up.
// Every second session begins with a snapshot and changes it; there are more snapshots than there is room for.
func TestRunnerLeftovers(t *testing.T) {
	number := sessionsOr(t, 40)
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite, "git")
		b.MustRun(t, "sh", "-ec", "cp /usr/bin/sleep /usr/bin/outlive\n"+leftoversProject+"\n"+ownFileSystem)
		environmentsBed{b}.set("[environments]\nnetwork = \"none\"\nmax_bytes = \"3M\"\n")
		var before leftovers
		began, ends := time.Now(), map[ends.Word]int{}
		for n, batch := 0, 20; n < number; n += batch {
			var ids []string
			commit := strings.TrimSpace(b.MustRun(t, "sh", "-ec", fmt.Sprintf(
				"cd /srv/app; echo '# %d' >>make.sh; git commit -qam next; git rev-parse HEAD", n)))
			for i := range batch {
				s := script(escapes[i/2%len(escapes)])
				if i%2 == 0 {
					s = script("rm -r made; echo own >own; echo more >>$HOME/made; " + escapes[i/2%len(escapes)])
					s.Repository, s.Ref, s.Environment = "git://127.0.0.1/app", commit, "setup"
				}
				s.Limits = wire.Limits{Timeout: wire.Duration(200 * time.Millisecond), Grace: wire.Duration(100 * time.Millisecond), Tasks: 40}
				ids = append(ids, b.create(s).ID)
			}
			for _, id := range ids {
				_, c := b.follow(id, 1)
				ends[c.Outcome.Word]++
				b.send(http.MethodPost, "/v1/sessions/"+id+"/cancel", wire.Cancel{}, nil)
			}
			// The sweeps come one after the other: none runs between two of them.
			b.MustRun(t, "sh", "-c", "while ls -A "+paths.PrivateStates+"/codex-session | grep -q .; do sleep 0.02; done")
			b.gone("codex-session*@*", "codex-sweep@*")
			if n == 0 {
				before = b.leftovers()
			}
		}
		after := b.leftovers()
		t.Logf("%s: %d sessions in %v: %v; before %+v, after %+v", suite, number, time.Since(began), ends, before, after)
		assert.Empty(t, after.processes)
		assert.Empty(t, after.units)
		assert.Empty(t, after.runtime)
		assert.Empty(t, after.mounts)
		assert.Empty(t, after.directories)
		assert.LessOrEqual(t, after.snapshots, 2, "of a bound of 3 MB")
		var status wire.Status
		b.send(http.MethodGet, "/v1/status", nil, &status)
		assert.EqualValues(t, number/2, status.SnapshotHits+status.SnapshotMisses, "sessions began with a snapshot")
		assert.Equal(t, after.snapshots, status.Snapshots)
		assert.LessOrEqual(t, after.files, before.files+10, "open files of the daemon")
	})
}

// leftovers is what sessions may leave.
type leftovers struct {
	processes []string
	units     string
	runtime   string // files and directories of single sessions
	mounts    string // of the host
	// directories belong to one session or build each; snapshots are whole.
	directories string
	snapshots   int
	files       int // open in the daemon
	memory      int // kB, of the daemon
}

// gone waits until systemd has no unit that matches a pattern. A command has ended before its unit.
func (b *daemonBed) gone(patterns ...string) {
	b.t.Helper()
	list := append([]string{"systemctl", "list-units", "--all", "--no-legend", "--plain"}, patterns...)
	await.True(b.t, func() bool { return b.MustRun(b.t, list...) == "" }, bed.Bound, strings.Join(patterns, " ")+" stay")
}

func (b *daemonBed) leftovers() leftovers {
	b.t.Helper()
	var l leftovers
	processes, err := b.Processes("")
	require.NoError(b.t, err)
	for _, p := range processes {
		if strings.Contains(p.Command, "outlive") || strings.Contains(p.Command, "session-exec") {
			l.processes = append(l.processes, p.Command)
		}
	}
	l.units = b.MustRun(b.t, "systemctl", "list-units", "--all", "--no-legend", "--plain", "codex-session*@*", "codex-sweep@*")
	l.runtime = b.MustRun(b.t, "sh", "-c", "ls -A "+strings.Join([]string{paths.Sessions, paths.SystemControl, paths.Secrets,
		paths.RuntimeDir + "/sessions", paths.Repositories, "/run/systemd/dynamic-uid"}, " ")+" 2>/dev/null | grep -E '[a-z2-7]{16}|cs-' || :")
	l.mounts = b.MustRun(b.t, "sh", "-c", "grep 'codex-session\\|codex-workspace' /proc/mounts || :")
	l.directories = b.MustRun(b.t, "sh", "-c", "find "+paths.Workspaces+" -maxdepth 2 -name 'home-*' -o -maxdepth 2 -name 'work*' -o -maxdepth 2 -name 'new-*'; ls -A "+
		paths.PrivateStates+"/codex-environment-build "+paths.EnvironmentStates+" | grep build- || :")
	snapshots := b.MustRun(b.t, "sh", "-c", "ls -d "+paths.EnvironmentStates+"/setup-*/* | wc -l")
	_, err = fmt.Sscan(snapshots, &l.snapshots)
	require.NoError(b.t, err)
	pid, err := b.MainPID(b.t.Context(), runnerService)
	require.NoError(b.t, err)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(b.t, err)
	l.files = len(open)
	l.memory, _ = bed.MemoryOf(b.t, machine.Process{Host: pid})
	return l
}

// TestRunnerManySessions has many sessions that run, and 10 000 in the store. It logs what a list of sessions takes, and what
// the daemon and the main process of a session need.
func TestRunnerManySessions(t *testing.T) {
	bed.Alone(t)
	number := sessionsOr(t, 40)
	b := newDaemonBed(t, bed.Newest)
	settings := fmt.Sprintf("max_sessions = %d\nworkspaces = %d\n", number, number)
	require.NoError(t, b.WriteFile("/etc/codex-runner/runner.toml", []byte(settings), 0o644))
	b.fill(10_000)
	var ids []string
	began := time.Now()
	for range number {
		ids = append(ids, b.create(script("echo running; exec sleep 4321")).ID)
	}
	for _, id := range ids {
		b.until(id, 1, wire.CommandRunning)
	}
	t.Logf("%d sessions run after %v", number, time.Since(began))
	var lists []time.Duration
	for range 20 {
		began := time.Now()
		var page struct{ Sessions []wire.Session }
		b.send(http.MethodGet, "/v1/sessions", nil, &page)
		lists = append(lists, time.Since(began))
		require.NotEmpty(t, page.Sessions)
	}
	slices.Sort(lists)
	pid, err := b.MainPID(t.Context(), runnerService)
	require.NoError(t, err)
	resident, anonymous := bed.MemoryOf(t, machine.Process{Host: pid})
	pid, err = b.MainPID(t.Context(), paths.SessionUnit(ids[number/2]))
	require.NoError(t, err)
	_, private := bed.MemoryOf(t, machine.Process{Host: pid})
	t.Logf("a list takes %v (median; at most %v); the daemon has %d kB, of which %d kB are no file; a main process %d kB that are no file",
		lists[10], lists[19], resident, anonymous, private)
	assert.Less(t, resident, 80<<10, "kB: twice the goal")
	assert.Less(t, private, 16<<10, "kB: twice the goal")
}

// fill gives the store so many closed sessions: copies of one.
func (b *daemonBed) fill(number int) {
	b.t.Helper()
	s := b.create(script("exit 0"))
	b.follow(s.ID, 1)
	b.send(http.MethodPost, "/v1/sessions/"+s.ID+"/cancel", wire.Cancel{}, nil)
	b.MustRun(b.t, "systemctl", "stop", runnerService)
	const file = paths.StateDir + "/runner.db"
	content, err := b.ReadFile(file)
	require.NoError(b.t, err)
	local := filepath.Join(b.t.TempDir(), "runner.db")
	require.NoError(b.t, os.WriteFile(local, content, 0o600))
	db, err := sql.Open("sqlite", local)
	require.NoError(b.t, err)
	tx, err := db.Begin()
	require.NoError(b.t, err)
	for _, text := range []string{
		"CREATE TEMP TABLE s AS SELECT * FROM sessions", "CREATE TEMP TABLE c AS SELECT * FROM commands", "UPDATE s SET state = 'closed'",
	} {
		_, err := tx.Exec(text)
		require.NoError(b.t, err)
	}
	digits := strings.NewReplacer("0", "a", "1", "b", "8", "c", "9", "d")
	for n := range number {
		id := digits.Replace(fmt.Sprintf("%016d", n))
		for _, text := range []string{
			"UPDATE s SET seq = NULL, id = ?", "UPDATE c SET session = ?",
			"INSERT INTO sessions SELECT * FROM s WHERE id = ?", "INSERT INTO commands SELECT * FROM c WHERE session = ?",
		} {
			_, err := tx.Exec(text, id)
			require.NoError(b.t, err)
		}
	}
	require.NoError(b.t, tx.Commit())
	require.NoError(b.t, db.Close())
	content, err = os.ReadFile(local)
	require.NoError(b.t, err)
	require.NoError(b.t, b.WriteFile(file, content, 0o600))
	b.MustRun(b.t, "chown", "codex-runner:codex-runner", file)
}
