package api

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/auth"
)

// socket is a client's end of a WebSocket.
type socket struct {
	*websocket.Conn
	t *testing.T
}

func (r *rig) socket(t *testing.T, header ...string) *socket {
	t.Helper()
	conn, _, err := r.upgrade(t, header...)
	require.NoError(t, err)
	conn.SetReadLimit(1 << 24)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{conn, t}
}

func (r *rig) upgrade(t *testing.T, header ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	return websocket.Dial(ctx, r.url+"/v1/responses",
		&websocket.DialOptions{HTTPHeader: h, HTTPClient: &http.Client{Transport: r.client.Transport}})
}

func (k *socket) say(message string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), bound)
	defer cancel()
	require.NoError(k.t, k.Write(ctx, websocket.MessageText, []byte(message)))
}

func (k *socket) hear() seen {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), bound)
	defer cancel()
	_, data, err := k.Read(ctx)
	require.NoError(k.t, err)
	return read[seen](k.t, string(data))
}

// response hears one response to its end.
func (k *socket) response() seen {
	k.t.Helper()
	for n := 0; ; n++ {
		e := k.hear()
		require.Equal(k.t, n, e.SequenceNumber)
		switch e.Type {
		case "response.completed", "response.failed", "response.incomplete", "error":
			return e
		}
	}
}

// closed hears nothing but the end of the connection.
func (k *socket) closed() websocket.StatusCode {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), bound)
	defer cancel()
	_, data, err := k.Read(ctx)
	require.Error(k.t, err, "%s", data)
	return websocket.CloseStatus(err)
}

func create(extra, input string) string {
	return `{"type":"response.create",` + strings.TrimPrefix(asked(extra, input), "{")
}

// One response after another, each of which continues the last one although
// nothing is stored.
func TestResponsesOnASocket(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: telling(given)})
	k := r.socket(t)
	k.say(create(`"generate":false,"store":false,`, `[{"role":"developer","content":"d"}]`))
	warm := k.response()
	assert.Equal(t, "response.completed", warm.Type)
	assert.Empty(t, warm.Response.Output)
	assert.Empty(t, given, "nothing is asked of the model")

	k.say(create(`"store":false,"previous_response_id":"`+warm.Response.ID+`",`, `"q1"`))
	first := k.response()
	assert.Equal(t, "answer to q1", first.Response.Output[1].Content[0].Text)
	assert.Len(t, (<-given).Items, 2)
	k.say(`{"type":"response.processed","response_id":"x"}`)
	k.say(create(`"store":false,"stream":true,"previous_response_id":"`+first.Response.ID+`",`, `"q2"`))
	assert.Equal(t, "answer to q2", k.response().Response.Output[1].Content[0].Text)
	assert.Len(t, (<-given).Items, 5)

	k.say(create(`"previous_response_id":"`+warm.Response.ID+`",`, `"q"`))
	e := k.hear()
	assert.Equal(t, "error", e.Type)
	assert.Equal(t, "previous_response_not_found", e.Error.Code, "only the last one is remembered")
	require.NoError(t, k.Close(websocket.StatusNormalClosure, ""))
	lines := 0
	await(t, r.log.changed, func() bool {
		lines = strings.Count(r.log.String(), `"msg":"request"`)
		return lines == 5
	})
	assert.Contains(t, r.log.String(), `"status":101`)
	assert.Equal(t, 1, strings.Count(r.log.String(), `"outcome":"previous_response_not_found"`))
}

func TestStoredResponsesOnASocket(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, keeping(t))
	k := r.socket(t)
	k.say(create(`"store":false,`, `"q1"`))
	loose := k.response().Response.ID
	k.say(create(`"previous_response_id":"`+loose+`",`, `"q2"`))
	kept := k.response().Response.ID
	got := r.whole(t, asked(`"previous_response_id":"`+kept+`",`, `"q3"`))
	list := text(t, r.do(t, http.MethodGet, "/v1/responses/"+got.ID+"/input_items", ""))
	assert.Contains(t, list, "q1", "what was not stored by itself is, with what continues it")
	assert.Equal(t, http.StatusNotFound, r.do(t, http.MethodGet, "/v1/responses/"+loose, "").StatusCode)
}

