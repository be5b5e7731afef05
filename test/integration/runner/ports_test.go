package runner

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
)

// webServer serves on port 8080 of its loopback: GET /N answers with N pieces of 64 KiB, the nth of which repeats n, and
// ends the connection, as HTTP/1.0 does.
const webServer = `use IO::Socket::INET; $SIG{PIPE} = "IGNORE";
	my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8080, Listen => 99) or die;
	while (my $c = $s->accept) {
		my $n = 0;
		while (<$c>) { $n = $1 if /^GET \/(\d+)/; last if /^\r?$/ }
		print $c "HTTP/1.0 200 OK\r\n\r\nserved\n";
		for (1..$n) { print $c pack("N", $_) x 16384 }
		close $c;
	}`

// served is the digest of an answer of webServer.
func served(pieces int) string {
	digest, piece := sha256.New(), make([]byte, 64<<10)
	digest.Write([]byte("served\n"))
	for n := range pieces {
		for at := 0; at < len(piece); at += 4 {
			binary.BigEndian.PutUint32(piece[at:], uint32(n+1))
		}
		digest.Write(piece)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// ports forwards the port of a web server in a session without a network to alice, and to nobody else. It follows users.
func (b *daemonBed) ports(t *testing.T) {
	b.MustRun(t, "useradd", "--groups=codex-runner", "bob")
	require.NoError(t, b.WriteFile("/srv/server.pl", []byte(webServer), 0o644))
	out := b.MustRun(t, "runuser", "-u", "alice", "--", "sh", "-ec", `cd /tmp
		codex-runner run --port 3000:8080 -- perl /srv/server.pl 2>told &
		until grep -q http told; do sleep 0.02; done
		cat told
		curl -sS http://127.0.0.1:3000/
		curl -sS http://127.0.0.1:3000/1600 | sha256sum
		kill -INT $!
		wait $! || echo "status $?"
		curl -sS http://127.0.0.1:3000/ || echo "status $?"`)
	assert.Regexp(t, `^http://127.0.0.1:3000 -> port 8080 of session [a-z2-7]{16}\nserved\n`, out)
	assert.Contains(t, out, served(1600))
	assert.Contains(t, out, "status 130\nstatus 7\n", "the command is cancelled, and the port is closed")

	id := strings.TrimSpace(b.MustRun(t, "runuser", "-u", "alice", "--", "codex-runner", "run", "--detach", "--", "perl", "/srv/server.pl"))
	b.until(id, 1, wire.CommandRunning)
	b.MustRun(t, "systemd-run", "--uid=alice", "--unit=forward", "codex-runner", "port-forward", id, "3000:8080")
	b.MustRun(t, "sh", "-c", "until curl -sfo /dev/null http://127.0.0.1:3000/; do sleep 0.02; done")
	b.forwardRestarts(t)
	b.attackPorts(t, id)
	b.MustRun(t, "runuser", "-u", "alice", "--", "codex-runner", "cancel", id)
	b.MustRun(t, "timeout", fmt.Sprint(bed.Bound.Seconds()), "sh", "-c",
		"while systemctl is-active --quiet forward; do sleep 0.02; done")
}

// forwardRestarts restarts the daemon during a forward: the client of an open connection sees that it is lost, and a new
// one works.
func (b *daemonBed) forwardRestarts(t *testing.T) {
	conn, err := b.DialContext(t.Context(), "tcp", "127.0.0.1:3000")
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(bed.Bound)))
	_, err = conn.Write([]byte("GET /1600 HTTP/1.0\r\n\r\n"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	b.MustRun(t, "systemctl", "restart", runnerService)
	for err == nil {
		_, err = conn.Read(make([]byte, 1<<20))
	}
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, "served\n", b.MustRun(t, "curl", "-sS", "http://127.0.0.1:3000/"))
}

// attackPorts tries to reach a session of another user, and the host.
func (b *daemonBed) attackPorts(t *testing.T, id string) {
	listener, err := b.Listen("tcp", "127.0.0.1:7777")
	require.NoError(t, err)
	defer listener.Close()
	port := func(user, id string, port int) string {
		return b.MustRun(t, "runuser", "-u", user, "--", "curl", "-sS", "-X", "POST", "--unix-socket", paths.Socket,
			"-H", "Connection: Upgrade", "-H", "Upgrade: "+wire.PortProtocol,
			fmt.Sprintf("http://codex-runner/v1/sessions/%s/ports/%d", id, port))
	}
	stranger := port("bob", id, 8080)
	assert.Contains(t, stranger, `"code":"not_found"`)
	nothing := strings.Repeat("z", len(id))
	assert.Equal(t, strings.ReplaceAll(port("bob", nothing, 8080), nothing, id), stranger, "as one that is not there")
	_, said, err := b.Run(t.Context(), "runuser", "-u", "bob", "--", "codex-runner", "port-forward", id, "0:8080")
	assert.Error(t, err)
	assert.Contains(t, said, "there is no such session")

	assert.Contains(t, port("alice", id, 7777), "no program listens on port 7777")
	online := strings.TrimSpace(b.MustRun(t, "runuser", "-u", "alice", "--", "codex-runner", "run", "--detach", "--network", "--",
		"sleep", "4321"))
	b.until(online, 1, wire.CommandRunning)
	assert.Contains(t, port("alice", online, 7777), "has the network of the host")
	b.MustRun(t, "runuser", "-u", "alice", "--", "codex-runner", "cancel", online)
}
