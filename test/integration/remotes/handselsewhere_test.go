package remotes

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/versions"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
	"codex-proxy/test/modelserver"
	"codex-proxy/units"
)

// wire is the network between two machines: what connects to an address of the one reaches an address of the other.
type wire struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	passing sync.RWMutex // held: nothing passes

	mu    sync.Mutex
	conns []net.Conn
}

// lay lays the wire from an address of a machine to another machine.
func lay(b *bed.Bed, address string, to *bed.Bed, target string) *wire {
	b.T.Helper()
	l, err := b.Listen("tcp", address)
	require.NoError(b.T, err)
	w := &wire{dial: to.DialContext}
	var running sync.WaitGroup
	b.T.Cleanup(func() { _ = l.Close(); w.cut(); running.Wait() })
	running.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			running.Go(func() { w.join(b.T.Context(), conn, target) })
		}
	})
	return w
}

func (w *wire) join(ctx context.Context, near net.Conn, target string) {
	defer near.Close()
	far, err := w.dial(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	w.conns = append(w.conns, near, far)
	w.mu.Unlock()
	var both sync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{near: far, far: near} {
		both.Go(func() {
			_, _ = io.Copy(struct{ io.Writer }{to}, held{from, &w.passing})
			_ = near.Close()
			_ = far.Close()
		})
	}
	both.Wait()
}

// held reads while something passes.
type held struct {
	io.Reader
	passing *sync.RWMutex
}

func (h held) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.passing.RLock()
	defer h.passing.RUnlock()
	return n, err
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// farHands is the machine with the hands: a session of codex-runner behind HAProxy.
type farHands struct {
	*bed.Bed
	session string
}

const farName = "hands.example.org"

// newFar boots it, as docs/hands.md has it.
func newFar(t *testing.T, suite string) farHands {
	t.Helper()
	older, err := filepath.EvalSymlinks(filepath.Join(bed.Made(t, "CODEX_PROXY_TEST_CODEX_BETWEEN"),
		fmt.Sprintf("0.%d.0", versions.OldestForHere)))
	require.NoError(t, err)
	b := bootHands(t, suite, machine.Options{Binds: []machine.Bind{
		{Source: filepath.Dir(filepath.Dir(older)), Target: "/opt/older-codex", ReadOnly: true}}}, "haproxy")
	pages := manual.Open(t, "docs/hands.md")
	require.NoError(t, b.WriteFile("/etc/haproxy/haproxy.cfg", []byte(pages.File("/etc/haproxy/haproxy.cfg")), 0o644))
	b.MustRun(t, "sh", "-ec", `useradd --create-home --groups=codex-runner alice
chown -R alice: /srv/app
cd /etc/haproxy
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=`+farName+` -addext subjectAltName=DNS:`+farName+` -keyout key.pem -out cert.pem
cat cert.pem key.pem >hands.pem
haproxy -c -f haproxy.cfg
systemctl start haproxy
openssl rand -hex 32 >/home/alice/token; chown alice: /home/alice/token`)
	f := farHands{Bed: b}
	f.session = bed.Trim(b.MustRun(t, "runuser", "-u", "alice", "--", "codex-runner", "run", "--keep", "--detach",
		"--repo", "/srv/app", "--", "true"))
	const unit = "/etc/systemd/system/hands.service"
	require.NoError(t, b.WriteFile(unit, []byte(strings.NewReplacer("ID=SESSION", "ID="+f.session, "890:18900", "890:18900 -- /opt/older-codex/bin/codex").
		Replace(pages.File(unit))), 0o644))
	b.MustRun(t, "sh", "-ec", `systemctl enable --now hands; until curl -sfo /dev/null http://127.0.0.1:890/readyz; do sleep 0.05; done`)
	return f
}

// The hands of a remote on another host, over wss through HAProxy: commands are executed there, a cut of the network
// costs nothing, a kill of codex or of the main process ends what runs there before the turn goes on, and doctor knows
// both ends.
func TestHandsElsewhere(t *testing.T) { bed.EitherSuite(t, testHandsElsewhere) }

func testHandsElsewhere(t *testing.T, suite string) {
	f := newFar(t, suite)
	b := bootHands(t, suite, machine.Options{})
	network := lay(b, "127.0.0.7:443", f.Bed, "127.0.0.1:443")
	h := handsBed{bed.Remote{Bed: b, Name: "build", Unit: units.Remote("build"), Socket: units.RemoteSocket("build"),
		File: "/etc/codex-proxy/remotes/build.toml", Home: "/var/lib/codex-remote/build"}}
	token := f.MustRun(t, "cat", "/home/alice/token")
	const tokenFile = "/etc/codex-proxy/remotes/build.hands-token"
	require.NoError(t, b.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n127.0.0.7 "+farName+"\n"), 0o644))
	require.NoError(t, b.WriteFile(tokenFile, []byte(strings.Repeat("x", 64)), 0o600))
	require.NoError(t, b.WriteFile("/etc/ssl/hands.pem", []byte(f.MustRun(t, "cat", "/etc/haproxy/cert.pem")), 0o644))
	b.MustRun(t, "codex-proxy", "remotes", "add", "build", "--hands", "wss://"+farName+"/", "--token-file", tokenFile, "--ca-file", "/etc/ssl/hands.pem",
		"--model", bed.Model, "--base-url", "http://"+bed.ModelAddr+"/v1",
		"--codex-path", filepath.Join(bed.CodexDir, "bin/codex"))
	doctor := func() string {
		out, _, _ := b.Run(t.Context(), "codex-proxy", "doctor")
		return out
	}
	assert.Contains(t, doctor(), "the token is refused")
	require.NoError(t, b.WriteFile(tokenFile, []byte(token), 0o600))
	assert.NotContains(t, doctor(), "its hands at")

	p := attach(h.Remote)
	thread := p.newThread()
	assert.Equal(t, "cs-"+f.session+"\n/workspace\nPROJECT", p.turn(h, thread, "id -un; pwd; cat notes"))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "commands", "build"), "thread_id="+thread)
	assert.Equal(t, "PROJECT", p.shell("cat notes"))
	out := b.MustRun(t, "sh", "-c", "systemctl show "+h.Unit+"; cat /proc/*/cmdline /proc/*/environ /var/lib/private/codex-remote/build/environments.toml")
	assert.NotContains(t, out, bed.Trim(token))
	b.MustRun(t, "sh", "-c", "! ls /run/credentials/"+h.Unit) // which other processes of the user could read
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "remotes", "diff", "build")
	require.Error(t, err)
	assert.Contains(t, stderr, "take the changes there")

	for what, hit := range map[string]func(){
		"nothing passes": func() {
			network.passing.Lock()
			bed.Pause(t.Context(), 5*time.Second)
			network.passing.Unlock()
		},
		"a cut": network.cut,
	} {
		h.command("echo begins; sleep 3; touch begun; until [ -e end ]; do sleep 0.1; done; rm begun end; echo ends") // codex knows by then that it runs
		require.NoError(t, h.Models.Script("text done"))
		p.say(thread, "run it")
		f.MustRun(t, "timeout", "120", "sh", "-c", "until [ -e /var/lib/codex-workspace/*/tree/begun ]; do sleep 0.05; done")
		hit()
		f.MustRun(t, "sh", "-ec", "cd /var/lib/codex-workspace/*/tree; touch end")
		assert.Equal(t, "begins\nends", p.output(), what)
	}

	for process, mark := range map[string]string{"codex": "of-codex", "main process": "of-main"} {
		counts := regexp.MustCompile(mark + ` ran (\d+ left \d+)`)
		h.command("echo x >>ran; sleep 54321")
		h.command("echo " + mark + " ran $(wc -l <ran) left $(pgrep -c -f 'sleep 5432[1]'); rm ran")
		require.NoError(t, h.Models.Script("text done"))
		p.say(thread, "run it")
		f.MustRun(t, "timeout", "120", "sh", "-c", "until pgrep -f 'sleep 5432[1]' >/dev/null; do sleep 0.05; done")
		kill(h.Remote, process)
		_, err := b.Models.Wait(t.Context(), func(turns []modelserver.Request) bool {
			return slices.ContainsFunc(turns, func(r modelserver.Request) bool { return counts.Match(r.Body.Raw) })
		})
		require.NoError(t, err, mark)
		untilIdle(b, h.Remote)
		last := b.Models.Turns()[len(b.Models.Turns())-1].Body.Raw
		assert.Equal(t, mark+" ran 1 left 0", string(counts.Find(last)))
		p = attach(h.Remote)
		thread = p.newThread()
		f.MustRun(t, "sh", "-c", "! pgrep -f 'sleep 5432[1]'")
	}
}