// What a connection remembers is continued only as long as it could be from elsewhere.
func TestDeletedResponsesOnASocket(t *testing.T) {
	begun, gate := make(chan string, 1), make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if turn.Request.Prompt() == "wait" {
			begun <- ""
			<-gate
		}
		return thinker(ctx, turn)
	}}, keeping(t))
	k := r.socket(t)
	respond := func(previous, input string) string {
		k.say(create(`"previous_response_id":"`+previous+`",`, input))
		e := k.response()
		require.Nil(t, e.Error)
		return e.Response.ID
	}
	refused := func(previous string) {
		k.say(create(`"previous_response_id":"`+previous+`",`, `"q"`))
		e := k.response()
		require.NotNil(t, e.Error)
		assert.Equal(t, "previous_response_not_found", e.Error.Code)
	}
	forget := func(id string) {
		assert.Equal(t, http.StatusOK, r.do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
	}
	first := respond("", `"q1"`)
	second := respond(first, `"q2"`)
	forget(second)
	refused(second)

	first = respond("", `"q1"`)
	second = respond(first, `"q2"`)
	forget(first)
	refused(second)

	first = respond("", `"q1"`)
	k.say(create(`"previous_response_id":"`+first+`",`, `"wait"`))
	received(t, begun)
	forget(first)
	close(gate)
	last := k.response()
	assert.Equal(t, "response.completed", last.Type)
	assert.Equal(t, http.StatusNotFound, r.do(t, http.MethodGet, "/v1/responses/"+last.Response.ID, "").StatusCode,
		"it could not be continued")
	refused(last.Response.ID)
	refused(first)
}

func TestSocketErrors(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.BodyLimit = 4096 })
	k := r.socket(t)
	for message, code := range map[string]string{
		`hello`: "invalid_json", `{"type":"session.update"}`: "invalid_value",
		`{"type":"response.cancel","response_id":"resp_1"}`:     "response_not_found",
		create(`"background":true,`, `"q"`):                     "unsupported_parameter",
		create(`"stream_id":"a",`, `"q"`):                       "unsupported_parameter",
		`{"type":"response.create","input":"q"}`:                "model_required",
		`{"type":"response.create","model":"none","input":"q"}`: "model_not_found",
	} {
		k.say(message)
		e := k.hear()
		assert.Equal(t, "error", e.Type, message)
		require.NotNil(t, e.Error, message)
		assert.Equal(t, code, e.Error.Code, message)
	}
	k.say(create("", `"q"`))
	assert.Equal(t, "response.completed", k.response().Type, "the connection is none the worse")
	k.say(create("", `"`+strings.Repeat("x", 1200)+`"`))
	first := k.response().Response.ID
	k.say(create(`"previous_response_id":"`+first+`",`, `"`+strings.Repeat("x", 1200)+`"`))
	second := k.response().Response.ID
	k.say(create(`"previous_response_id":"`+second+`",`, `"q"`))
	assert.Equal(t, "previous_response_not_found", k.response().Error.Code, "no more is remembered than could be sent")
	k.say(create("", `"`+strings.Repeat("x", 5000)+`"`))
	assert.Equal(t, websocket.StatusMessageTooBig, k.closed())
}

func TestCancelOnASocket(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: gated(make(chan struct{}), "half")})
	k := r.socket(t)
	k.say(create("", `"q"`))
	id := k.hear().Response.ID
	for k.hear().Type != "response.output_text.delta" {
	}
	k.say(`{"type":"response.cancel","response_id":"` + id + `"}`)
	for {
		if e := k.hear(); e.Type == "response.incomplete" {
			assert.Equal(t, "cancelled", e.Response.Status)
			return
		}
	}
}

