package keyed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/console/pipe"
	"codex-proxy/console/server"
	"codex-proxy/console/verbs"
	"codex-proxy/workers/control"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")) // it waits half a second
}

// daemon has the keys, by their secrets.
type daemon struct {
	mu   sync.Mutex
	keys map[string]control.ConsoleKey
	err  error // the answer to all; nil: there are answers
}

func (d *daemon) ask(_ context.Context, ask control.ConsoleAsk) (control.ConsoleKey, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return control.ConsoleKey{}, d.err
	}
	if ask.Key != "" {
		return d.keys[ask.Key], nil
	}
	for _, k := range d.keys {
		if k.Name == ask.Name {
			return k, nil
		}
	}
	return control.ConsoleKey{}, nil
}

func (d *daemon) set(secret string, k control.ConsoleKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.keys, secret)
	if k.Name != "" {
		d.keys[secret] = k
	}
}

// rig is both processes, with a server for browsers.
type rig struct {
	*daemon
	orders *Orders
	url    string
	done   chan string     // the verbs that were carried out, with the key
	values chan<- struct{} // each has the stream send a value
}

func newRig(t *testing.T) *rig {
	t.Helper()
	values := make(chan struct{})
	r := &rig{daemon: &daemon{keys: map[string]control.ConsoleKey{
		"sk-looks": {Name: "looks", ID: "looks 1", Right: read}, "sk-acts": {Name: "acts", ID: "acts 2", Right: operate},
		"sk-api": {Name: "api", ID: "api 3"},
	}}, done: make(chan string, 100), values: values}
	run := func(changes bool) verbs.Verb {
		return verbs.Verb{Changes: changes, Words: map[string]verbs.Form{"worker": verbs.Name},
			Run: func(context.Context, verbs.Words, verbs.Send) (any, error) { return map[string]bool{"ok": true}, nil }}
	}
	r.orders = &Orders{Secret: bytes.Repeat([]byte{7}, secretSize), Ask: r.ask, Logger: slog.New(slog.DiscardHandler),
		Origins: func() ([]string, error) { return []string{"https://codex.example.com"}, nil },
		Verbs: func(k control.ConsoleKey) map[string]verbs.Verb {
			drain, usage := run(true), run(false)
			drain.Run = func(context.Context, verbs.Words, verbs.Send) (any, error) {
				r.done <- "drain by " + k.Name
				return map[string]bool{"ok": true}, nil
			}
			watch := verbs.Verb{Run: func(ctx context.Context, _ verbs.Words, send verbs.Send) (any, error) {
				for {
					if err := send(map[string]string{"key": k.Name}); err != nil {
						return nil, err
					}
					select {
					case <-values:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}}
			return map[string]verbs.Verb{"drain": drain, "usage": usage, "watch": watch}
		}}
	socket := filepath.Join(t.TempDir(), "orders")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn := NewConnection(socket, "codex-proxy")
	list, err := func() ([]string, error) {
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 2)
		go func() { served <- (&Server{Orders: r.orders, Unused: time.Hour}).Run(ctx, l) }()
		t.Cleanup(func() {
			conn.Close()
			cancel()
			assert.NoError(t, <-served)
			assert.NoError(t, <-served)
			http.DefaultClient.CloseIdleConnections()
		})
		list, err := conn.Origins(ctx)
		page := server.New(server.Settings{Orders: conn, Access: conn, Answer: conn.Answer, Origins: append(list, "http://"+front.Addr().String()),
			Files: fstest.MapFS{"index.html": {Data: []byte("page")}},
			Page:  server.Page{Service: "codex-proxy", Watch: pipe.Order{Verb: "watch"}}})
		go func() { served <- page.Serve(ctx, front) }()
		return list, err
	}()
	require.NoError(t, err)
	require.Equal(t, []string{"https://codex.example.com"}, list)
	r.url = "http://" + front.Addr().String()
	return r
}

func (r *rig) send(t *testing.T, method, path, session, body string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("Authorization", "Bearer "+session)
	}
	for _, c := range change {
		c(req)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

func (r *rig) login(t *testing.T, key string) (session string, readOnly bool) {
	t.Helper()
	status, text := r.send(t, "POST", "/api/session", "", `{"token":"`+key+`"}`)
	require.Equal(t, http.StatusOK, status, text)
	var got server.Begun
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	return got.Session, got.ReadOnly
}

const drain = `{"verb":"drain","words":{"worker":"default"}}`

// A key that may operate gives orders, and one that may read does not.
func TestRights(t *testing.T) {
	r := newRig(t)
	acts, readOnly := r.login(t, "sk-acts")
	assert.False(t, readOnly)
	status, text := r.send(t, "POST", "/api/do", acts, drain)
	assert.Equal(t, http.StatusOK, status, text)
	assert.Equal(t, "drain by acts", <-r.done)
	looks, readOnly := r.login(t, "sk-looks")
	assert.True(t, readOnly)
	status, text = r.send(t, "POST", "/api/do", looks, drain)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, text, "codex-proxy keys set looks --console=operate")
	status, _ = r.send(t, "POST", "/api/do", looks, `{"verb":"usage"}`)
	assert.Equal(t, http.StatusOK, status)
	status, text = r.send(t, "GET", "/api/access", "", "")
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"keyed":true}`, text)
	assert.Empty(t, r.done)
}

// Everything that is no session of a key in force is refused.
func TestAttacks(t *testing.T) {
	r := newRig(t)
	acts, _ := r.login(t, "sk-acts")
	looks, _ := r.login(t, "sk-looks")
	now, other := time.Now(), bytes.Repeat([]byte{8}, secretSize)
	key := control.ConsoleKey{Name: "acts", ID: "acts 2", Right: operate}
	parts := func(s string) []string { return strings.Split(s, "~") }
	as := func(header string) func(*http.Request) {
		return func(req *http.Request) {
			name, value, _ := strings.Cut(header, ": ")
			req.Header.Set(name, value)
		}
	}
	host := func(name string) func(*http.Request) { return func(req *http.Request) { req.Host = name } }
	for name, a := range map[string]struct {
		session string
		change  func(*http.Request)
		status  int
	}{
		"no session":                    {"", nil, 401},
		"the key as the session":        {"sk-acts", nil, 401},
		"half a session":                {parts(acts)[0] + "~" + parts(acts)[1], nil, 401},
		"another name":                  {"acts~" + parts(looks)[1] + "~" + parts(looks)[2], nil, 401},
		"a longer life":                 {"acts~99999999999~" + parts(acts)[2], nil, 401},
		"no end":                        {"acts~~" + parts(acts)[2], nil, 401},
		"no name":                       {"~" + parts(acts)[1] + "~" + parts(acts)[2], nil, 401},
		"a name that is no key":         {signed(r.orders.Secret, control.ConsoleKey{}, now.Add(time.Hour)), nil, 401},
		"an empty signature":            {"acts~" + parts(acts)[1] + "~", nil, 401},
		"another signature":             {acts + "x", nil, 401},
		"one part more":                 {acts + "~x", nil, 401},
		"another secret":                {signed(other, key, now.Add(time.Hour)), nil, 401},
		"an earlier key of that name":   {signed(r.orders.Secret, control.ConsoleKey{Name: "acts", ID: "acts 1"}, now.Add(time.Hour)), nil, 401},
		"a session that is over":        {signed(r.orders.Secret, key, now.Add(-time.Second)), nil, 401},
		"a session of a key without it": {signed(r.orders.Secret, control.ConsoleKey{Name: "api", ID: "api 3"}, now.Add(time.Hour)), nil, 401},
		"the session as Basic":          {"", as("Authorization: Basic " + acts), 401},
		"the session as a cookie":       {"", as("Cookie: session=" + acts), 401},
		"another name of this machine":  {acts, host("localhost:8791"), 421},
		"a name that resolves here":     {acts, host("evil.example"), 421},
		"the right name with a port":    {acts, host("codex.example.com:8791"), 421},
		"another origin":                {acts, as("Origin: https://evil.example"), 403},
		"the other scheme of an origin": {acts, func(req *http.Request) {
			req.Host = "codex.example.com"
			req.Header.Set("Origin", "http://codex.example.com")
		}, 403},
		"the origin of another host": {acts, as("Origin: https://codex.example.com"), 403},
		"another site":               {acts, as("Sec-Fetch-Site: cross-site"), 403},
		"a form of another page":     {acts, as("Content-Type: text/plain"), 415},
		"a method":                   {acts, func(req *http.Request) { req.Method = "PUT" }, 405},
		"a session in the query":     {"", func(req *http.Request) { req.URL.RawQuery = "session=" + acts }, 400},
		"an order as another person": {looks, func(req *http.Request) { body(req, `{"verb":"drain","words":{"worker":"default"},"as":"`+acts+`"}`) }, 422},
		"a verb of root":             {acts, func(req *http.Request) { body(req, `{"verb":"add","words":{"key":"x"}}`) }, 422},
		"a login as an order":        {acts, func(req *http.Request) { body(req, `{"verb":"drain","words":{"worker":"../x"}}`) }, 422},
		"a word that no verb has":    {acts, func(req *http.Request) { body(req, `{"verb":"drain","words":{"workers":"x"}}`) }, 422},
		"no JSON":                    {acts, func(req *http.Request) { body(req, `drain`) }, 400},
		"a file above those of the page": {acts, func(req *http.Request) {
			req.Method, req.URL.Path, req.Body, req.ContentLength = "GET", "/../secret", nil, 0
		}, 404},
	} {
		change := func(req *http.Request) {
			if a.change != nil {
				a.change(req)
			}
		}
		status, text := r.send(t, "POST", "/api/do", a.session, drain, change)
		assert.Equal(t, a.status, status, "%s: %s", name, text)
	}
	assert.Empty(t, r.done, "nothing was carried out")
	status, text := r.send(t, "POST", "/api/do", acts, drain, func(req *http.Request) {
		req.Host = "codex.example.com"
		req.Header.Set("Origin", "https://codex.example.com")
	})
	assert.Equal(t, http.StatusOK, status, text)
}

func body(req *http.Request, text string) {
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
}

// Ten wrong keys have further ones refused, the right one, too, and sessions go on.
func TestTries(t *testing.T) {
	r := newRig(t)
	acts, _ := r.login(t, "sk-acts")
	for range 20 { // right keys count for nothing
		r.login(t, "sk-looks")
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	wrong := 0
	for range 50 {
		wait.Go(func() {
			answer, err := r.orders.login(t.Context(), "sk-guess")
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(answer.Why, "no API key") {
				wrong++
			}
		})
	}
	wait.Wait()
	assert.Equal(t, maxTries, wrong)
	status, text := r.send(t, "POST", "/api/session", "", `{"token":"sk-acts"}`)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, text, "try again in a minute")
	status, _ = r.send(t, "POST", "/api/do", acts, drain)
	assert.Equal(t, http.StatusOK, status, "a session goes on")
	r.orders.tries.since = time.Now().Add(-triesTime)
	r.login(t, "sk-acts")
	status, text = r.send(t, "POST", "/api/session", "", `{"token":"sk-api"}`)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, text, "codex-proxy keys set api --console=read")
}

// watch opens a stream, and reads its first value.
func (r *rig) watch(t *testing.T, session string) *json.Decoder {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/api/watch", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+session)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	stream := json.NewDecoder(res.Body)
	var value map[string]string
	require.NoError(t, stream.Decode(&value))
	return stream
}

// A request that is too long is refused alone: the connection that all people share goes on.
func TestLongRequests(t *testing.T) {
	r := newRig(t)
	acts, _ := r.login(t, "sk-acts")
	stream := r.watch(t, acts)
	var value map[string]string
	long := strings.Repeat("<", 11000)
	status, text := r.send(t, "POST", "/api/session", "", `{"token":"`+long+`"}`)
	assert.Equal(t, http.StatusForbidden, status, text)
	status, text = r.send(t, "POST", "/api/do", long, drain)
	assert.Equal(t, http.StatusUnauthorized, status, text)
	status, text = r.send(t, "POST", "/api/do", acts, `{"verb":"drain","words":{"worker":"`+long+`"}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status, text)
	assert.Contains(t, text, "too long")
	go func() {
		select {
		case r.values <- struct{}{}:
		case <-t.Context().Done():
		}
	}()
	require.NoError(t, stream.Decode(&value), "the stream goes on")
}

