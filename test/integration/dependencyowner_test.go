package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
func serverBed(t *testing.T, suite string, binds ...machine.Bind) *bed {
	t.Helper()
	b := newBed(t, suite, realWorker, "", binds...)
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

const inShared = `directories = ["` + sharedDir + `"]`

// isRefused asserts that a start is refused, at once and for good, and names the process.
func (d dependency) isRefused(what string, holder machine.Process, unit string) {
	d.t.Helper()
	shown := d.refused()
	want := fmt.Sprintf("Not started: %s held by pid %d (/usr/bin/perl %s ", what, holder.Inside, serverPath)
	assert.Contains(d.t, shown["StatusText"], want)
	assert.Contains(d.t, shown["StatusText"], "), unit "+unit+": end that first, then start this unit")
	delete(shown, "StatusText")
	assert.Equal(d.t, map[string]string{"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "75",
		"NRestarts": "0"}, shown)
	assert.Contains(d.t, d.journal(d.unit), strings.TrimPrefix(want, "Not started: "))
}

// Two dependencies with the same lock, port or data: the second is refused, and names the first. Each has a user of
// its own.
func TestDependencyHasOneOwner(t *testing.T) { bothSuites(t, testDependencyHasOneOwner) }

func testDependencyHasOneOwner(t *testing.T, suite string) {
	b := serverBed(t, suite)
	const lock = `lock = "/srv/locks/one"`
	b.MustRun(t, "install", "-d", "/srv/locks")
	first := b.dependency("first", serves(7001, sharedDir+"/data.db", lock, inShared))
	first.start()
	holder := first.server()
	for what, settings := range map[string]string{
		"the lock /srv/locks/one is":            serves(7002, "{state}/other.db", lock),
		"port 7001 is":                          serves(7001, "{state}/other.db"),
		"/srv/shared/data.db is":                serves(7002, sharedDir+"/other.db", inShared),
		"port 7001 and /srv/shared/data.db are": serves(7001, sharedDir+"/data.db", inShared),
		"the lock /srv/locks/one, port 7001 and /srv/shared/data.db are": serves(7001, sharedDir+"/data.db", lock,
			inShared),
	} {
		b.dependency("second", settings).isRefused(what, holder, first.unit)
	}
	assert.Equal(t, holder, first.server(), "the first one is untouched")

	second := b.dependency("second", serves(7001, sharedDir+"/data.db", lock, inShared))
	first.stop()
	second.start()
	first.isRefused("the lock /srv/locks/one, port 7001 and /srv/shared/data.db are", second.server(), second.unit)
	second.stop()
	first.start()
}

// A server that was started by hand is found by its port or its data, and named. After its end the start succeeds,
// although one was refused.
func TestDependencyBesideAServerByHand(t *testing.T) {
	bothSuites(t, testDependencyBesideAServerByHand)
}

func testDependencyBesideAServerByHand(t *testing.T, suite string) {
	b := serverBed(t, suite)
	d := b.dependency("mine", serves(7001, "{state}/data.db"))
	d.start()
	d.stop()
	for what, args := range map[string][]string{
		"port 7001 is":                              {"7001", "/root/other.db"},
		d.state + "/data.db is":                     {"7002", d.state + "/data.db"},
		"port 7001 and " + d.state + "/data.db are": {"7001", d.state + "/data.db"},
	} {
		d.isRefusedBeside(what, append([]string{serverPath}, args...))
		d.start()
		d.stop()
	}
}

// isRefusedBeside asserts that a start is refused while a command runs.
func (d dependency) isRefusedBeside(what string, args []string) {
	d.t.Helper()
	said := &watched{want: regexp.MustCompile("serves"), came: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- d.Exec(d.t.Context(), machine.Exec{Args: args, Stdout: said, Stderr: said}) }()
	select {
	case <-said.came:
	case err := <-ended:
		require.NoError(d.t, err, said.String())
	}
	byHand := d.byCommand(strings.Join(args, " "))
	d.isRefused(what, byHand, "init.scope")
	d.signal(byHand, unix.SIGKILL)
	require.Error(d.t, <-ended, "it was killed")
}

func (d dependency) byCommand(command string) machine.Process {
	d.t.Helper()
	processes, err := d.Processes("")
	require.NoError(d.t, err)
	for _, p := range processes {
		if strings.HasSuffix(p.Command, command) {
			return p
		}
	}
	require.Fail(d.t, "no such process", "%s: %+v", command, processes)
	return machine.Process{}
}
