package authz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = 5 * time.Minute // for messages of 64 MiB, with the race detector, on a busy machine

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open serves a proxy to target on two sockets in dir.
func open(t testing.TB, p *Proxy, target string) (owners, viewers string) {
	t.Helper()
	dir := t.TempDir()
	owners, viewers = filepath.Join(dir, "build.sock"), filepath.Join(dir, "build.viewer.sock")
	p.Remote, p.Viewers = "build", viewers
	listen(t, p, target, owners, viewers)
	return owners, viewers
}

// listen serves a proxy to target on sockets.
func listen(t testing.TB, p *Proxy, target string, paths ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	for _, path := range paths {
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		context.AfterFunc(ctx, func() { _ = l.Close() })
		serving.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer conn.Close()
					if err := p.Serve(ctx, conn.(*net.UnixConn), target); err != nil && ctx.Err() == nil {
						t.Logf("proxy: %v", err)
					}
				})
			}
		})
	}
	t.Cleanup(func() { cancel(); serving.Wait() })
}

// codex plays a codex app-server that serves each connection with f.
func codex(t testing.TB, f func(ctx context.Context, ws *websocket.Conn, r *http.Request)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "codex.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Codex-Websocket-Max-Unfragmented-Message-Bytes", "16777216")
			ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
			if err != nil {
				return
			}
			defer func() { _ = ws.CloseNow() }()
			ws.SetReadLimit(messageLimit + 1)
			f(r.Context(), ws, r)
		})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return socket
}

// echo answers each request with its method, as {"id":…,"result":{"method":…,"size":…}}.
func echo(ctx context.Context, ws *websocket.Conn, _ *http.Request) {
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			_ = ws.Close(websocket.StatusNormalClosure, "")
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(b, &m) == nil && m.ID != nil {
			_ = ws.Write(ctx, websocket.MessageText,
				fmt.Appendf(nil, `{"id":%s,"result":{"method":%q,"size":%d}}`, m.ID, m.Method, len(b)))
		}
	}
}

// dial attaches a client, which offers to compress.
func dial(t testing.TB, socket string) (*websocket.Conn, *http.Response) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	ws, resp, err := websocket.Dial(bounded(t), "ws://localhost/rpc", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, CompressionMode: websocket.CompressionContextTakeover,
		HTTPHeader: http.Header{"X-Codex-App-Server-Compression": {"zstd-stream-v1"}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(-1)
	return ws, resp
}

func say(t testing.TB, ws *websocket.Conn, format string, args ...any) {
	t.Helper()
	require.NoError(t, ws.Write(bounded(t), websocket.MessageText, fmt.Appendf(nil, format, args...)))
}

func hear(t testing.TB, ws *websocket.Conn) string {
	t.Helper()
	_, b, err := ws.Read(bounded(t))
	require.NoError(t, err)
	return string(b)
}

// end is the reason of the close frame that a client reads.
func end(t testing.TB, ws *websocket.Conn) websocket.CloseError {
	t.Helper()
	for {
		_, _, err := ws.Read(bounded(t))
		var reason websocket.CloseError
		if errors.As(err, &reason) {
			return reason
		}
		require.NoError(t, err)
	}
}

func TestGateRefusesWithWordsAndGoesOn(t *testing.T) {
	var passed []string
	p := &Proxy{Forwarding: func(_ Session, r Request) { passed = append(passed, r.Method+" "+r.ThreadID+" "+r.TurnID) }}
	owner, _ := open(t, p, codex(t, echo))
	ws, resp := dial(t, owner)
	assert.Empty(t, resp.Header.Get("Sec-WebSocket-Extensions"))
	assert.Equal(t, "16777216", resp.Header.Get("X-Codex-Websocket-Max-Unfragmented-Message-Bytes"))

	say(t, ws, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"tester","version":"7"}}}`)
	assert.Contains(t, hear(t, ws), `"method":"initialize"`)
	say(t, ws, `{"method":"initialized"}`)
	say(t, ws, `{"id":"a\"b","method":"account/logout"}`)
	assert.JSONEq(t, `{"id":"a\"b","error":{"code":-32600,"message":"account/logout is refused: the login of a remote `+
		`belongs to its unit, and no client changes it"}}`, hear(t, ws))
	say(t, ws, `{"id":2,"method":"turn/interrupt","params":{"threadId":"th","turnId":"tu"}}`)
	assert.Contains(t, hear(t, ws), `"method":"turn/interrupt"`)
	assert.Equal(t, []string{"initialize  ", "initialized  ", "turn/interrupt th tu"}, passed)
}

