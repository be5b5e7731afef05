package dependencies

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// server is a small real server, in the Perl of every Debian: it listens on a port of 127.0.0.1 and writes to a file.
const server = `#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
my ($port, $file) = @ARGV;
open(my $data, '+>>', $file) or die "cannot open $file: $!\n";
my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 9, ReuseAddr => 1)
	or die "cannot listen: $!\n";
$| = 1;
print "serves\n";
while (my $client = $socket->accept) { close $client }
`

const (
	serverPath = "/usr/local/bin/server"
	sharedDir  = "/srv/shared" // for several users
)

// serverBed has the server and a directory that all users share. Nothing runs yet.
func serverBed(t *testing.T, suite string, binds ...machine.Bind) *bed.Bed {
	t.Helper()
	b := bed.New(t, suite, bed.RealWorker, "", binds...)
	require.NoError(t, b.WriteFile(serverPath, []byte(server), 0o755))
	b.MustRun(t, "install", "-d", "-m", "0777", sharedDir)
	b.MustRun(t, "install", "-m", "0666", "/dev/null", sharedDir+"/data.db")
	return b
}

// serves is the file of a dependency that runs the server.
func serves(port int, file string, more ...string) string {
	return fmt.Sprintf("command = [%q, %q, %q]\nports = [%d]\n", serverPath, fmt.Sprint(port), file, port) +
		strings.Join(more, "\n") + fmt.Sprintf("\n[probe]\ncheck = \"tcp:127.0.0.1:%d\"\ninterval = \"1s\"\n", port)
}

// prepares is the line of a file with a command before each start.
const prepares = `prepare = ["touch", "` + sharedDir + `/prepared"]` + "\n"

const inShared = `directories = ["` + sharedDir + `"]`

// isRefused asserts that a start is refused, at once and for good, and names the process.
func isRefused(d bed.Dependency, what string, holder machine.Process, unit string) {
	d.T.Helper()
	shown := refused(d)
	command := holder.Command[:min(len(holder.Command), 40)] // a longer one is shortened
	want := fmt.Sprintf("Not started: %s held by pid %d (%s", what, holder.Inside, command)
	assert.Contains(d.T, shown["StatusText"], want)
	assert.Contains(d.T, shown["StatusText"], "), unit "+unit+": end that first, then start this unit")
	delete(shown, "StatusText")
	assert.Equal(d.T, map[string]string{"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "75",
		"NRestarts": "0"}, shown)
	assert.Contains(d.T, d.UnitJournal(d.Unit), strings.TrimPrefix(want, "Not started: "))
}

// Two dependencies with the same lock, port or data: the second is refused, and names the first. Each has a user of
// its own.
func TestDependencyHasOneOwner(t *testing.T) { bed.BothSuites(t, testDependencyHasOneOwner) }

