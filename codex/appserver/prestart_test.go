package appserver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/rpc"
)

// turnOf runs a turn to its end and waits for the requests that follow it. It returns the methods of all its requests.
func turnOf(t *testing.T, c *appserver.Conn, srv *appservertest.Server, r appserver.TurnRequest) []string {
	t.Helper()
	before := len(srv.Requests())
	turn, err := c.StartTurn(bound(t), r)
	require.NoError(t, err)
	assert.Equal(t, "yes", drain(t, turn).text)
	require.NoError(t, turn.Close(bound(t)))
	_, err = c.Models(bound(t)) // answered behind all others
	require.NoError(t, err)
	asked := srv.Requests()[before:]
	return asked[:len(asked)-1]
}

func TestThreadsArePrestarted(t *testing.T) {
	srv := &appservertest.Server{Handler: appservertest.Reply("yes")}
	c := connectWith(t, srv, appserver.Options{Prestart: 2})
	unique := []string{"thread/start", "thread/inject_items", "turn/start", "thread/unsubscribe"}
	assert.Equal(t, unique, turnOf(t, c, srv, hello()), "the first turn with its parameters")
	assert.Equal(t, append(unique, "thread/start"), turnOf(t, c, srv, hello()))
	for range 3 {
		assert.Equal(t, []string{"thread/inject_items", "turn/start", "thread/unsubscribe", "thread/start"},
			turnOf(t, c, srv, hello()))
	}
	other := hello()
	other.Model = "other"
	assert.Equal(t, unique, turnOf(t, c, srv, other), "no thread with other parameters is used")
}

func TestPrestartedThreadsAreBounded(t *testing.T) {
	srv := &appservertest.Server{Handler: appservertest.Reply("yes")}
	c := connectWith(t, srv, appserver.Options{Prestart: 1})
	other := hello()
	other.Model = "other"
	for _, r := range []appserver.TurnRequest{hello(), hello(), other} {
		turnOf(t, c, srv, r)
	}
	assert.Equal(t, []string{"thread/start", "thread/inject_items", "turn/start", "thread/unsubscribe",
		"thread/unsubscribe", "thread/start"},
		turnOf(t, c, srv, other), "the earlier thread is removed")
	assert.Contains(t, turnOf(t, c, srv, hello())[0], "thread/start")
}

func TestNoPrestart(t *testing.T) {
	srv := &appservertest.Server{Handler: appservertest.Reply("yes")}
	c := connect(t, srv)
	for range 3 {
		assert.Equal(t, []string{"thread/start", "thread/inject_items", "turn/start", "thread/unsubscribe"},
			turnOf(t, c, srv, hello()))
	}
}

// Codex may have unloaded the prestarted thread, or may refuse to start another one.
func TestRefusedPrestartedThread(t *testing.T) {
	srv := &appservertest.Server{Handler: appservertest.Reply("yes"), Faults: map[string]appservertest.Fault{}}
	c := connectWith(t, srv, appserver.Options{Prestart: 2})
	turnOf(t, c, srv, hello())
	turnOf(t, c, srv, hello())
	srv.Faults["thread/inject_items"] = appservertest.Times(1,
		appservertest.Refused(rpc.CodeInvalidRequest, "thread not found"))
	srv.Faults["turn/start"] = appservertest.Times(1,
		appservertest.Refused(rpc.CodeInvalidRequest, "thread not found"))
	assert.Contains(t, turnOf(t, c, srv, hello()), "thread/start")

	srv.Faults["thread/start"] = appservertest.Times(1, appservertest.Refused(rpc.CodeInvalidRequest, "no more"))
	turnOf(t, c, srv, hello())
	assert.Equal(t, "thread/start", turnOf(t, c, srv, hello())[0])
}
