package runner

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// writer writes lines to its output and to a file, both in the same order, until the file "stop" is there.
const writer = `$| = 1; open W, ">written"; for (my $i = 0; !-e "stop"; $i++) { my $l = "line $i " . ("x" x ($i % 97)) . "\n";
syswrite STDOUT, $l; syswrite W, $l; select undef, undef, undef, 0.05 } `

// Connections of followers take so many bytes at most, those of big outputs more.
const cutAfter, bigCutAfter = 20_000, 4_000_000

// sessionCrowd is a number of sessions that run at the same time.
type sessionCrowd struct {
	*daemonBed
	ids     []string
	wants   []ends.Word
	writes  []bool // whether it runs writer
	follows []<-chan *logCollector
}

// join adds a session, which a follower follows.
func (c *sessionCrowd) join(n wire.NewSession, want ends.Word, writes bool) {
	s := c.create(n)
	most := cutAfter
	if !writes {
		most = bigCutAfter
	}
	c.follows = append(c.follows, c.collect(s.ID, len(c.ids), most))
	c.ids, c.wants, c.writes = append(c.ids, s.ID), append(c.wants, want), append(c.writes, writes)
}

func perl(text string) wire.NewSession {
	return wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"perl", "-e", text}}}}
}

// forms is output of all kinds, and formed what makes it.
var (
	forms = bytes.Join([][]byte{bytes.Repeat([]byte("long"), 2_500_000), {'\n'}, bytes.Repeat(allBytes(), 1000),
		[]byte("\xff\xfe\nno newline")}, nil)
	formed = `print "long" x 2_500_000, "\n"; print map { chr } 0..255 for 1..1000; print "\xff\xfe\nno newline"`
)

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// newCrowd has 32 sessions that run: each kind of end, and 25 that only write. More wait.
func newCrowd(t *testing.T, suite string) *sessionCrowd {
	t.Helper()
	c := &sessionCrowd{daemonBed: newDaemonBed(t, suite)}
	require.NoError(t, c.WriteFile("/etc/codex-runner/runner.toml", []byte("max_sessions = 32\nworkspaces = 40\n"), 0o644))
	require.NoError(t, c.WriteFile("/run/systemd/system/"+runnerService+".d/limit.conf",
		[]byte("[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=50ms\nRestartSteps=0\n"), 0o644))
	c.MustRun(t, "systemctl", "daemon-reload")
	for n := range 25 {
		want := ends.Failed
		if n == 0 {
			want = ends.Succeeded
		}
		c.join(perl(writer+"exit "+strconv.Itoa(n)), want, true)
	}
	c.join(perl(writer+"kill SEGV => $$; sleep 1 while 1"), ends.Signaled, true)
	c.join(perl(writer+"kill KILL => getppid; sleep 1 while 1"), ends.Lost, true)
	c.join(perl(writer), ends.Cancelled, true)
	limited := script("exec yes")
	limited.Limits.Output = 1_000_000
	c.join(limited, ends.OutputLimit, false)
	late := script("exec sleep 4321")
	late.Limits.Timeout = wire.Duration(3 * time.Second)
	c.join(late, ends.TimedOut, false)
	two := perl(writer)
	two.Commands = append(two.Commands, wire.NewCommand{Args: []string{"cat", "written"}})
	c.join(two, ends.Succeeded, true)
	c.join(perl(writer), ends.Succeeded, true)
	require.Len(t, c.ids, 32)
	for range 2 {
		c.join(perl(formed), ends.Succeeded, false)
	}
	for i, id := range c.ids {
		if c.writes[i] {
			c.until(id, 1, wire.CommandRunning)
		}
	}
	return c
}

// slots returns the trees of the workspaces of all sessions, by these.
func (c *sessionCrowd) slots() map[string]string {
	trees := map[string]string{}
	tenants := c.MustRun(c.t, "grep", "--recursive", "--include="+paths.Tenant, "", paths.Workspaces)
	for line := range strings.Lines(tenants) {
		file, id, _ := strings.Cut(strings.TrimSpace(line), ":")
		trees[strings.TrimRight(id, paths.Settled)] = filepath.Join(filepath.Dir(file), paths.Tree)
	}
	return trees
}

// disturb kills the daemon, restarts it, or replaces its program.
func (c *sessionCrowd) disturb(n int) {
	c.t.Helper()
	switch n % 10 {
	case 3:
		c.MustRun(c.t, "systemctl", "restart", runnerService)
	case 6: // as the upgrade of the package
		for _, program := range runnerPrograms {
			c.MustRun(c.t, "sh", "-ec", "cp -p $0 $0.new; mv $0.new $0", program)
		}
		c.MustRun(c.t, "systemctl", "daemon-reload")
		c.MustRun(c.t, "systemctl", "try-restart", runnerService)
	case 8:
		c.MustRun(c.t, "systemctl", "daemon-reexec")
	}
	_ = c.Kill(c.t.Context(), runnerService, unix.SIGKILL)                                      // it may just start
	for status, pace := 0, (await.Pace{}); status != http.StatusOK; pace.Pause(c.t.Context()) { // of the next daemon
		status, _, _ = c.try(http.MethodGet, "/v1/status", nil)
	}
}

// TestRunnerChaos kills, restarts and upgrades the daemon while 32 sessions run, which write. All logs are those bytes that
// were written, each follower gets each byte once, over cuts of its own, too, and each command has its end.
func TestRunnerChaos(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		began := time.Now()
		c := newCrowd(t, suite)
		running := time.Now()
		kills := nightly.Or(50, 20) // each kind of fault, as disturb takes turns
		for n := range kills {
			c.disturb(n)
		}
		disturbed := time.Now()
		trees := c.slots()
		for i, id := range c.ids {
			switch {
			case !c.writes[i]:
			case c.wants[i] == ends.Cancelled:
				c.send(http.MethodPost, "/v1/sessions/"+id+"/cancel", wire.Cancel{Command: 1}, nil)
			default:
				require.Contains(t, trees, id)
				require.NoError(t, c.WriteFile(trees[id]+"/stop", nil, 0o644))
			}
		}
		connections := 0
		for i, id := range c.ids {
			got := c.collected(c.follows[i])
			connections += got.connections
			output, command := c.follow(id, 1)
			assert.Equal(t, c.wants[i], command.Outcome.Word, "%d: %s", i, command.Outcome.Text)
			if i < 25 {
				assert.Equal(t, i, command.Outcome.Status, command.Outcome.Text)
			}
			assert.True(t, bytes.Equal(output, got.got), "session %d: the follower got other bytes (%d, %d): %.100q", i, len(got.got), len(output),
				got.got[max(0, len(got.got)-100):])
			switch {
			case c.writes[i]:
				written, err := c.ReadFile(trees[id] + "/written")
				require.NoError(t, err)
				assert.True(t, bytes.Equal(written, output), "session %d: %d bytes are written, %d are in the log", i, len(written), len(output))
			case i >= 32:
				assert.True(t, bytes.Equal(forms, output), "session %d: other bytes", i)
			}
		}
		second, command := c.follow(c.ids[30], 2)
		assert.Equal(t, ends.Succeeded, command.Outcome.Word, command.Outcome.Text)
		first, _ := c.follow(c.ids[30], 1)
		assert.Equal(t, string(first), string(second))
		t.Logf("%s: %d followers made %d connections; all ran after %v, %d kills took %v, the ends %v", suite, len(c.ids), connections,
			running.Sub(began), kills, disturbed.Sub(running), time.Since(disturbed))
	})
}