func testDependencyHasOneOwner(t *testing.T, suite string) {
	b := serverBed(t, suite)
	const lock = `lock = "/srv/locks/one"`
	b.MustRun(t, "install", "-d", "/srv/locks")
	first := bed.NewDependency(b, "first", serves(7001, sharedDir+"/data.db", lock, inShared))
	first.Start()
	holder := serverProcess(first)
	for what, settings := range map[string]string{
		"the lock /srv/locks/one is":            serves(7002, "{state}/other.db", lock),
		"port 7001 is":                          serves(7001, "{state}/other.db"),
		"/srv/shared/data.db is":                serves(7002, sharedDir+"/other.db", inShared),
		"port 7001 and /srv/shared/data.db are": serves(7001, sharedDir+"/data.db", inShared),
		"the lock /srv/locks/one, port 7001 and /srv/shared/data.db are": serves(7001, sharedDir+"/data.db", lock,
			inShared),
	} {
		isRefused(bed.NewDependency(b, "second", prepares+settings), what, holder, first.Unit)
	}
	const none = `directories = ["/srv/none"]`
	assert.Equal(t, "Not started: /etc/codex-proxy/dependencies/second.toml: directories: /srv/none is not a "+
		"directory: make it, and give it to the user cd-second",
		refused(bed.NewDependency(b, "second", prepares+serves(7002, "{state}/other.db", none)))["StatusText"])
	away := strings.Replace(serves(7002, "{state}/other.db"), serverPath, "/opt/away", 1)
	assert.Equal(t, "Not started: /etc/codex-proxy/dependencies/second.toml: command: there is no program /opt/away: "+
		"install it, or name its path, and run `systemctl daemon-reload`",
		refused(bed.NewDependency(b, "second", prepares+away))["StatusText"])
	_, _, err := b.Run(t.Context(), "test", "-e", sharedDir+"/prepared")
	require.Error(t, err, "the prepare command of a refused start is not run")
	assert.Equal(t, holder, serverProcess(first), "the first one is untouched")

	second := bed.NewDependency(b, "second", prepares+serves(7001, sharedDir+"/data.db", lock, inShared))
	stopDependency(first)
	second.Start()
	b.MustRun(t, "test", "-e", sharedDir+"/prepared")
	isRefused(first, "the lock /srv/locks/one, port 7001 and /srv/shared/data.db are", serverProcess(second), second.Unit)
	stopDependency(second)
	first.Start()
}

// A server that was started by hand is found by its port or its data, and named. After its end the start succeeds,
// although one was refused.
func TestDependencyBesideAServerByHand(t *testing.T) {
	bed.BothSuites(t, testDependencyBesideAServerByHand)
}

func testDependencyBesideAServerByHand(t *testing.T, suite string) {
	b := serverBed(t, suite)
	d := bed.NewDependency(b, "mine", serves(7001, "{state}/data.db"))
	d.Start()
	stopDependency(d)
	for what, args := range map[string][]string{
		"port 7001 is":                              {"7001", "/root/other.db"},
		d.State + "/data.db is":                     {"7002", d.State + "/data.db"},
		"port 7001 and " + d.State + "/data.db are": {"7001", d.State + "/data.db"},
	} {
		isRefusedBeside(d, what, append([]string{serverPath}, args...))
		d.Start()
		stopDependency(d)
	}
}

// isRefusedBeside asserts that a start is refused while a command runs.
func isRefusedBeside(d bed.Dependency, what string, args []string) {
	d.T.Helper()
	said := &bed.Watched{Want: regexp.MustCompile("serves"), Came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- d.Exec(d.T.Context(), machine.Exec{Args: args, Stdout: said, Stderr: said}) }()
	select {
	case <-said.Came:
	case err := <-ended:
		require.NoError(d.T, err, said.String())
	}
	byHand := byCommand(d, strings.Join(args, " "))
	isRefused(d, what, byHand, "init.scope")
	d.Signal(byHand, unix.SIGKILL)
	require.Error(d.T, <-ended, "it was killed")
}

// byCommand waits for the process with a command: a shell may end before its child is the command.
func byCommand(d bed.Dependency, command string) machine.Process {
	d.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(d.T.Context()) {
		processes, err := d.Processes("")
		require.NoError(d.T, err)
		for _, p := range processes {
			if strings.HasSuffix(p.Command, command) {
				return p
			}
		}
		require.True(d.T, time.Now().Before(deadline), "no such process: %s: %+v", command, processes)
	}
}

// The lock lives as long as any process of the server: it is free after each stop and after kill -9 of all processes,
// and a child that has outlived its server keeps it.
func TestDependencyLock(t *testing.T) { bed.BothSuites(t, testDependencyLock) }

