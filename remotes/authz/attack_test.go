package authz

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codex takes parameters by position, too (serde), where the proxy and the manager would look for names in vain.
func TestParametersWithoutNames(t *testing.T) {
	for _, params := range []string{`["t","u"]`, ` [ ]`, `[[{"config":{"hooks":{"x":1}}}]]`, `"x"`, `1`, `true`} {
		_, err := parse([]byte(`{"id":1,"method":"turn/interrupt","params":` + params + `}`))
		assert.ErrorIs(t, err, errPlaces, params)
	}
	for _, params := range []string{`{}`, ` { "threadId" : "t" } `, `null`} {
		_, err := parse([]byte(`{"id":1,"method":"turn/interrupt","params":` + params + `}`))
		assert.NoError(t, err, params)
	}
}

// A message that two readers could understand in two ways is none.
func TestAmbiguousMessages(t *testing.T) {
	for _, message := range []string{
		`[{"id":1,"method":"account/logout"}]`, `{"id":1,"method":"model/list"}{"id":2,"method":"account/logout"}`,
		"\ufeff" + `{"id":1,"method":"model/list"}`, `{"id":1,"method":"model/list","method":"account/logout"}`,
		`{"id":1,"id":2,"method":"model/list"}`, `{"id":1,"method":"model/list","m\u0065thod":"account/logout"}`,
		`{"id":1,"method":["account/logout"]}`, `{"id":1,"method":null}`, `{"id":1,"method":""}`, `{"id":1}`,
		`{"id":null,"method":"model/list"}`, `{"id":1.5,"method":"model/list"}`, `{"id":1e3,"method":"model/list"}`,
		`{"id":[1],"method":"model/list"}`, `{"id":{},"result":{}}`, `{"method":"model/list","params":{},"params":{}}`,
		`{'id':1,"method":"model/list"}`, `{"id":99999999999999999999,"method":"model/list"}`, "", " ", `null`, `"x"`,
		`{"id":1,"method":"model/list"` + "\x00}", `{"id":1,"method":"model/list","params":{}`,
	} {
		_, err := parse([]byte(message))
		assert.Error(t, err, message)
	}
}

// Depth costs no stack.
func TestDeepMessage(t *testing.T) {
	deep := `{"id":1,"params":` + strings.Repeat(`{"a":`, 1<<20) + `1` + strings.Repeat(`}`, 1<<20) + `,"method":"account/logout"}`
	m, err := parse([]byte(deep))
	require.NoError(t, err)
	assert.NotEmpty(t, Owner.authorize(m, []byte(deep), nil).refusal)
}

// Viewers and strangers take neither the connections of owners nor the places of their large messages.
func TestGuestsHinderNobody(t *testing.T) {
	owners, viewers := open(t, &Proxy{}, codex(t, echo))
	for range viewerLimit {
		dial(t, viewers)
	}
	conn, err := net.Dial("unix", viewers)
	require.NoError(t, err)
	defer conn.Close()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, string(body), "The remote build has 32 viewers")
	owner := attach(t, owners)
	assert.Empty(t, owner.call("turn/start", `{"x":"`+strings.Repeat("a", 2*smallMessage)+`"}`).Error.Message)
}

// An owner of the network needs no place of a viewer, once the head has said that it is one.
func TestOwnersOfTheNetworkAreNoGuests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "build.network.sock")
	p := &Proxy{Remote: "build", Network: path}
	listen(t, p, codex(t, echo), path)
	for range viewerLimit + 1 {
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /rpc HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"+NetworkHead("k", Owner)+"\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	}
}

func TestViewersSendNothingLarge(t *testing.T) {
	_, viewers := open(t, &Proxy{}, codex(t, echo))
	viewer := attach(t, viewers)
	assert.Empty(t, viewer.call("thread/list", `{"x":"`+strings.Repeat("a", smallMessage/2)+`"}`).Error.Message)
	ctx := bounded(t)
	require.NoError(t, viewer.ws.Write(ctx, websocket.MessageText,
		[]byte(`{"id":9,"method":"thread/list","params":{"x":"`+strings.Repeat("a", smallMessage)+`"}}`)))
	_, _, err := viewer.ws.Read(ctx)
	assert.Equal(t, websocket.StatusMessageTooBig, websocket.CloseStatus(err), err)
}
