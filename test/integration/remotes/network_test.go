package remotes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// A key attaches over the listener of codex-proxy, in the middle of a turn through reloads and upgrades without a cut;
// after a kill or a restart of codex-proxy it connects again, and the turn has gone on.
func TestRemoteOverTheNetwork(t *testing.T) { bed.EitherSuite(t, testRemoteOverTheNetwork) }

func testRemoteOverTheNetwork(t *testing.T, suite string) {
	packages, b := bed.Deb(t), bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	r := bed.NewRemote(b, "build", "", "")
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "laptop", "--remotes=build"))
	eyes := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "eyes", "--remotes=build:viewer"))
	status, text := overHTTP(b, key, "/v1/remotes")
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"object":"list","data":[{"id":"build","object":"remote","role":"owner","state":"inactive"}]}`, text)

	p := attachAt(r, bridge(r, key, "/"))
	assert.Equal(t, "active", b.Properties(r.Unit, "ActiveState")["ActiveState"], "the connection has started it")
	thread := p.newThread()
	p.hold(thread, "gate-reload", func() { b.MustRun(t, "systemctl", "reload", bed.ProxyUnit) })
	p.hold(thread, "gate-upgrade", func() { packages.Install(b, packages.Next) })
	bed.AwaitSole(b) // no process waits for the connection that it has passed on

	viewer := attachAt(r, bridge(r, eyes, "/v1/remotes/build"))
	assert.ErrorContains(t, viewer.Call(t.Context(), "thread/start", map[string]any{}, nil), "this connection only reads")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list", "--json"), "key laptop")

	for n, cut := range []func(){
		func() { b.MustRun(t, "systemctl", "kill", "-s", "KILL", bed.ProxyUnit) },
		func() { b.MustRun(t, "systemctl", "restart", bed.ProxyUnit) },
	} {
		gate := fmt.Sprint("gate-cut-", n)
		require.NoError(t, b.Models.Script("text one ", "gate "+gate, "text two"))
		p.say(thread, "cut "+gate)
		p.until("item/agentMessage/delta")
		cut()
		p.awaitEnd()
		began := time.Now()
		p = attachAt(r, bridge(r, key, "/"))
		t.Logf("%s: connected again after %s", suite, time.Since(began).Round(time.Millisecond))
		p.call("thread/resume", map[string]any{"threadId": thread}, nil)
		b.Models.Release(gate)
		untilIdle(b, r)
	}
	assert.Contains(t, linkEnds(b), "reason=the service restarts")

	b.MustRun(t, "codex-proxy", "keys", "set", "laptop", "--remotes=none")
	p.awaitEnd()
	assert.Contains(t, linkEnds(b), "reason=the API key may not attach to this remote any more")
	status, text = upgrade(b, key, "/")
	assert.Equal(t, http.StatusForbidden, status, text)
}

// A remote that does not start is an error with the words of its unit, and one without a socket, or without a file, one
// with the remedy.
func TestRemoteFaultsOverTheNetwork(t *testing.T) { bed.EitherSuite(t, testRemoteFaultsOverTheNetwork) }

func testRemoteFaultsOverTheNetwork(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	r := bed.NewRemote(b, "build", "", "")
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "laptop", "--remotes=build"))
	good, err := b.ReadFile(r.File)
	require.NoError(t, err)
	r.Write(strings.Replace(string(good), `directory = "/srv/build"`, `directory = "/srv/none"`, 1))
	status, text := upgrade(b, key, "/")
	assert.Equal(t, http.StatusServiceUnavailable, status, text)
	assert.Contains(t, text, `"code":"remote_unavailable"`)
	assert.Contains(t, text, "/srv/none")
	r.Write(string(good))
	b.MustRun(t, "systemctl", "reset-failed", r.Unit)

	b.MustRun(t, "systemctl", "stop", r.Socket, r.Unit)
	status, text = upgrade(b, key, "/")
	assert.Equal(t, http.StatusServiceUnavailable, status, text)
	assert.Contains(t, text, "systemctl start codex-remote@build.socket")
	b.MustRun(t, "systemctl", "start", r.Socket)
	attachAt(r, bridge(r, key, "/"))

	b.MustRun(t, "codex-proxy", "remotes", "remove", "build")
	status, text = upgrade(b, key, "/")
	assert.Equal(t, http.StatusNotFound, status, text)
	assert.Contains(t, text, `"code":"remote_not_found"`)

	// No other user reaches the socket.
	r = bed.NewRemote(b, "other", "nobody", "")
	_, _, err = b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "perl", "-MIO::Socket::UNIX",
		"-e", `exit(IO::Socket::UNIX->new(Peer => "/run/codex-remote/other.network.sock") ? 0 : $!{EACCES} ? 13 : 1)`)
	assert.ErrorContains(t, err, "exit status 13")
}

// hold changes something in the middle of a turn, and sees its end on the same connection.
func (p *person) hold(thread, gate string, change func()) {
	p.T.Helper()
	require.NoError(p.T, p.Models.Script("text one ", "gate "+gate, "text two"))
	before := p.ProxyPID()
	p.say(thread, "hold "+gate)
	p.until("item/agentMessage/delta")
	change()
	require.NotEqual(p.T, before, p.ProxyPID())
	p.Models.Release(gate)
	p.until("turn/completed")
}

func (p *person) awaitEnd() {
	p.T.Helper()
	select {
	case <-p.ended:
	case <-time.After(bed.Bound):
		require.Fail(p.T, "the connection is still open")
	}
}

// bridge is a socket that leads to a remote over codex-proxy's listener: for programs that cannot send a key.
func bridge(r bed.Remote, key, path string) string {
	r.T.Helper()
	l, err := net.Listen("unix", filepath.Join(r.T.TempDir(), "s"))
	require.NoError(r.T, err)
	r.T.Cleanup(func() { l.Close() })
	go func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := r.DialContext(context.Background(), "tcp", "127.0.0.1:8787")
		if err != nil {
			return
		}
		defer far.Close()
		in := bufio.NewReader(near)
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		req.URL.Path = path
		req.Header.Set("Authorization", "Bearer "+key)
		if req.Write(far) != nil {
			return
		}
		go func() { _, _ = io.Copy(far, in); far.Close() }()
		_, _ = io.Copy(near, far)
	}()
	return l.Addr().String()
}

// overHTTP returns the answer to a request with the key.
func overHTTP(b *bed.Bed, key, path string, header ...string) (int, string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, bed.Base+path, nil)
	require.NoError(b.T, err)
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.HTTPClient().Do(req)
	require.NoError(b.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(b.T, err)
	return res.StatusCode, string(text)
}

// upgrade asks for a WebSocket that is refused.
func upgrade(b *bed.Bed, key, path string) (int, string) {
	b.T.Helper()
	return overHTTP(b, key, path, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

// linkEnds are the entries about ended connections.
func linkEnds(b *bed.Bed) string {
	b.T.Helper()
	return b.MustRun(b.T, "sh", "-c", "journalctl -o json --output-fields=MESSAGE,CODEX_REASON,CODEX_REMOTE,CODEX_KEY | grep 'connection of an API key to a remote has ended' | "+
		`sed 's/.*"CODEX_REASON":"\([^"]*\)".*/reason=\1/'`)
}