func testDependencyLock(t *testing.T, suite string) {
	b := serverBed(t, suite)
	d := bed.NewDependency(b, "mine", serves(7001, "{state}/data.db"))
	lock := d.State + "/.lock"
	free := func() bool {
		_, _, err := d.Run(t.Context(), "flock", "--nonblock", lock, "true")
		return err == nil
	}
	for range 3 {
		d.Start()
		assert.False(t, free())
		assert.Contains(t, d.MustRun(t, "ls", "-l", fmt.Sprintf("/proc/%d/fd", serverProcess(d).Inside)), "/mine/.lock")
		stopDependency(d)
		assert.True(t, free())
	}

	// The user of another unit could not open this lock, which only its own unit's user can reach.
	other := bed.NewDependency(b, "other", serves(7002, "{state}/data.db", `lock = "`+lock+`"`))
	d.Start()
	isRefused(other, "the lock "+lock+" is", serverProcess(d), d.Unit)
	run := d.RunID()
	d.MustRun(t, "systemctl", "kill", "--signal=KILL", d.Unit)
	d.ReadyAgain(run)
	assert.Equal(t, "1", d.Properties(d.Unit, "NRestarts")["NRestarts"])
	stopDependency(d)

	d.MustRun(t, "codex-proxy", "notify-exec", "--lock", "by hand:"+lock, "--", "sh", "-c",
		"sleep 654 </dev/null >/dev/null 2>&1 &")
	child := byCommand(d, "sleep 654")
	isRefused(d, "the lock "+lock+" is", child, "init.scope")
	d.Signal(child, unix.SIGKILL)
	assert.Contains(t, refused(other)["StatusText"],
		lock+": no such file or directory: name a file that this user can open")
	d.Start()
}

// Starts of what runs change nothing, and many at a time are one.
func TestDependencyStarts(t *testing.T) { bed.BothSuites(t, testDependencyStarts) }

func testDependencyStarts(t *testing.T, suite string) {
	b := serverBed(t, suite)
	d := bed.NewDependency(b, "mine", serves(7001, "{state}/data.db"))
	d.MustRun(t, "bash", "-ec", "for i in {1..8}; do systemctl start "+d.Unit+" & all+=($!); done; "+
		"for i in ${all[@]}; do wait $i; done")
	server := serverProcess(d)
	d.AwaitJournal(d.Unit, "serves\n", bed.Bound) // it says so after it listens
	assert.Equal(t, 1, strings.Count(d.UnitJournal(d.Unit), "serves\n"))
	var took bed.Sample
	for range 9 {
		took = append(took, d.Start())
	}
	t.Logf("a start of what runs: median %s", took.Quantile(0.5))
	assert.Less(t, took.Quantile(0.5), bed.Bound/18)
	assert.Equal(t, server, serverProcess(d))
	assert.Equal(t, "0", d.Properties(d.Unit, "NRestarts")["NRestarts"])
}

// crashes is the file of a dependency whose server notes the time of each of its starts, and ends at once.
func crashes(record string, more ...string) string {
	return fmt.Sprintf("command = [\"sh\", \"-c\", \"cat /proc/uptime >>%s; echo broken >&2; exit 1\"]\n%s\n", record,
		strings.Join(more, "\n")) + "[probe]\ncheck = \"tcp:127.0.0.1:7001\"\n"
}

// untilRestart waits until the unit waits for its nth restart, or a later one. Before systemd 254, which has no
// RestartSteps=, it does so in dependency-prepare, and the state auto-restart is over in a moment.
func untilRestart(d bed.Dependency, n string) {
	d.T.Helper()
	d.UntilShown(d.Unit, func(v map[string]string) bool {
		waits := v["SubState"] == "auto-restart"
		if v["RestartSteps"] == "" {
			waits = strings.HasPrefix(v["StatusText"], "Backing off until ")
		}
		return waits && len(v["NRestarts"]) >= len(n) && v["NRestarts"] >= n
	}, "SubState", "StatusText", "NRestarts", "RestartSteps")
}

// A server that crashes ten times in a row is given up, after growing delays; two commands bring it back. A stop
// inside a delay ends it.
func TestDependencyCrashLoop(t *testing.T) {
	bed.BothSuites(t, testDependencyCrashLoop)
}

