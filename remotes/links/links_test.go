package links

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A link is the client's own WebSocket; the remote learns the name of the key and the role, and never the key.
func TestLink(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build", "eyes": "remotes=build:viewer,other"})
	b.remote("build", echo)
	compressed := func(o *websocket.DialOptions) {
		o.HTTPHeader.Set("X-Codex-Version", "7")
		o.HTTPHeader.Set("Codex-Proxy-Key", "boss")
		o.HTTPHeader.Set("Codex-Proxy-Role", "owner")
		o.HTTPHeader.Set("Cookie", "c=1")
	}
	for i, c := range []struct{ path, key, role string }{
		{"/v1/remotes/build", "one", "owner"}, {"/", "one", "owner"}, {"/v1/remotes/build", "eyes", "viewer"},
	} {
		conn := b.dial(c.path, c.key, compressed)
		b.says(conn, "hello")
		b.says(conn, strings.Repeat("x", 3<<20))
		head := b.heads[i]
		assert.Equal(t, []string{c.key}, head["Codex-Proxy-Key"])
		assert.Equal(t, []string{c.role}, head["Codex-Proxy-Role"])
		assert.Equal(t, "7", head.Get("X-Codex-Version"))
		assert.NotContains(t, head, "Authorization")
		assert.NotContains(t, head, "Cookie")
		require.NoError(t, conn.Close(websocket.StatusNormalClosure, "bye"))
		b.none(b.links)
	}
	assert.Regexp(t, `msg="a connection of an API key to a remote has ended" remote=build key=one role=owner sent_bytes=31\d{5} `+
		`received_bytes=31\d{5} duration_ms=\d+ reason="the client has closed"\n`, b.log)
}

func TestErrors(t *testing.T) {
	b := newBed(t, map[string]string{
		"none": "", "one": "remotes=build", "two": "remotes=build,gone,down,plain", "gone": "remotes=gone",
	})
	b.remote("build", echo)
	b.states["gone"] = State{Name: Unknown}
	b.states["down"] = State{Name: "failed", Status: "Not started: no such directory", Down: true}
	l, err := net.Listen("unix", filepath.Join(b.dir, "down")) // it never answers, as that of a unit that fails at each start
	require.NoError(t, err)
	defer l.Close()
	for _, c := range []struct {
		path, key string
		plain     bool
		status    int
		code      string
		words     string
	}{
		{"/v1/remotes/build", "nobody", false, 401, "invalid_api_key", "Authorization: Bearer KEY"},
		{"/v1/remotes/build", "none", false, 403, "remote_not_allowed", "codex-proxy keys set none --remotes=NAME"},
		{"/", "none", false, 403, "remote_not_allowed", "codex-proxy keys set none --remotes=NAME"},
		{"/", "two", false, 400, "remote_ambiguous", "connect to /v1/remotes/NAME"},
		{"/v1/remotes/other", "one", false, 404, "remote_not_found", "only to build; the operator allows more: codex-proxy keys set one --remotes=LIST"},
		{"/v1/remotes/gone", "two", false, 404, "remote_not_found", "codex-proxy remotes list"},
		{"/", "gone", false, 404, "remote_not_found", "codex-proxy remotes list"},
		{"/v1/remotes/plain", "two", false, 503, "remote_unavailable", "systemctl start codex-remote@plain.socket"},
		{"/v1/remotes/down", "two", false, 503, "remote_unavailable", "(its unit is failed): Not started: no such directory"},
		{"/v1/remotes/build", "one", true, 426, "upgrade_required", "codex --remote wss://HOST:PORT "},
		{"/", "one", true, 404, "not_found", "there is no / here"},
	} {
		var res *http.Response
		if c.plain {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+c.path, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+b.secrets[c.key])
			res, err = http.DefaultClient.Do(req)
			require.NoError(t, err)
		} else {
			_, res, err = b.try(c.path, c.key)
			require.Error(t, err)
		}
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		var envelope struct {
			Error struct{ Code, Message string }
		}
		require.NoError(t, json.Unmarshal(body, &envelope), "%s %s: %s", c.path, c.key, body)
		assert.Equal(t, c.status, res.StatusCode, "%s %s", c.path, c.key)
		assert.Equal(t, c.code, envelope.Error.Code, "%s %s", c.path, c.key)
		assert.Contains(t, envelope.Error.Message, c.words)
	}
	b.none(b.links)
	http.DefaultClient.CloseIdleConnections()
}

