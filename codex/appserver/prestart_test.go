package appserver_test

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"testing"
	"time"

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

// A burst finds as many threads as the burst before had turns.
func TestBurstsFindThreads(t *testing.T) {
	srv := &appservertest.Server{Handler: appservertest.Reply("yes")}
	c := connectWith(t, srv, appserver.Options{Prestart: 8})
	burst := func(starts int) {
		turns := make([]*appserver.Turn, 3)
		for i := range turns {
			turns[i] = start(t, c, hello())
		}
		assert.Equal(t, starts, started(srv))
		for _, turn := range turns {
			drain(t, turn)
			require.NoError(t, turn.Close(bound(t)))
		}
	}
	burst(3)
	eventually(t, func() bool { return started(srv) == 5 }) // the first one was not known to repeat
	ready(t, c)
	burst(6)
	eventually(t, func() bool { return started(srv) == 9 })
	ready(t, c)
	burst(9)
}

// started counts the threads that codex was asked to start.
func started(srv *appservertest.Server) (n int) {
	for _, method := range srv.Requests() {
		if method == "thread/start" {
			n++
		}
	}
	return n
}

// ready waits until codex has answered all earlier requests.
func ready(t *testing.T, c *appserver.Conn) {
	t.Helper()
	_, err := c.Models(bound(t))
	require.NoError(t, err)
}

// Codex starts as many threads at a time as there are processors: the turns of the first ones do not wait for the last.
func TestThreadsStartInOrder(t *testing.T) {
	asked := make(chan struct{}, 100)
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"thread/start": func(context.Context, *appservertest.Peer, json.RawMessage) bool {
			asked <- struct{}{}
			return true // without an answer
		},
	}}
	c := connectWith(t, srv, appserver.Options{SlowStart: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	for range runtime.NumCPU() + 2 {
		go func() { _, err := c.StartTurn(ctx, hello()); failed <- err }()
	}
	for range runtime.NumCPU() {
		<-asked
	}
	ready(t, c)
	assert.Empty(t, asked)
	cancel()
	for range runtime.NumCPU() + 2 {
		assert.ErrorIs(t, <-failed, context.Canceled)
	}
}

// A thread that codex is slow to start keeps no other one waiting for long.
func TestSlowStarts(t *testing.T) {
	asked := make(chan struct{}, 100)
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"thread/start": func(context.Context, *appservertest.Peer, json.RawMessage) bool {
			asked <- struct{}{}
			return true // without an answer
		},
	}}
	c := connectWith(t, srv, appserver.Options{SlowStart: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var starts sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		starts.Go(func() { _, err := c.StartTurn(ctx, hello()); assert.ErrorIs(t, err, context.Canceled) })
	}
	for range 2 * runtime.NumCPU() {
		<-asked
	}
	cancel()
	starts.Wait()
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