func testDependencyCrashLoop(t *testing.T, suite string) {
	b := serverBed(t, suite)
	d := bed.NewDependency(b, "mine", crashes("{state}/starts"))
	d.MustRun(t, "systemctl", "start", "--no-block", d.Unit)
	untilRestart(d, "6") // the delay is 10 s
	took := stopDependency(d)
	t.Logf("a stop inside the restart delay took %s", took)
	assert.Less(t, took, bed.Bound/18)
	shown := d.Properties(d.Unit, "ActiveState", "Job")
	assert.Equal(t, map[string]string{"ActiveState": "inactive", "Job": ""}, shown, "nothing is left to do")

	d.MustRun(t, "rm", d.State+"/starts")
	d.MustRun(t, "systemctl", "start", "--no-block", d.Unit)
	d.AwaitJournal(d.Unit, "Start request repeated too quickly", 3*time.Minute)
	d.UntilShow(d.Unit, "ActiveState", "failed")
	shown = d.Properties(d.Unit, "Result", "StatusText")
	assert.Equal(t, "exit-code", shown["Result"])
	assert.Regexp(t, `^Ended: exit status 1 after `, shown["StatusText"])
	assert.Contains(t, d.UnitJournal(d.Unit), "broken\n")
	starts := bed.StartsIn(d.Bed, d.State+"/starts")
	t.Logf("starts at %v", starts)
	assert.Len(t, starts, 10)
	for i := range starts[1:] {
		assert.Greater(t, starts[i+1]-starts[i], bed.Ramp()[i]-20*time.Millisecond, "restart %d", i+1)
	}

	d.Write(serves(7001, "{state}/data.db"))
	d.MustRun(t, "systemctl", "reset-failed", d.Unit)
	d.Start()
}

// No restart begins after the shutdown of the machine has.
func TestDependencyInShutdown(t *testing.T) {
	bed.BothSuites(t, testDependencyInShutdown)
}

func testDependencyInShutdown(t *testing.T, suite string) {
	host := t.TempDir()
	names := []string{"waits", "fails", "fails-too"}
	for _, name := range names {
		dir := filepath.Join(host, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "starts"), nil, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, "starts"), 0o666))
	}
	b := serverBed(t, suite, machine.Bind{Source: host, Target: "/record"})
	// This server notes its start, and fails in a stop.
	fails := strings.NewReplacer("use strict;", "use strict; $SIG{TERM} = sub { exit 1 };", `print "serves`,
		`syswrite($data, "start\n"); print "serves`).Replace(server)
	require.NoError(t, b.WriteFile(serverPath, []byte(fails), 0o755))
	// The shutdown lasts longer than the restart delay.
	require.NoError(t, b.WriteFile("/run/systemd/system/slow.service", []byte(`[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=bash -c 'for f in /record/*/starts; do echo shutdown >>$f; done; sleep 6'
`), 0o644))
	b.MustRun(t, "systemctl", "start", "slow.service")
	in := func(name string) string { return `directories = ["/record/` + name + `"]` }
	for i, name := range names[1:] {
		bed.NewDependency(b, name, serves(7002+i, "/record/"+name+"/starts", in(name))).Start()
	}
	waits := bed.NewDependency(b, names[0], crashes("/record/waits/starts", in(names[0])))
	b.MustRun(t, "systemctl", "start", "--no-block", waits.Unit)
	untilRestart(waits, "5") // after 2.2 s
	b.MustRun(t, "systemctl", "--no-block", "poweroff")
	select {
	case <-b.Done():
	case <-time.After(bed.Bound):
		require.Fail(t, "the machine does not end")
	}
	for _, name := range names {
		record, err := os.ReadFile(filepath.Join(host, name, "starts"))
		require.NoError(t, err)
		before, after, found := strings.Cut(string(record), "shutdown\n")
		assert.True(t, found, name)
		assert.NotEmpty(t, before, name)
		assert.Empty(t, after, "%s starts after the shutdown has begun", name)
	}
}