// Who goes away takes the turn along.
func TestSocketClientGone(t *testing.T) {
	ended := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half")
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}})
	k := r.socket(t)
	k.say(create("", `"q"`))
	k.hear()
	require.NoError(t, k.CloseNow())
	received(t, ended)
	await(t, r.log.changed, func() bool { return strings.Contains(r.log.String(), `"outcome":"client_gone"`) })
}

// A key that is revoked is of no use on a connection that it has opened.
func TestSocketOfARevokedKey(t *testing.T) {
	keys, secrets := withKeys(t, "ann")
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.Keys = keys })
	k := r.socket(t, "Authorization", "Bearer "+secrets[0])
	k.say(create("", `"q"`))
	assert.Equal(t, "response.completed", k.response().Type)
	_, other, err := auth.Generate("bob")
	require.NoError(t, err)
	require.NoError(t, keys.Replace(other))
	k.say(create("", `"q"`))
	assert.Equal(t, "invalid_api_key", k.hear().Error.Code)
}

func TestSocketNeedsAKey(t *testing.T) {
	keys, secrets := withKeys(t, "ann")
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.Keys = keys })
	_, resp, err := r.upgrade(t)
	require.Error(t, err)
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	_, resp, err = r.upgrade(t, "Authorization", "Bearer "+secrets[0], "Origin", "https://elsewhere.example")
	require.Error(t, err)
	assert.Equal(t, http.StatusForbidden, resp.StatusCode, "no page of another site")
	assert.Equal(t, "bad_upgrade", failure(t, text(t, resp)).Error.Code)
	for status, header := range map[int][]string{http.StatusUpgradeRequired: {},
		http.StatusBadRequest: {"Connection", "Upgrade"}} {
		resp := r.do(t, http.MethodGet, "/v1/responses", "",
			append(header, "Upgrade", "websocket", "Authorization", "Bearer "+secrets[0])...)
		assert.Equal(t, status, resp.StatusCode)
		assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		assert.Equal(t, "bad_upgrade", failure(t, text(t, resp)).Error.Code)
	}
	k := r.socket(t, "Authorization", "Bearer "+secrets[0])
	k.say(create("", `"q"`))
	assert.Equal(t, "response.completed", k.response().Type)
	plain := r.do(t, http.MethodGet, "/v1/responses", "", "Authorization", "Bearer "+secrets[0])
	assert.Equal(t, http.StatusUpgradeRequired, plain.StatusCode)
}

// A service that leaves finishes the response in flight, and then closes the
// connection properly; an idle one it closes at once.
func TestSocketsAreLeft(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "half", " whole")})
	idle, busy := r.socket(t), r.socket(t)
	busy.say(create("", `"q"`))
	for busy.hear().Type != "response.output_text.delta" {
	}
	r.Connections.StopAccepting()
	assert.Equal(t, websocket.StatusGoingAway, idle.closed())
	quiet := make(chan error, 1)
	go func() { quiet <- r.Connections.AwaitQuiet(t.Context(), nil) }()
	close(gate)
	for {
		if e := busy.hear(); e.Type == "response.completed" {
			assert.Equal(t, "half whole", e.Response.Output[0].Content[0].Text)
			break
		}
	}
	assert.Equal(t, websocket.StatusGoingAway, busy.closed())
	assert.NoError(t, received(t, quiet))
}

func TestShutdownWaitsForSockets(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker})
	k := r.socket(t)
	k.say(create("", `"q"`))
	assert.Equal(t, "response.completed", k.response().Type)
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(t.Context()) }()
	assert.Equal(t, websocket.StatusGoingAway, k.closed())
	assert.NoError(t, received(t, down))
}

// After the first event of a response its failure is one event: a client reads whatever follows the end of a response
// as events of the next one.
func TestFailuresOnASocketAreOneEvent(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half")
		return &appservertest.Failure{Message: "too fast", Info: "rateLimitExceeded"}
	}})
	k := r.socket(t)
	for range 2 {
		k.say(create("", `"q"`))
		var kinds []string
		for {
			e := k.hear()
			kinds = append(kinds, e.Type)
			if e.Type == "response.failed" {
				assert.Equal(t, "rate_limit_exceeded", e.Response.Error.Code)
				break
			}
		}
		assert.Equal(t, "response.created", kinds[0])
		assert.NotContains(t, kinds, "error")
	}
}

