package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// starting is a proxy to a codex that serves once ready is closed.
func starting(ready <-chan struct{}, result string) *Proxy {
	return &Proxy{Open: true, Starting: func() (json.RawMessage, func(context.Context) error) {
		select {
		case <-ready:
			return nil, nil
		default:
		}
		var known json.RawMessage
		if result != "" {
			known = json.RawMessage(result)
		}
		return known, func(ctx context.Context) error {
			select {
			case <-ready:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}}
}

const (
	knownResult = `{"userAgent":"codex-tui/0.171.0 (Debian 13.0.0; x86_64) unknown (codex-tui; 0.2.0)","codexHome":"/h"}`
	initialize  = `{"id":"initialize","method":"initialize","params":{"clientInfo":{"name":"codex-tui","version":"0.170.1"}}}`
)

// A client has its answer to initialize while codex starts; codex gets the request, and its answer does not go on.
func TestProxyGreetsWhileCodexStarts(t *testing.T) {
	ready := make(chan struct{})
	attached := make(chan Session, 1)
	p := starting(ready, knownResult)
	p.Attached = func(s Session) { attached <- s }
	socket, _ := open(t, p, codex(t, echo))
	ws, resp := dial(t, socket)
	assert.Equal(t, "16777216", resp.Header.Get("X-Codex-Websocket-Max-Unfragmented-Message-Bytes"))
	say(t, ws, "%s", initialize)
	assert.JSONEq(t, `{"id":"initialize","result":{"userAgent":"codex-tui/0.171.0 (Debian 13.0.0; x86_64) unknown `+
		`(codex-tui; 0.170.1)","codexHome":"/h"}}`, hear(t, ws))
	say(t, ws, `{"method":"initialized"}`)
	say(t, ws, `{"id":7,"method":"account/read"}`)
	close(ready)
	assert.JSONEq(t, `{"id":7,"result":{"method":"account/read","size":32}}`, hear(t, ws), "no second answer before it")
	assert.Equal(t, "codex-tui 0.170.1", (<-attached).Client)

	later, _ := dial(t, socket)
	say(t, later, "%s", initialize)
	assert.Contains(t, hear(t, later), `"method":"initialize"`, "codex itself answers")
}

// Without a known result, and with another first message, the client waits for codex.
func TestProxyWaitsForCodex(t *testing.T) {
	for result, first := range map[string]string{"": initialize, knownResult: `{"id":1,"method":"model/list"}`} {
		ready := make(chan struct{})
		socket, _ := open(t, starting(ready, result), codex(t, echo))
		if result == "" { // the WebSocket, too, is codex's
			close(ready)
		}
		ws, _ := dial(t, socket)
		say(t, ws, "%s", first)
		if result != "" {
			close(ready)
		}
		assert.Contains(t, hear(t, ws), `"size"`)
	}
}

// An open proxy passes all on, changes what it is told to, and takes no other user's messages.
func TestOpenProxy(t *testing.T) {
	p := &Proxy{Open: true, Edit: func(_ Session, r Request) []byte {
		if r.Method == "thread/start" {
			return []byte(`{"cwd":"/edited"}`)
		}
		return nil
	}}
	socket, _ := open(t, p, codex(t, echo))
	ws, _ := dial(t, socket)
	for _, method := range []string{"account/logout", "process/spawn", "config/value/write", "not/known"} {
		say(t, ws, `{"id":1,"method":%q}`, method)
		assert.Contains(t, hear(t, ws), fmt.Sprintf("%q", method))
	}
	say(t, ws, `{"id":"a\"b","method":"thread/start","params":{"cwd":"/p"}}`)
	assert.Contains(t, hear(t, ws), fmt.Sprintf(`"size":%d`, len(`{"id":"a\"b","method":"thread/start","params":{"cwd":"/edited"}}`)))

	refusing := &Proxy{Open: true, Admit: func(Peer, Role) error { return fmt.Errorf("the codex of another user") }}
	socket, _ = open(t, refusing, codex(t, echo))
	ws, _ = dial(t, socket)
	say(t, ws, "%s", initialize)
	assert.Contains(t, hear(t, ws), "the codex of another user")
	require.Contains(t, end(t, ws).Reason, "the codex of another user")
}

func TestUserAgentOfAClient(t *testing.T) {
	info := []byte(`{"name":"a","version":"1"}`)
	for result, want := range map[string]string{
		`{"userAgent":"x/1 (os) t (y; 2)"}`: `{"userAgent":"x/1 (os) t (a; 1)"}`,
		`{"userAgent":"x/1"}`:               `{"userAgent":"x/1"}`,
		`{"userAgent":"("}`:                 `{"userAgent":"("}`,
		`{"userAgent":7}`:                   `{"userAgent":7}`,
		`{}`:                                `{}`,
	} {
		assert.JSONEq(t, want, string(named(json.RawMessage(result), info)), result)
	}
}
