package responses_test

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
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/auth"
)

// One response after another, each of which continues the last one although
// nothing is stored.
func TestResponsesOnASocket(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(given)})
	k := r.Socket(t)
	k.Say(apitest.Create(`"generate":false,"store":false,`, `[{"role":"developer","content":"d"}]`))
	warm := k.Response()
	assert.Equal(t, "response.completed", warm.Type)
	assert.Empty(t, warm.Response.Output)
	assert.Empty(t, given, "nothing is asked of the model")

	k.Say(apitest.Create(`"store":false,"previous_response_id":"`+warm.Response.ID+`",`, `"q1"`))
	first := k.Response()
	assert.Equal(t, "answer to q1", first.Response.Output[1].Content[0].Text)
	assert.Len(t, (<-given).Items, 2)
	k.Say(`{"type":"response.processed","response_id":"x"}`)
	k.Say(apitest.Create(`"store":false,"stream":true,"previous_response_id":"`+first.Response.ID+`",`, `"q2"`))
	assert.Equal(t, "answer to q2", k.Response().Response.Output[1].Content[0].Text)
	assert.Len(t, (<-given).Items, 5)

	k.Say(apitest.Create(`"previous_response_id":"`+warm.Response.ID+`",`, `"q"`))
	e := k.Hear()
	assert.Equal(t, "error", e.Type)
	assert.Equal(t, "previous_response_not_found", e.Error.Code, "only the last one is remembered")
	require.NoError(t, k.Close(websocket.StatusNormalClosure, ""))
	lines := 0
	apitest.Await(t, r.Log.Changed, func() bool {
		lines = strings.Count(r.Log.String(), `"msg":"request"`)
		return lines == 5
	})
	assert.Contains(t, r.Log.String(), `"status":101`)
	assert.Equal(t, 1, strings.Count(r.Log.String(), `"outcome":"previous_response_not_found"`))
}

func TestStoredResponsesOnASocket(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	k := r.Socket(t)
	k.Say(apitest.Create(`"store":false,`, `"q1"`))
	loose := k.Response().Response.ID
	k.Say(apitest.Create(`"previous_response_id":"`+loose+`",`, `"q2"`))
	kept := k.Response().Response.ID
	got := r.Whole(t, apitest.Asked(`"previous_response_id":"`+kept+`",`, `"q3"`))
	list := apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+got.ID+"/input_items", ""))
	assert.Contains(t, list, "q1", "what was not stored by itself is, with what continues it")
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+loose, "").StatusCode)
}

// What a connection remembers is continued only as long as it could be from elsewhere.
func TestDeletedResponsesOnASocket(t *testing.T) {
	begun, gate := make(chan string, 1), make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if turn.Request.Prompt() == "wait" {
			begun <- ""
			<-gate
		}
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t))
	k := r.Socket(t)
	respond := func(previous, input string) string {
		k.Say(apitest.Create(`"previous_response_id":"`+previous+`",`, input))
		e := k.Response()
		require.Nil(t, e.Error)
		return e.Response.ID
	}
	refused := func(previous string) {
		k.Say(apitest.Create(`"previous_response_id":"`+previous+`",`, `"q"`))
		e := k.Response()
		require.NotNil(t, e.Error)
		assert.Equal(t, "previous_response_not_found", e.Error.Code)
	}
	forget := func(id string) {
		assert.Equal(t, http.StatusOK, r.Do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
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
	k.Say(apitest.Create(`"previous_response_id":"`+first+`",`, `"wait"`))
	apitest.Received(t, begun)
	forget(first)
	close(gate)
	last := k.Response()
	assert.Equal(t, "response.completed", last.Type)
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+last.Response.ID, "").StatusCode,
		"it could not be continued")
	refused(last.Response.ID)
	refused(first)
}

