package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/console/pipe"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")) // it waits half a second
}

// orders records the orders that get through.
type orders struct{ done chan pipe.Order }

func (o *orders) Do(_ context.Context, order pipe.Order) (json.RawMessage, error) {
	o.done <- order
	if order.Verb == "fail" {
		return nil, errors.New("it cannot: do that first")
	}
	return json.RawMessage(`{"ok":true}`), nil
}

func (o *orders) Stream(ctx context.Context, order pipe.Order, each func(json.RawMessage) error) error {
	o.done <- order
	if err := each(json.RawMessage(`{"whole":true}`)); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

type rig struct {
	*Server
	*orders
	host, url string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &rig{orders: &orders{done: make(chan pipe.Order, 100)}, host: l.Addr().String()}
	r.url = "http://" + r.host
	files := fstest.MapFS{"index.html": {Data: []byte("<p>page</p>")}, "sub/x.js": {Data: []byte("2")}}
	port := l.Addr().(*net.TCPAddr).Port
	r.Server = New(Settings{Orders: r.orders, Files: files, Access: NewLink("right-token", "codex-proxy", false),
		Origins: []string{Loopback(port)}, Page: Page{Service: "codex-proxy", Watch: pipe.Order{Verb: "watch"}, Streams: []string{"transcript"}}})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-served)
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// send sends raw text, for requests that no library makes.
func (r *rig) send(t *testing.T, text string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.host)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	require.NoError(t, err)
	return res.StatusCode, string(got)
}

// request is a request in one text, with a Content-Length for its body.
func request(line, host, body string, headers ...string) string {
	text := line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	return text + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func (r *rig) session(t *testing.T) string {
	t.Helper()
	status, body := r.send(t, request("POST /api/session", r.host, `{"token":"right-token"}`, asJSON))
	require.Equal(t, http.StatusOK, status, body)
	var got struct {
		Session string `json:"session"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	return "Authorization: Bearer " + got.Session
}

const asJSON = "Content-Type: application/json"

func TestPage(t *testing.T) {
	r := newRig(t)
	res, err := http.Get(r.url + "/")
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	assert.Equal(t, "<p>page</p>", string(body))
	assert.Equal(t, policy, res.Header.Get("Content-Security-Policy"))
	assert.NotContains(t, policy, "unsafe")
	assert.Contains(t, policy, "manifest-src 'self'", "an app of the Home Screen has one")
	assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	assert.Empty(t, res.Cookies())
	own := r.session(t)
	status, text := r.send(t, request("POST /api/do", r.host, `{"verb":"drain","words":{"worker":"a"}}`, own, asJSON,
		"Origin: "+r.url, "Sec-Fetch-Site: same-origin"))
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"ok":true}`, text)
	assert.Equal(t, pipe.Order{Verb: "drain", Words: map[string]string{"worker": "a"}}, <-r.done)
	status, text = r.send(t, request("POST /api/do", r.host, `{"verb":"fail"}`, own, asJSON))
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.JSONEq(t, `{"error":"it cannot: do that first"}`, text)
}

// The stream gets its first line at once, and pages are bounded.
func TestStream(t *testing.T) {
	r := newRig(t)
	own := strings.TrimPrefix(r.session(t), "Authorization: ")
	ctx, cancel := context.WithCancel(t.Context())
	open := func() *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/api/watch", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", own)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		return res
	}
	for range maxStreams {
		res := open()
		defer res.Body.Close()
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		require.NoError(t, err)
		assert.JSONEq(t, `{"whole":true}`, line)
	}
	res := open()
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.NoError(t, res.Body.Close())
	for range maxStreams { // a page may follow one remote more
		res := follow(ctx, t, r, own)
		defer res.Body.Close()
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		require.NoError(t, err)
		assert.JSONEq(t, `{"whole":true}`, line)
	}
	res = follow(ctx, t, r, own)
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.NoError(t, res.Body.Close())
	cancel()
}

// Several people have places: a newer stream ends the oldest of its session, and then of its key.
func TestPlaces(t *testing.T) {
	p := &places{most: maxKeyedStreams, person: func(session string) string {
		key, _, _ := strings.Cut(session, "~")
		return key
	}}
	var ended []string
	leaves := map[string]func(){}
	take := func(session, name string) bool {
		leave, ok := p.take(session, func() { ended = append(ended, name) })
		leaves[name] = leave
		return ok
	}
	for _, name := range []string{"a1", "a2", "a3", "a4"} {
		assert.True(t, take("phone~1", name))
	}
	assert.Equal(t, []string{"a1"}, ended, "of the session")
	for _, name := range []string{"b1", "b2", "b3"} {
		assert.True(t, take("phone~2", name))
	}
	assert.Equal(t, []string{"a1", "a2"}, ended, "of the key")
	for _, name := range []string{"c1", "c2", "c3"} {
		assert.True(t, take("alice~1", name), "others have room")
	}
	assert.False(t, take("bob~1", "d1"))
	leaves["a1"]() // it has lost its place already
	assert.False(t, take("bob~1", "d1"))
	leaves["c1"]()
	assert.True(t, take("bob~1", "d1"))
	assert.Equal(t, []string{"a1", "a2"}, ended)
}