func TestList(t *testing.T) {
	b := newBed(t, map[string]string{"two": "remotes=build,docs:viewer"})
	b.states["docs"] = State{Name: "inactive", Status: "resting"}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/v1/remotes", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+b.secrets["two"])
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"object":"list","data":[
		{"id":"build","object":"remote","role":"owner","state":"active"},
		{"id":"docs","object":"remote","role":"viewer","state":"inactive","status":"resting"}]}`, string(body))
}

// A reload in the middle of messages of all sizes loses and doubles no byte, in both directions, and its client sees
// nothing; nor does one after another.
func TestReloads(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	b.remote("build", echo)
	conn := b.dial("/", "one")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const messages = 400
	sizes := rand.New(rand.NewPCG(1, 2))
	var all []string
	for i := range messages {
		all = append(all, fmt.Sprint(i, " ", strings.Repeat(string(rune('a'+i%26)), sizes.IntN(200_000))))
	}
	sent := make(chan error, 1)
	go func() {
		for _, m := range all {
			if err := conn.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	from := b.links
	for i := range messages {
		_, got, err := conn.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, all[i], string(got))
		if i%40 == 0 {
			to := b.successor()
			require.NoError(t, from.Leave(ctx, b.passTo(to)))
			assert.Zero(t, b.count(from))
			assert.Equal(t, 1, b.count(to))
			from = to
		}
	}
	require.NoError(t, <-sent)
	require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	b.none(from)
	assert.Equal(t, 1, strings.Count(b.log.String(), "\n"), b.log)
	assert.Contains(t, b.log.String(), "the client has closed")
}

// A client that reads nothing just now keeps what is on its way to it, through a reload.
func TestReloadWithASlowClient(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	const size = 12 << 20 // more than all buffers of sockets
	wrote := make(chan error, 1)
	b.remote("build", func(ctx context.Context, conn *websocket.Conn) {
		wrote <- conn.Write(ctx, websocket.MessageText, []byte(strings.Repeat("x", size)))
		echo(ctx, conn)
	})
	conn := b.dial("/", "one")
	link := b.links.list()[0]
	var was int64
	require.Eventually(t, func() bool { // the writer waits for the client
		before := was
		was = link.Sent.Load()
		return was > 0 && was == before
	}, patience, 20*time.Millisecond)
	to := b.successor()
	require.NoError(t, b.links.Leave(t.Context(), b.passTo(to)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, got, err := conn.Read(ctx)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("x", size), string(got))
	require.NoError(t, <-wrote)
	b.says(conn, "on")
}

// A link that opens while the process leaves goes to the successor, too; where that takes none, its client connects
// again.
func TestLinkAfterTheReload(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	b.remote("build", echo)
	to := b.successor()
	require.NoError(t, b.links.Leave(t.Context(), b.passTo(to)))
	conn := b.dial("/", "one")
	b.says(conn, "hello")
	b.none(b.links)
	assert.Equal(t, 1, b.count(to))

	require.NoError(t, to.Leave(t.Context(), func(any, ...int) error { return io.ErrClosedPipe }))
	b.closed(conn, 1012, "the remote restarts")
}

// A change of the keys ends the links that it does not allow, and no others.
func TestKeysChange(t *testing.T) {
	b := newBed(t, map[string]string{
		"stays": "remotes=build", "loses": "remotes=build,other", "role": "remotes=build", "gone": "remotes=build",
		"fresh": "remotes=build",
	})
	b.remote("build", echo)
	conns := map[string]*websocket.Conn{}
	for name := range b.secrets {
		conns[name] = b.dial("/v1/remotes/build", name)
	}
	lines := strings.Split(strings.TrimSpace(b.keys.Text()), "\n")
	for i, line := range lines {
		switch name, rest, _ := strings.Cut(line, " "); name {
		case "loses":
			lines[i] = name + " " + strings.Replace(rest, "build,", "", 1)
		case "role":
			lines[i] += ":viewer"
		case "gone":
			lines[i] = ""
		case "fresh":
			lines[i] = name + " " + strings.Repeat("ab", 32) + " remotes=build"
		}
	}
	require.NoError(t, b.keys.Replace(strings.Join(lines, "\n")))
	b.links.Revise()
	b.closed(conns["loses"], 1008, "the API key may not attach to this remote any more")
	b.closed(conns["role"], 1012, "the API key has another role now")
	b.closed(conns["gone"], 1008, "the API key was revoked")
	b.closed(conns["fresh"], 1008, "the API key was revoked")
	b.says(conns["stays"], "on")
	b.says(b.dial("/v1/remotes/build", "role"), "as a viewer")
}

// Keys that are too old to be used keep no link.
func TestKeysOutdated(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	b.remote("build", echo)
	conn := b.dial("/v1/remotes/build", "one")
	b.keys.Confirm(time.Now().Add(-2*time.Hour), time.Hour)
	b.links.Revise()
	b.closed(conn, 1012, "the keys of the database are too old on this host; connect again later")
}

// The successor knows the keys of now.
func TestReloadAfterAKeyIsGone(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	b.remote("build", echo)
	conn := b.dial("/", "one")
	require.NoError(t, b.keys.Replace(""))
	require.NoError(t, b.links.Leave(t.Context(), b.passTo(b.successor())))
	b.closed(conn, 1008, "the API key was revoked")
}

// A stop closes each link with a reason between two frames, also while the remote sends without an end.
func TestClose(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build,busy"})
	b.remote("build", echo)
	b.remote("busy", func(ctx context.Context, conn *websocket.Conn) {
		for conn.Write(ctx, websocket.MessageText, []byte(strings.Repeat("x", 100_000))) == nil {
		}
	})
	quiet, busy := b.dial("/v1/remotes/build", "one"), b.dial("/v1/remotes/busy", "one")
	b.says(quiet, "hello")
	ended := make(chan error, 1)
	go func() {
		for {
			_, message, err := busy.Read(t.Context())
			if err != nil {
				ended <- err
				return
			}
			assert.Len(t, message, 100_000)
		}
	}()
	done := make(chan error, 1)
	go func() { done <- b.links.Close(t.Context(), "the service restarts") }()
	b.closed(quiet, 1012, "the service restarts")
	assert.Equal(t, websocket.CloseError{Code: 1012, Reason: "the service restarts"}, unwrapped(<-ended))
	require.NoError(t, <-done)
	_, res, err := b.try("/v1/remotes/build", "one")
	require.Error(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
}

func unwrapped(err error) (closed websocket.CloseError) {
	closed.Code = websocket.CloseStatus(err)
	if _, reason, found := strings.Cut(err.Error(), "reason = \""); found {
		closed.Reason, _, _ = strings.Cut(reason, "\"")
	}
	return closed
}

// A remote that is gone ends the link with a reason, so that its client connects again; in the middle of a frame there
// is no room for one.
func TestRemoteIsGone(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	b.remote("build", func(ctx context.Context, conn *websocket.Conn) { _, _, _ = conn.Read(ctx) })
	conn := b.dial("/", "one")
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte("go")))
	b.closed(conn, 1012, "the remote restarts")

	l, err := net.Listen("unix", filepath.Join(b.dir, "half"))
	require.NoError(t, err)
	defer l.Close()
	b.links.Socket = func(string) string { return l.Addr().String() }
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x7dhalf")
		}
	}()
	raw := b.raw("one")
	rest, err := io.ReadAll(raw)
	require.NoError(t, err)
	assert.Equal(t, "\x81\x7dhalf", string(rest))
}

// raw is an upgraded connection without a WebSocket library.
func (b *bed) raw(key string) *bufio.Reader {
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	require.NoError(b, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer %s\r\n\r\n", b.secrets[key])
	require.NoError(b, err)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	require.NoError(b, err)
	require.Equal(b, http.StatusSwitchingProtocols, res.StatusCode)
	return r
}

// A client that answers no ping is gone; one that answers stays, however long it says nothing.
func TestPings(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"}, func(s *Settings) {
		s.Keepalive, s.Dead = 10*time.Millisecond, 2*time.Second // a busy machine answers within that
	})
	b.remote("build", echo)
	dead := b.raw("one")
	got, err := io.ReadAll(dead)
	require.NoError(t, err)
	assert.NotEmpty(t, got)
	assert.Empty(t, strings.ReplaceAll(string(got), "\x89\x00", ""))
	b.none(b.links)
	assert.Contains(t, b.log.String(), "the client answers no more")

	pings := 0
	conn := b.dial("/", "one", func(o *websocket.DialOptions) {
		o.OnPingReceived = func(context.Context, []byte) bool { pings++; return true }
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, _, err = conn.Read(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it is still there")
	assert.Greater(t, pings, 5)
}

func TestBounds(t *testing.T) {
	b := newBed(t, map[string]string{"one": "remotes=build"})
	for i := range maxOfKey {
		require.NoError(t, b.links.reserve("one", fmt.Sprint("remote", i)))
	}
	assert.ErrorContains(t, b.links.reserve("one", "build"), "this API key has 32 connections to remotes already")
	for i := range maxOfRemote {
		require.NoError(t, b.links.reserve(fmt.Sprint("key", i), "build"))
	}
	assert.ErrorContains(t, b.links.reserve("other", "build"), "the remote build has 32 connections over the network already")
	for i := maxOfKey + maxOfRemote; i < maxLinks; i++ {
		require.NoError(t, b.links.reserve(fmt.Sprint("many", i), fmt.Sprint("of", i)))
	}
	assert.ErrorContains(t, b.links.reserve("last", "last"), "there are 256 connections to remotes already")
	for i := range maxOfKey {
		b.links.release("one", fmt.Sprint("remote", i))
	}
	for i := range maxOfRemote {
		b.links.release(fmt.Sprint("key", i), "build")
	}
	for i := maxOfKey + maxOfRemote; i < maxLinks; i++ {
		b.links.release(fmt.Sprint("many", i), fmt.Sprint("of", i))
	}
	assert.Empty(t, b.links.ofKey)
	assert.Empty(t, b.links.ofRemote)
}

// The ends of frames are found however the bytes come.
func TestFrames(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var stream []byte
		ends := map[int]bool{0: true}
		for range 1 + random.IntN(20) {
			stream = appendFrame(stream, []int{0, 1, 125, 126, 300, 65535, 65536, 70_000}[random.IntN(8)])
			ends[len(stream)] = true
		}
		var f frames
		for at := 0; at < len(stream); {
			n := f.next(stream[at:min(len(stream), at+1+random.IntN(40_000))])
			require.Positive(t, n)
			at += n
			require.Equal(t, ends[at], f.whole(), at)
		}
		require.False(t, f.Closed)
		require.Equal(t, len(closing(1012, "end")), f.next(closing(1012, "end")))
		require.True(t, f.Closed)
	}
	assert.Len(t, closing(1008, strings.Repeat("x", 500)), 2+controlLimit)
}

func appendFrame(b []byte, size int) []byte {
	b = append(b, 0x81)
	switch {
	case size <= 125:
		b = append(b, byte(size))
	case size <= 65535:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(size))
	}
	return append(b, make([]byte, size)...)
}

// Whether a client has answered does not depend on the clock, which may be stepped between the ping and its answer.
func TestPingsWhileTheClockIsStepped(t *testing.T) {
	k := &link{passport: &passport{}, settings: Settings{Dead: time.Minute}}
	_, asked := k.ping(question{})
	asked.at = asked.at.Round(0).Add(24 * time.Hour) // the clock is set back by a day
	_, again := k.ping(asked)
	assert.Equal(t, asked, again, "there is no answer")
	k.Received.Add(2)
	before := time.Now()
	_, next := k.ping(asked)
	assert.WithinDuration(t, before, next.at, time.Hour, "a new ping")
	asked.at = time.Now().Round(0).Add(-2 * time.Minute)
	assert.True(t, k.gone(asked))
}