// A page that is opened again and again takes the place of its own oldest stream.
func TestPlacesOfASession(t *testing.T) {
	r := newRig(t)
	looks, _ := r.login(t, "sk-looks")
	var first *json.Decoder
	for range 10 {
		first = cmp.Or(first, r.watch(t, looks))
	}
	var value map[string]string
	assert.ErrorIs(t, first.Decode(&value), io.EOF)
}

// A session ends with its key, and a stream does, too.
func TestRevoked(t *testing.T) {
	r := newRig(t)
	acts, _ := r.login(t, "sk-acts")
	stream := r.watch(t, acts)
	var value map[string]string
	r.set("sk-acts", control.ConsoleKey{Name: "acts", ID: "acts 2", Right: read})
	status, text := r.send(t, "POST", "/api/do", acts, drain)
	assert.Equal(t, http.StatusUnauthorized, status, "the page shows another right: %s", text)
	r.set("sk-acts", control.ConsoleKey{})
	status, text = r.send(t, "POST", "/api/do", acts, drain)
	assert.Equal(t, http.StatusUnauthorized, status, text)
	var err error
	for err == nil { // a value a moment after the other, until one is refused
		select {
		case r.values <- struct{}{}:
			err = stream.Decode(&value)
		case <-time.After(20 * time.Second):
			require.Fail(t, "the stream goes on")
		}
	}
	assert.ErrorIs(t, err, io.EOF)
}

