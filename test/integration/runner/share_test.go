package runner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// askers opens 25 connections, each with a request, and prints the beginnings of the answers.
const askers = `$SIG{PIPE} = "IGNORE"; my @all; for (1..25) {
	my $s = IO::Socket::UNIX->new("/run/codex-runner/api.sock") or die $!;
	print $s "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"; $s->flush; print substr(<$s>, 0, 12), "\n"; push @all, $s }`

// TestRunnerShare has one user take all of the service that it gets: others are served all the same.
func TestRunnerShare(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		require.NoError(t, b.WriteFile("/etc/codex-runner/runner.toml",
			[]byte("max_sessions = 2\nmax_queued = 4\n[user]\nmax_connections = 20\n"), 0o644))
		b.MustRun(t, "systemd-sysusers", "--inline", "u alice -", "u bob -", "m alice codex-runner", "m bob codex-runner")
		answers := b.MustRun(t, "sh", "-c", `runuser -u alice -- perl -MIO::Socket::UNIX -e "$0" | sort | uniq -c`, askers)
		assert.Equal(t, "     20 HTTP/1.1 200\n      5 HTTP/1.1 429\n", answers)

		detach := []string{"runuser", "-u", "alice", "--", "codex-runner", "run", "--detach", "--", "sleep", "4321"}
		for range 3 { // one runs, two wait
			b.MustRun(t, detach...)
		}
		_, stderr, err := b.Run(t.Context(), detach...)
		require.ErrorContains(t, err, "75")
		assert.Contains(t, stderr, "2 of your commands wait already, of at most 2: try again when some have ended")
		assert.Equal(t, "bob\n", b.MustRun(t, "runuser", "-u", "bob", "--", "codex-runner", "run", "--", "echo", "bob"))
	})
}