func TestGateCountsWhoIsAttached(t *testing.T) {
	t.Parallel()
	attached, detached := make(chan Session, 2), make(chan Session, 2)
	p := &Proxy{Attached: func(s Session) { attached <- s }, Detached: func(s Session) { detached <- s }}
	owner, viewer := open(t, p, codex(t, echo))
	one, _ := dial(t, owner)
	say(t, one, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"tui","version":"7"}}}`)
	s := <-attached
	assert.Equal(t, "tui 7", s.Client)
	assert.NotZero(t, s.Peer.PID)
	assert.Equal(t, Owner, s.Role)
	two, _ := dial(t, viewer)
	say(t, two, `{"id":1,"method":"initialize","params":{}}`)
	s = <-attached
	assert.Equal(t, [3]int{int(Viewer), 1, 1}, [3]int{int(s.Role), s.Owners, s.Viewers})
	say(t, two, `{"id":2,"method":"turn/start","params":{}}`)
	assert.Contains(t, hear(t, two)+hear(t, two), "only reads") // the refusal may come first

	_ = one.CloseNow()
	s = <-detached
	assert.Equal(t, [2]int{0, 1}, [2]int{s.Owners, s.Viewers})
	assert.Equal(t, "the client has closed", s.Reason)
	_ = two.Close(websocket.StatusNormalClosure, "")
	s = <-detached
	assert.Equal(t, [2]int64{1, 1}, [2]int64{s.Requests, s.Refused})
	owners, viewers := p.Count()
	assert.Zero(t, owners+viewers)
}

// A client answers what codex has asked it, once, and nothing else. A viewer is asked nothing.
func TestGatePassesAnswersToWhatWasAsked(t *testing.T) {
	got := make(chan string, 10)
	target := codex(t, func(ctx context.Context, ws *websocket.Conn, _ *http.Request) {
		for _, m := range []string{
			`{"id":5,"method":"account/chatgptAuthTokens/refresh","params":{}}`,
			`{"method":"item/tool/call","id":6,"params":{"id":7}}`,
			`{"method":"turn/started","params":{"id":8,"method":"x"}}`,
			`{"id":"x","result":{"method":"item/tool/call"}}`,
		} {
			_ = ws.Write(ctx, websocket.MessageText, []byte(m))
		}
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return
			}
			got <- string(b)
		}
	})
	owner, viewer := open(t, &Proxy{}, target)
	one, _ := dial(t, owner)
	assert.Contains(t, hear(t, one), "item/tool/call")
	assert.Contains(t, hear(t, one), "turn/started")
	assert.Contains(t, hear(t, one), `"id":"x"`)
	for _, id := range []string{"5", "7", "8", `"x"`, "6", "6"} {
		say(t, one, `{"id":%s,"result":{}}`, id)
	}
	say(t, one, `{"id":9,"method":"thread/list"}`)
	assert.Equal(t, `{"id":6,"result":{}}`, <-got)
	assert.Contains(t, <-got, "thread/list")

	two, _ := dial(t, viewer)
	assert.Contains(t, hear(t, two), "turn/started")
	assert.Contains(t, hear(t, two), `"id":"x"`)
	say(t, two, `{"id":6,"result":{}}`)
	say(t, two, `{"id":9,"method":"thread/list"}`)
	assert.Contains(t, <-got, "thread/list")
}

// Refusals wait for the end of a message that codex sends in fragments.
func TestGateAnswersBetweenTheMessagesOfCodex(t *testing.T) {
	refused := make(chan struct{})
	target := codex(t, func(ctx context.Context, ws *websocket.Conn, _ *http.Request) {
		w, err := ws.Writer(ctx, websocket.MessageText)
		if err != nil {
			return
		}
		// More than the buffer of the library, which so sends a fragment.
		_, _ = w.Write([]byte(`{"id":"x","result":"` + strings.Repeat("a", 8<<10)))
		<-refused
		_, _ = io.WriteString(w, `"}`)
		_ = w.Close()
		_, _, _ = ws.Read(ctx)
	})
	owner, _ := open(t, &Proxy{}, target)
	ws, _ := dial(t, owner)
	_, r, err := ws.Reader(bounded(t))
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 4<<10))
	require.NoError(t, err)
	say(t, ws, `{"id":1,"method":"account/logout"}`)
	say(t, ws, `{"id":2,"method":"account/logout"}`)
	time.AfterFunc(100*time.Millisecond, func() { close(refused) })
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(rest), `aaa"}`))
	assert.Contains(t, hear(t, ws), `"id":1,"error"`)
	assert.Contains(t, hear(t, ws), `"id":2,"error"`)
}