// The secret is made once, for its user alone.
func TestRevokedWhileNothingIsSent(t *testing.T) {
	r := newRig(t)
	r.orders.quiet = time.Millisecond
	acts, _ := r.login(t, "sk-acts")
	stream := r.watch(t, acts)
	r.set("sk-acts", control.ConsoleKey{})
	var value map[string]string
	assert.ErrorIs(t, stream.Decode(&value), io.EOF, "the stream has ended")
}

// A person is not attached to a quiet remote either once the daemon cannot judge the key any more: its keys are too old.
func TestOutdatedWhileNothingIsSent(t *testing.T) {
	r := newRig(t)
	r.orders.quiet = time.Millisecond
	acts, _ := r.login(t, "sk-acts")
	stream := r.watch(t, acts)
	r.mu.Lock()
	r.err = errors.New("the database does not answer")
	r.mu.Unlock()
	var value map[string]string
	assert.ErrorIs(t, stream.Decode(&value), io.EOF, "the stream has ended")
}

// A person without a key reads nothing of this machine.
func TestAway(t *testing.T) {
	o := &Orders{Logger: slog.New(slog.DiscardHandler), Ask: control.NewClient("/no/such/socket").ConsoleKey}
	_, err := o.login(t.Context(), "sk-x")
	require.ErrorIs(t, err, errAway)
	_, err = o.person(t.Context(), "alice~9999999999~x")
	require.ErrorIs(t, err, errAway)
	_, err = NewConnection("/no/such/socket", "codex-proxy").Origins(t.Context())
	assert.NotContains(t, err.Error(), "/no/such")
}

func TestSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	first, err := Secret(file)
	require.NoError(t, err)
	assert.Len(t, first, secretSize)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	second, err := Secret(file)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	require.NoError(t, os.WriteFile(file, []byte("short"), 0o600))
	_, err = Secret(file)
	assert.ErrorContains(t, err, "is damaged")
	_, err = Secret(filepath.Join(file, "below"))
	assert.Error(t, err)
}

// A server whose other process is down says so, and goes on with the next one.
func TestConnectionComesBack(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "orders")
	conn := NewConnection(socket, "codex-proxy")
	defer conn.Close()
	_, err := conn.Do(t.Context(), pipe.Order{Verb: "usage"})
	assert.ErrorContains(t, err, "codex-console-orders")
	for range 2 {
		l, err := net.Listen("unix", socket)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		o := &Orders{Logger: slog.New(slog.DiscardHandler), Origins: func() ([]string, error) { return nil, errors.New("a fault") }}
		go func() { served <- (&Server{Orders: o, Unused: time.Hour}).Run(ctx, l) }()
		_, err = conn.Origins(t.Context())
		assert.ErrorContains(t, err, "a fault")
		cancel()
		require.NoError(t, <-served)
	}
}

// The process of orders ends when nobody has been connected for a time.
func TestUnused(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "orders"))
	require.NoError(t, err)
	require.NoError(t, (&Server{Orders: &Orders{}, Unused: time.Millisecond}).Run(t.Context(), l))
}
