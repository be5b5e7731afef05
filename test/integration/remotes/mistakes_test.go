package remotes

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// A mistake in what a person gives a remote is named to the person, with the remedy; what is mended works with the next
// message.
func TestRemoteMistakes(t *testing.T) { bed.EitherSuite(t, testRemoteMistakes) }

func testRemoteMistakes(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "install", "-d", "-o", "alice", "/srv/app")
	b.MustRun(t, "install", "-d", "-m", "700", "/srv/secret")
	refused := func(want string, args ...string) {
		t.Helper()
		_, words, err := b.Run(t.Context(), append([]string{"codex-proxy"}, args...)...)
		require.Error(t, err, args)
		assert.Contains(t, words, want)
	}
	words := func(name, dir string, more ...string) []string {
		return append([]string{"remotes", "add", name, "--dir", dir, "--model", bed.Model, "--base-url", "http://" + bed.ModelAddr + "/v1"},
			more...)
	}
	add := func(want, name, dir string, more ...string) {
		t.Helper()
		_, said, err := b.Run(t.Context(), append([]string{"codex-proxy"}, words(name, dir, more...)...)...)
		require.NoError(t, err, said)
		assert.Contains(t, said, want)
	}
	settled := func() { // the process that names a fault also answers who comes 0.1 s later
		t.Helper()
		b.UntilShow("codex-remote@build.service", "ActiveState", "failed")
	}

	refused(`user: there is no user "nobodyknows": make it`, words("build", "/srv/app", "--user", "nobodyknows")...)
	refused(`group: there is no group "nogroupknown": make it`, words("build", "/srv/app", "--group", "nogroupknown")...)
	for _, name := range []string{"Build", "a.b", "a b", "../x", "", "x/y", "ünit", "a\nb", "%i", strings.Repeat("a", 29)} {
		refused("as the name of a remote: use 1 to 28 lower-case letters, digits or -", words(name, "/srv/app")...)
	}
	assert.Empty(t, bed.Find(b, "/etc/codex-proxy/remotes", "-name", "*.toml"))

	add("directory: there is no directory /srv/none: make it", "build", "/srv/none", "--user", "alice")
	refused(`there is a remote "build" already: /etc/codex-proxy/remotes/build.toml`, words("build", "/srv/app")...)
	refused("directory: there is no directory /srv/none: make it, or name another one\nAfter a change of its file: codex-proxy "+
		"remotes check build && systemctl daemon-reload", "attach", "build")
	settled()
	b.MustRun(t, "install", "-d", "-o", "alice", "/srv/none")
	b.MustRun(t, "codex-proxy", "remotes", "send", "build", "hello")

	build := bed.Remote{Bed: b, Name: "build", Unit: "codex-remote@build.service", Socket: "codex-remote@build.socket"}
	p := attach(build)
	b.MustRun(t, "codex-proxy", "remotes", "send", "build", "[[text working]][[gate forever]]")
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.AtGate("forever", 1))
	require.NoError(t, err)
	_, said, err := b.Run(t.Context(), "codex-proxy", "remotes", "stop", "build")
	require.NoError(t, err)
	assert.Contains(t, said, "Turns that ran: 1; they go on then")
	assert.Contains(t, said, "People who were attached: 1")
	<-p.Done()
	assert.Equal(t, "inactive", b.Properties(build.Unit, "ActiveState")["ActiveState"])
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "one was cut: the next start goes on with it")

	b.MustRun(t, "rm", "-r", "/srv/none")
	refused("directory: there is no directory /srv/none", "remotes", "send", "build", "hello")
	b.MustRun(t, "codex-proxy", "remotes", "remove", "build")
	refused("there is no remote build", "attach", "build")
	refused(`there is no remote "build"`, "remotes", "send", "build", "hello")
	assert.NotEmpty(t, bed.Find(b, "/var/lib/codex-remote/build/", "-name", "rollout-*"))
	b.MustRun(t, "codex-proxy", "remotes", "remove", "--purge", "build")
	assert.Empty(t, bed.Find(b, "/var/lib/codex-remote", "-mindepth", "1"))

	add("directory: the user has no permission for /srv/secret: the user is alice", "build", "/srv/secret", "--user", "alice")
	refused("directory: the user alice may not write to /srv/secret", "remotes", "send", "build", "hello")
	b.MustRun(t, "codex-proxy", "remotes", "remove", "--purge", "build")

	const key = "/etc/codex-proxy/remotes/build.key"
	add("there is no file "+key+": make it", "build", "/srv/app", "--user", "alice", "--key-file", key)
	refused("provider.key_file: there was no file "+key+" when systemd read the settings: make it, and run systemctl daemon-reload",
		"remotes", "send", "build", "hello")
	settled()
	require.NoError(t, b.WriteFile(key, []byte("sk-dead\n"), 0o600))
	b.MustRun(t, "systemctl", "daemon-reload")
	require.NoError(t, b.Models.Always(bed.Model, "error 401"))
	p = attach(build)
	p.say("", "hello")
	assert.Contains(t, string(p.until("turn/completed")), "401", "the provider refuses the key")

	b.MustRun(t, "codex-proxy", "remotes", "remove", "build")
	<-p.Done()
	b.MustRun(t, "sh", "-ec", `mount -t tmpfs -o size=4m none /var/lib/codex-remote/build
chown alice: /var/lib/codex-remote/build; chmod 700 /var/lib/codex-remote/build
cat /dev/zero >/var/lib/codex-remote/build/filler 2>/dev/null || true`)
	add("is made", "build", "/srv/app", "--user", "alice")
	refused("no space left on device", "remotes", "send", "build", "hello")
	b.MustRun(t, "rm", "/var/lib/codex-remote/build/filler")
	b.MustRun(t, "systemctl", "stop", "codex-remote@build.service") // a start that fails just now answers with its fault
	require.NoError(t, b.Models.Always(bed.Model, "text hello"))
	b.MustRun(t, "codex-proxy", "remotes", "send", "build", "hello")
}