func TestGateTakesLargeMessagesWithinBounds(t *testing.T) {
	owner, _ := open(t, &Proxy{}, codex(t, echo))
	ws, _ := dial(t, owner)
	text := `{"id":1,"method":"turn/start","params":{"input":"` + strings.Repeat("x", 15<<20) + `"}}`
	say(t, ws, "%s", text)
	assert.Contains(t, hear(t, ws), fmt.Sprintf(`"size":%d`, len(text)))

	w, err := ws.Writer(bounded(t), websocket.MessageText) // in fragments
	require.NoError(t, err)
	long := `{"id":2,"method":"turn/start","params":{"input":"` + strings.Repeat("y", 40<<20) + `"}}`
	for piece := range chunksOf(long, 1<<20) {
		_, err := io.WriteString(w, piece)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	assert.Contains(t, hear(t, ws), fmt.Sprintf(`"size":%d`, len(long)))

	_ = ws.Write(bounded(t), websocket.MessageText, make([]byte, 17<<20)) // the proxy reads the header only
	reason := end(t, ws)
	assert.Equal(t, websocket.StatusMessageTooBig, reason.Code)
	assert.Equal(t, "a frame has more than 16 MiB, which is what a remote takes", reason.Reason)

	ws, _ = dial(t, owner) // a gigabyte, in fragments
	w, err = ws.Writer(bounded(t), websocket.MessageText)
	require.NoError(t, err)
	sent := 0
	for part := make([]byte, 1<<20); err == nil && sent < 1024; sent++ {
		_, err = w.Write(part)
	}
	assert.Equal(t, "a message has more than 64 MiB, which is what a remote takes", end(t, ws).Reason)
}

func chunksOf(s string, size int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			n := min(size, len(s))
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

func TestGateEndsConnectionsOfGarbage(t *testing.T) {
	owner, _ := open(t, &Proxy{}, codex(t, echo))
	for want, send := range map[string]func(*websocket.Conn){
		"no JSON-RPC message": func(ws *websocket.Conn) { say(t, ws, "garbage") },
		"a JSON-RPC message with a member twice": func(ws *websocket.Conn) {
			say(t, ws, `{"id":1,"method":"thread/list","method":"account/logout"}`)
		},
		"a message is not text": func(ws *websocket.Conn) {
			require.NoError(t, ws.Write(bounded(t), websocket.MessageBinary, []byte{1, 2, 3}))
		},
	} {
		ws, _ := dial(t, owner)
		send(ws)
		assert.Equal(t, want, end(t, ws).Reason)
	}
	for _, bytes := range []string{"GET / HTTP/1.1\r\n\r\n", "POST /rpc HTTP/1.1\r\n\r\n", "\x00\x01\n\n",
		"GET /rpc HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nContent-Length: 5\r\n\r\n"} {
		conn, err := net.Dial("unix", owner)
		require.NoError(t, err)
		_, err = io.WriteString(conn, bytes)
		require.NoError(t, err)
		b, _ := io.ReadAll(conn)
		conn.Close()
		assert.Contains(t, string(b), "codex-proxy attach build", "%q", bytes)
	}
}

// A client that may not attach reads why, as the answer to its first request.
func TestGateBars(t *testing.T) {
	for name, p := range map[string]*Proxy{
		"no member of the group app": {Admit: func(Peer, Role) error { return errors.New("no member of the group app") }},
		"its own processes":          {Cgroup: Cgroup()},
	} {
		if name == "its own processes" && p.Cgroup == "" {
			t.Log("this process is in no control group of its own")
			continue
		}
		owner, _ := open(t, p, codex(t, echo))
		ws, _ := dial(t, owner)
		say(t, ws, `{"id":1,"method":"initialize","params":{}}`)
		assert.Contains(t, hear(t, ws), name)
		assert.Contains(t, end(t, ws).Reason, name)
	}
	owner, _ := open(t, &Proxy{}, "/nonexistent/codex.sock")
	ws, _ := dial(t, owner)
	say(t, ws, `{"id":1,"method":"initialize","params":{}}`)
	assert.Contains(t, hear(t, ws), "codex of the remote build does not answer")
}

func TestGateServesTheManager(t *testing.T) {
	manager := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, b)
	})
	const target = "/nonexistent/codex.sock"
	owner, viewer := open(t, &Proxy{Manager: manager, Renew: "/keeper/renew"}, target)
	network := filepath.Join(t.TempDir(), "build.network.sock")
	listen(t, &Proxy{Manager: manager, Renew: "/keeper/renew", Send: "/keeper/send", Viewers: network, Network: network},
		target, network)
	asOwner, asViewer := NetworkHeader("alice", Owner), NetworkHeader("alice", Viewer)
	for _, c := range []struct {
		socket, method, path, want string
		header                     http.Header
	}{
		{owner, "GET", "status", "GET /keeper/status hi", nil}, {owner, "POST", "status", "POST /keeper/status hi", nil},
		{viewer, "GET", "status", "GET /keeper/status hi", nil}, {viewer, "POST", "status", "this socket only reads\n", nil},
		{viewer, "POST", "renew", "this socket only reads\n", nil}, // of viewers
		{viewer, "POST", "send", "this socket only reads\n", asOwner},
		{network, "POST", "renew", "POST /keeper/renew hi", nil},
		{network, "POST", "status", "this socket only reads\n", asOwner},
		{network, "POST", "send", "POST /keeper/send hi", asOwner},
		{network, "POST", "send", "this socket only reads\n", asViewer},
		{network, "POST", "send", "this socket only reads\n", nil},
	} {
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", c.socket)
		}}}
		r, err := http.NewRequestWithContext(bounded(t), c.method, "http://remote/keeper/"+c.path, strings.NewReader("hi"))
		require.NoError(t, err)
		maps.Copy(r.Header, c.header)
		resp, err := client.Do(r)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, c.want, string(b))
	}
}