func TestSocketsAreCutOffAtTheDeadline(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: gated(make(chan struct{}), "half")})
	k := r.socket(t)
	k.say(create("", `"q"`))
	for k.hear().Type != "response.output_text.delta" {
	}
	r.Abort()
	for {
		if e := k.hear(); e.Type == "response.failed" {
			assert.Equal(t, "server_error", e.Response.Error.Code)
			break
		}
	}
	assert.Equal(t, websocket.StatusGoingAway, k.closed())
}

// What waits on a connection is no larger than one request may be.
func TestSocketsHoldNoMoreThanABody(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "half")}, func(o *options) { o.BodyLimit = 4096 })
	k := r.socket(t)
	large := create("", `"`+strings.Repeat("x", 3000)+`"`)
	k.say(large)
	for k.hear().Type != "response.output_text.delta" {
	}
	k.say(large)
	k.say(large)
	e := k.hear()
	require.Equal(t, "error", e.Type)
	assert.Equal(t, "concurrency_exceeded", e.Error.Code)
	close(gate)
	for range 2 {
		for k.hear().Type != "response.completed" {
		}
	}
	k.say(large)
	for k.hear().Type != "response.completed" {
	}
}

// Pings keep a silent line open, and a client that answers them stays.
func TestSocketIsPinged(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.Keepalive = 10 * time.Millisecond })
	pinged := make(chan struct{}, 4)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	answers := 3
	conn, _, err := websocket.Dial(ctx, r.url+"/v1/responses", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: r.client.Transport},
		OnPingReceived: func(context.Context, []byte) bool {
			pinged <- struct{}{}
			answers--
			return answers >= 0 // the library takes a ping amiss while it closes
		},
	})
	require.NoError(t, err)
	reads := make(chan error, 1)
	go func() {
		_, _, err := conn.Read(ctx)
		reads <- err
	}()
	for range 4 {
		received(t, pinged)
	}
	require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	assert.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(<-reads), "the server says goodbye, too")
}

// No pong fits into the middle of a frame: who sends a long one is taken for gone
// neither for a ping during it nor for one before it. Between messages it has to
// answer.
func TestSlowMessagesNeedNoPong(t *testing.T) {
	for _, before := range []time.Duration{0, 16 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			client, leave := piped(t, func(s *Settings) { s.Keepalive = 15 * time.Second })
			answer := upgraded(t, client)
			<-time.After(before)
			_, err := client.Write([]byte("\x81\xe4\x00\x00\x00\x00" +
				`{"type":"`)) // the head of a masked text of 100 bytes, and some of them
			require.NoError(t, err)
			<-time.After(50 * time.Second)
			_, err = io.WriteString(client, strings.Repeat("x", 89)+`"}`)
			require.NoError(t, err)
			sent := time.Now()
			assert.Contains(t, <-answer, "invalid_value")
			assert.LessOrEqual(t, time.Since(sent), 45*time.Second)
			leave()
		})
	}
}

// No ping gets past a message that is being sent: who takes long to read one is not
// gone.
func TestSlowReadersNeedNoPong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := piped(t, func(s *Settings) { s.Keepalive = 15 * time.Second })
		_, err := io.WriteString(client, upgrading)
		require.NoError(t, err)
		answer := bufio.NewReader(client)
		head, err := http.ReadResponse(answer, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, head.StatusCode)
		_, err = io.WriteString(client, "\x81\x8f\x00\x00\x00\x00"+`{"type":"none"}`)
		require.NoError(t, err)
		<-time.After(25 * time.Second)
		said, err := answer.ReadString('}')
		require.NoError(t, err)
		assert.Contains(t, said, "invalid_value")
		require.NoError(t, client.Close())
		leave()
	})
}