func TestSocketErrors(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.BodyLimit = 4096 })
	k := r.Socket(t)
	for message, code := range map[string]string{
		`hello`: "invalid_json", `{"type":"session.update"}`: "invalid_value",
		`{"type":"response.cancel","response_id":"resp_1"}`:     "response_not_found",
		apitest.Create(`"background":true,`, `"q"`):             "unsupported_parameter",
		apitest.Create(`"stream_id":"a",`, `"q"`):               "unsupported_parameter",
		`{"type":"response.create","input":"q"}`:                "model_required",
		`{"type":"response.create","model":"none","input":"q"}`: "model_not_found",
	} {
		k.Say(message)
		e := k.Hear()
		assert.Equal(t, "error", e.Type, message)
		require.NotNil(t, e.Error, message)
		assert.Equal(t, code, e.Error.Code, message)
	}
	k.Say(apitest.Create("", `"q"`))
	assert.Equal(t, "response.completed", k.Response().Type, "the connection is none the worse")
	k.Say(apitest.Create("", `"`+strings.Repeat("x", 1200)+`"`))
	first := k.Response().Response.ID
	k.Say(apitest.Create(`"previous_response_id":"`+first+`",`, `"`+strings.Repeat("x", 1200)+`"`))
	second := k.Response().Response.ID
	k.Say(apitest.Create(`"previous_response_id":"`+second+`",`, `"q"`))
	assert.Equal(t, "previous_response_not_found", k.Response().Error.Code, "no more is remembered than could be sent")
	k.Say(apitest.Create("", `"`+strings.Repeat("x", 5000)+`"`))
	assert.Equal(t, websocket.StatusMessageTooBig, k.Closed())
}

func TestCancelOnASocket(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(make(chan struct{}), "half")})
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	id := k.Hear().Response.ID
	for k.Hear().Type != "response.output_text.delta" {
	}
	k.Say(`{"type":"response.cancel","response_id":"` + id + `"}`)
	for {
		if e := k.Hear(); e.Type == "response.incomplete" {
			assert.Equal(t, "cancelled", e.Response.Status)
			return
		}
	}
}

// Who goes away takes the turn along.
func TestSocketClientGone(t *testing.T) {
	ended := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half")
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}})
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	k.Hear()
	require.NoError(t, k.CloseNow())
	apitest.Received(t, ended)
	apitest.Await(t, r.Log.Changed, func() bool { return strings.Contains(r.Log.String(), `"outcome":"client_gone"`) })
}

// A key that is revoked is of no use on a connection that it has opened.
func TestSocketOfARevokedKey(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.Keys = keys })
	k := r.Socket(t, "Authorization", "Bearer "+secrets[0])
	k.Say(apitest.Create("", `"q"`))
	assert.Equal(t, "response.completed", k.Response().Type)
	_, other, err := auth.Generate("bob")
	require.NoError(t, err)
	require.NoError(t, keys.Replace(other))
	k.Say(apitest.Create("", `"q"`))
	assert.Equal(t, "invalid_api_key", k.Hear().Error.Code)
}