// What a client sends that is no WebSocket, no message, or too large ends its own connection, with the reason. Others go
// on, and the memory of the main process is bounded.
func TestRemoteHostileClients(t *testing.T) { bed.EitherSuite(t, testRemoteHostileClients) }

func testRemoteHostileClients(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	r := bed.NewRemote(b, "build", "", "")
	p := attach(r)
	require.NoError(t, b.Models.Script("text before", "gate flood", "text after"))
	p.say("", "go ahead")
	p.until("item/agentMessage/delta")
	keeper, err := b.MainPID(t.Context(), r.Unit)
	require.NoError(t, err)
	before := peakMemory(t, keeper)

	dial := func() net.Conn {
		conn, err := net.Dial("unix", fmt.Sprintf("/proc/%d/root/run/codex-remote/build.sock", b.PID()))
		require.NoError(t, err)
		return conn
	}
	for what, c := range map[string]struct {
		head, body string
		size       int64
		want       string
	}{
		"no HTTP":              {"", "\x16\x03\x01\x00garbage\n\r\n\r\n", 1 << 10, "codex-proxy attach build"},
		"a head without end":   {"GET /", "x", 1 << 30, ""},
		"a frame of 1 GB":      {upgradeRequest, "\x81\xff\x00\x00\x00\x00\x40\x00\x00\x00maskxxxx", 1 << 30, "a frame has more than 16 MiB"},
		"frames without end":   {upgradeRequest, "\x01\xfe\x40\x00mask" + strings.Repeat("x", 0x4000), 1 << 30, "a message has more than 64 MiB"},
		"no JSON":              {upgradeRequest, "\x81\x84\x00\x00\x00\x00oops", 10, ""},
		"pings without an end": {upgradeRequest, "\x89\x80mask", 6 << 16, ""},
	} {
		conn := dial()
		answer := make(chan string)
		go func() {
			text, _ := io.ReadAll(conn)
			answer <- string(text)
		}()
		_, err := io.WriteString(conn, c.head)
		require.NoError(t, err)
		_, _ = io.Copy(conn, io.LimitReader(&endless{text: c.body, frames: what == "frames without end"}, c.size)) // it is cut
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		assert.Contains(t, <-answer, c.want, what)
		require.NoError(t, conn.Close())
	}
	assert.Less(t, peakMemory(t, keeper)-before, 300, "MiB: two messages of 64 MiB at a time, with what the collector leaves")
	b.Models.Release("flood")
	p.until("turn/completed")
	assert.Equal(t, "0", b.Properties(r.Unit, "NRestarts")["NRestarts"])
}

const upgradeRequest = "GET /rpc HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// endless repeats a text; of frames all but the first one are continuations.
type endless struct {
	text   string
	frames bool
	at     int
	rounds int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		text := e.text
		if e.frames && e.rounds > 0 {
			text = "\x00" + text[1:]
		}
		copied := copy(p[n:], text[e.at:])
		n += copied
		if e.at += copied; e.at == len(text) {
			e.at, e.rounds = 0, e.rounds+1
		}
	}
	return n, nil
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that a process of the machine has had, in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := peakLine.FindSubmatch(status)
	require.NotNil(t, found)
	kib, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kib >> 10
}