// The end of codex ends the connection of its clients at once: a TUI then begins to reconnect.
func TestGateEndsWithCodex(t *testing.T) {
	t.Parallel()
	detached := make(chan Session, 1)
	target := codex(t, func(ctx context.Context, ws *websocket.Conn, _ *http.Request) {
		_, _, _ = ws.Read(ctx)
		_ = ws.CloseNow()
	})
	owner, _ := open(t, &Proxy{Detached: func(s Session) { detached <- s }}, target)
	ws, _ := dial(t, owner)
	say(t, ws, `{"id":1,"method":"initialize","params":{}}`)
	_, _, err := ws.Read(bounded(t))
	assert.ErrorIs(t, err, io.EOF)
	assert.Equal(t, "codex has closed", (<-detached).Reason)
}

// On the socket of codex-proxy the head of the request names the API key and its role; without a role a client watches,
// and on no other socket do these lines mean anything. codex gets neither.
func TestGateOfAPIKeys(t *testing.T) {
	heads := make(chan http.Header, 8)
	target := codex(t, func(ctx context.Context, ws *websocket.Conn, r *http.Request) {
		heads <- r.Header
		echo(ctx, ws, r)
	})
	attached := make(chan Session, 8)
	network := filepath.Join(t.TempDir(), "build.network.sock")
	p := &Proxy{Network: network, Attached: func(s Session) { attached <- s }}
	owners, viewers := open(t, p, target)
	listen(t, p, target, network)
	owner := http.Header{"Codex-Proxy-Key": {"laptop"}, "Codex-Proxy-Role": {"owner"}}
	for _, c := range []struct {
		socket string
		header http.Header
		role   Role
		key    string
	}{
		{network, owner, Owner, "laptop"},
		{network, http.Header{"Codex-Proxy-Key": {"eyes"}, "Codex-Proxy-Role": {"viewer"}}, Viewer, "eyes"},
		{network, http.Header{"Codex-Proxy-Key": {"eyes"}}, Viewer, "eyes"},
		{network, nil, Viewer, ""},
		{owners, http.Header{"Codex-Proxy-Key": {"laptop"}, "Codex-Proxy-Role": {"viewer"}}, Owner, ""},
		{viewers, owner, Viewer, ""},
	} {
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
		}}}
		ws, _, err := websocket.Dial(bounded(t), "ws://remote/rpc", &websocket.DialOptions{HTTPClient: client, HTTPHeader: c.header})
		require.NoError(t, err)
		require.NoError(t, ws.Write(bounded(t), websocket.MessageText,
			[]byte(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}`)))
		s := <-attached
		assert.Equal(t, c.role, s.Role, c)
		assert.Equal(t, c.key, s.Key, c)
		if c.key != "" {
			assert.Equal(t, "key "+c.key, s.User())
		}
		head := <-heads
		assert.NotContains(t, head, "Codex-Proxy-Key")
		assert.NotContains(t, head, "Codex-Proxy-Role")
		_ = ws.CloseNow()
	}
}