func TestSocketNeedsAKey(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.Keys = keys })
	_, resp, err := r.Upgrade(t)
	require.Error(t, err)
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	_, resp, err = r.Upgrade(t, "Authorization", "Bearer "+secrets[0], "Origin", "https://elsewhere.example")
	require.Error(t, err)
	assert.Equal(t, http.StatusForbidden, resp.StatusCode, "no page of another site")
	assert.Equal(t, "bad_upgrade", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	for status, header := range map[int][]string{http.StatusUpgradeRequired: {},
		http.StatusBadRequest: {"Connection", "Upgrade"}} {
		resp := r.Do(t, http.MethodGet, "/v1/responses", "",
			append(header, "Upgrade", "websocket", "Authorization", "Bearer "+secrets[0])...)
		assert.Equal(t, status, resp.StatusCode)
		assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		assert.Equal(t, "bad_upgrade", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	k := r.Socket(t, "Authorization", "Bearer "+secrets[0])
	k.Say(apitest.Create("", `"q"`))
	assert.Equal(t, "response.completed", k.Response().Type)
	plain := r.Do(t, http.MethodGet, "/v1/responses", "", "Authorization", "Bearer "+secrets[0])
	assert.Equal(t, http.StatusUpgradeRequired, plain.StatusCode)
}

// A service that leaves finishes the response in flight, and then closes the
// connection properly; an idle one it closes at once.
func TestSocketsAreLeft(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "half", " whole")})
	idle, busy := r.Socket(t), r.Socket(t)
	busy.Say(apitest.Create("", `"q"`))
	for busy.Hear().Type != "response.output_text.delta" {
	}
	r.Connections.StopAccepting()
	assert.Equal(t, websocket.StatusGoingAway, idle.Closed())
	quiet := make(chan error, 1)
	go func() { quiet <- r.Connections.AwaitQuiet(t.Context(), nil) }()
	close(gate)
	for {
		if e := busy.Hear(); e.Type == "response.completed" {
			assert.Equal(t, "half whole", e.Response.Output[0].Content[0].Text)
			break
		}
	}
	assert.Equal(t, websocket.StatusGoingAway, busy.Closed())
	assert.NoError(t, apitest.Received(t, quiet))
}

func TestShutdownWaitsForSockets(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	assert.Equal(t, "response.completed", k.Response().Type)
	down := make(chan error, 1)
	go func() { down <- r.Shutdown(t.Context()) }()
	assert.Equal(t, websocket.StatusGoingAway, k.Closed())
	assert.NoError(t, apitest.Received(t, down))
}

// After the first event of a response its failure is one event: a client reads whatever follows the end of a response
// as events of the next one.
func TestFailuresOnASocketAreOneEvent(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half")
		return &appservertest.Failure{Message: "too fast", Info: "rateLimitExceeded"}
	}})
	k := r.Socket(t)
	for range 2 {
		k.Say(apitest.Create("", `"q"`))
		var kinds []string
		for {
			e := k.Hear()
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(make(chan struct{}), "half")})
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	for k.Hear().Type != "response.output_text.delta" {
	}
	r.Abort()
	for {
		if e := k.Hear(); e.Type == "response.failed" {
			assert.Equal(t, "server_error", e.Response.Error.Code)
			break
		}
	}
	assert.Equal(t, websocket.StatusGoingAway, k.Closed())
}

// What waits on a connection is no larger than one request may be.
func TestSocketsHoldNoMoreThanABody(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "half")}, func(o *apitest.Options) { o.BodyLimit = 4096 })
	k := r.Socket(t)
	large := apitest.Create("", `"`+strings.Repeat("x", 3000)+`"`)
	k.Say(large)
	for k.Hear().Type != "response.output_text.delta" {
	}
	k.Say(large)
	k.Say(large)
	e := k.Hear()
	require.Equal(t, "error", e.Type)
	assert.Equal(t, "concurrency_exceeded", e.Error.Code)
	close(gate)
	for range 2 {
		for k.Hear().Type != "response.completed" {
		}
	}
	k.Say(large)
	for k.Hear().Type != "response.completed" {
	}
}

// Pings keep a silent line open, and a client that answers them stays.
func TestSocketIsPinged(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	pinged := make(chan struct{}, 4)
	ctx, cancel := context.WithTimeout(t.Context(), apitest.Bound)
	defer cancel()
	answers := 3
	conn, _, err := websocket.Dial(ctx, r.URL+"/v1/responses", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: r.Client.Transport},
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
		apitest.Received(t, pinged)
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
			client, leave := apitest.Piped(t, func(s *api.Settings) { s.Keepalive = 15 * time.Second })
			answer := apitest.Upgraded(t, client)
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
		client, leave := apitest.Piped(t, func(s *api.Settings) { s.Keepalive = 15 * time.Second })
		_, err := io.WriteString(client, apitest.Upgrading)
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