func follow(ctx context.Context, t *testing.T, r *rig, own string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/follow",
		strings.NewReader(`{"verb":"transcript","words":{"remote":"build"}}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", own)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return res
}

// Whatever another page, user or program tries is refused, and no order gets through.
func TestAttacks(t *testing.T) {
	const drain = `{"verb":"drain","words":{"worker":"a"}}`
	r := newRig(t)
	own := r.session(t)
	port := strings.TrimPrefix(r.host, "127.0.0.1:")
	secret := strings.TrimPrefix(own, "Authorization: Bearer ")
	const transcript = `{"verb":"transcript","words":{"remote":"build"}}`
	const message = `{"verb":"send","words":{"remote":"build","text":"rm -rf /"}}`
	const approval = `{"verb":"approve","words":{"remote":"build","thread":"x","question":"y","decision":"accept"}}`
	follow := func(body string, headers ...string) string {
		return request("POST /api/follow", r.host, body, headers...)
	}
	post := func(body string) string { return request("POST /api/do", r.host, body, own, asJSON) }
	do := func(headers ...string) string {
		return request("POST /api/do", r.host, drain, append(headers, asJSON)...)
	}
	for name, tc := range map[string]struct {
		request string
		status  int
	}{
		"rebinding: the page":                 {request("GET /", "evil.example:"+port, ""), 421},
		"rebinding: an order":                 {request("POST /api/do", "evil.example", drain, own, asJSON), 421},
		"rebinding: the link":                 {request("POST /api/session", "evil.example", `{"token":"x"}`, asJSON), 421},
		"another name of the loopback":        {request("GET /", "127.0.0.2:"+port, ""), 421},
		"a name that begins like ours":        {request("GET /", "127.0.0.1.evil.example:"+port, ""), 421},
		"another port":                        {request("GET /", "127.0.0.1:1", ""), 421},
		"no port":                             {request("GET /", "localhost", ""), 421},
		"the name localhost":                  {request("GET /", "localhost:"+port, ""), 421},
		"no host":                             {"GET / HTTP/1.0\r\n\r\n", 421},
		"an address in the line":              {request("GET http://evil.example/", r.host, ""), 421},
		"cross-site: origin":                  {do(own, "Origin: http://evil.example"), 403},
		"cross-site: https":                   {do(own, "Origin: https://"+r.host), 403},
		"cross-site: null":                    {do(own, "Origin: null"), 403},
		"cross-site: another port":            {do(own, "Origin: http://127.0.0.1:1"), 403},
		"cross-site: fetch metadata":          {do(own, "Sec-Fetch-Site: cross-site"), 403},
		"same site, another port":             {do(own, "Sec-Fetch-Site: same-site"), 403},
		"cross-site: the stream":              {request("GET /api/watch", r.host, "", own, "Sec-Fetch-Site: cross-site"), 403},
		"a form":                              {request("POST /api/do", r.host, drain, own, "Content-Type: text/plain"), 415},
		"a form's type with ours inside":      {request("POST /api/do", r.host, drain, own, "Content-Type: text/plain; application/json"), 415},
		"no type":                             {request("POST /api/do", r.host, drain, own), 415},
		"a GET that orders":                   {request("GET /api/do", r.host, "", own), 405},
		"another method":                      {request("DELETE /api/do", r.host, "", own), 405},
		"a preflight":                         {request("OPTIONS /api/do", r.host, "", "Origin: http://evil.example"), 403},
		"a preflight without an origin":       {request("OPTIONS /api/do", r.host, ""), 405},
		"no session":                          {do(), 401},
		"an empty session":                    {do("Authorization: Bearer "), 401},
		"a wrong session":                     {do("Authorization: Bearer wrong"), 401},
		"the token as the session":            {do("Authorization: Bearer right-token"), 401},
		"the session as a cookie":             {do("Cookie: session=" + secret), 401},
		"the session as Basic":                {do(strings.Replace(own, "Bearer", "Basic", 1)), 401},
		"the session in the address":          {request("GET /api/watch?session="+secret, r.host, ""), 400},
		"the stream without a session":        {request("GET /api/watch", r.host, ""), 401},
		"a replay of the link":                {request("POST /api/session", r.host, `{"token":"right-token"}`, asJSON), 403},
		"the token in the address":            {request("GET /?link=right-token", r.host, ""), 400},
		"traversal":                           {request("GET /../../etc/passwd", r.host, ""), 404},
		"traversal, escaped":                  {request("GET /%2e%2e/%2e%2e/etc/passwd", r.host, ""), 404},
		"traversal, from below":               {request("GET /sub/../../etc/passwd", r.host, ""), 404},
		"an absolute path":                    {request("GET //etc/passwd", r.host, ""), 404},
		"a directory":                         {request("GET /sub", r.host, ""), 404},
		"a NUL":                               {request("GET /index.html%00.js", r.host, ""), 404},
		"another path of the API":             {request("GET /api/keys", r.host, "", own), 404},
		"the control socket's own path":       {request("GET /v1/status", r.host, "", own), 404},
		"an order of two objects":             {post(`{"verb":"drain","socket":"/x"}`), 400},
		"an order that is no JSON":            {post("drain"), 400},
		"words that are no texts":             {post(`{"verb":"drain","words":{"worker":["a"]}}`), 400},
		"a body without end":                  {post(`{"verb":"` + strings.Repeat("x", maxBody) + `"}`), 400},
		"a stream as an order":                {post(`{"verb":"watch","words":{"of":"keys"}}`), 400},
		"a stream of a remote as an order":    {post(`{"verb":"transcript","words":{"remote":"build"}}`), 400},
		"an order as a stream":                {follow(`{"verb":"send","words":{"remote":"build","text":"x"}}`, own, asJSON), 400},
		"the stream of all as another stream": {follow(`{"verb":"watch","words":{"of":"keys"}}`, own, asJSON), 400},
		"a remote: no session":                {follow(transcript, asJSON), 401},
		"a remote: another page":              {follow(transcript, own, asJSON, "Origin: http://evil.example"), 403},
		"a remote: another site":              {follow(transcript, own, asJSON, "Sec-Fetch-Site: cross-site"), 403},
		"a remote: rebinding":                 {request("POST /api/follow", "evil.example:"+port, transcript, own, asJSON), 421},
		"a remote: a form":                    {follow(transcript, own, "Content-Type: text/plain"), 415},
		"a remote: a GET":                     {request("GET /api/follow", r.host, "", own), 405},
		"a remote: a parameter":               {request("POST /api/follow?remote=build", r.host, transcript, own, asJSON), 400},
		"a message: no session":               {request("POST /api/do", r.host, message, asJSON), 401},
		"a message: another page":             {request("POST /api/do", r.host, message, own, asJSON, "Origin: http://evil.example"), 403},
		"an approval: a replayed session":     {request("POST /api/do", r.host, approval, "Authorization: Bearer "+strings.ToUpper(secret), asJSON), 401},
		"an approval: a form":                 {request("POST /api/do", r.host, approval, own, "Content-Type: application/x-www-form-urlencoded"), 415},
		"a header without end":                {request("GET /", r.host, "", "X: "+strings.Repeat("x", 64<<10)), 431},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := r.send(t, tc.request)
			assert.Equal(t, tc.status, status, body)
			assert.NotContains(t, body, "root:")
			assert.Empty(t, r.done, "no order gets through")
		})
	}
	status, _ := r.send(t, do(own))
	assert.Equal(t, http.StatusOK, status, "the session is valid still")
}

// A link in another page opens this one, and a frame of another page does not.
func TestNavigation(t *testing.T) {
	r := newRig(t)
	for name, tc := range map[string]struct {
		path, mode, dest string
		status           int
	}{
		"a link":          {"/", "navigate", "document", 200},
		"a frame":         {"/", "navigate", "iframe", 403},
		"a script":        {"/sub/x.js", "no-cors", "script", 403},
		"a link to watch": {"/api/watch", "navigate", "document", 403},
	} {
		status, _ := r.send(t, request("GET "+tc.path, r.host, "", "Sec-Fetch-Site: cross-site",
			"Sec-Fetch-Mode: "+tc.mode, "Sec-Fetch-Dest: "+tc.dest))
		assert.Equal(t, tc.status, status, name)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", r.host)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range maxConnections {
		dial()
	}
	_, err := dial().Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

// A program that asks and does not read is cut off.
func TestProgramThatDoesNotReadIsCutOff(t *testing.T) {
	served := make(chan error, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(Settings{Access: NewLink("", "", false), Origins: []string{Loopback(l.Addr().(*net.TCPAddr).Port)},
		Files: fstest.MapFS{"index.html": {Data: make([]byte, 32<<20)}}}) // more than the buffers of a socket
	s.patience = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- s.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	for err == nil { // ends when the server has closed the connection
		_, err = io.WriteString(conn, request("GET /", l.Addr().String(), strings.Repeat("x", 1<<16)))
	}
	cancel()
	require.NoError(t, <-served)
}

// A link has one use and one minute.
func TestLink(t *testing.T) {
	l, ctx := NewLink("right", "codex-proxy", true), t.Context()
	for range 100 { // nobody can guess it, so that tries of another user of this host must not void it
		_, why, _ := l.Begin(ctx, "wrong")
		assert.Equal(t, "the link is wrong", why)
	}
	_, why, _ := l.Begin(ctx, "")
	assert.Equal(t, "the link is wrong", why)
	why, err := l.Known(ctx, "")
	require.NoError(t, err)
	assert.NotEmpty(t, why)
	l.born = time.Now().Add(-linkLife - time.Second)
	_, why, _ = l.Begin(ctx, "right")
	assert.Contains(t, why, "valid for 1m0s")

	l = NewLink("right", "codex-proxy", true)
	begun, why, err := l.Begin(ctx, "right")
	require.NoError(t, err)
	assert.Empty(t, why)
	assert.Len(t, begun.Session, 32)
	assert.True(t, begun.ReadOnly)
	_, why, _ = l.Begin(ctx, "right")
	assert.Contains(t, why, "was used")
	assert.NotEqual(t, Token(), Token())
}
