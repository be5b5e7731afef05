package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("the cause of the test")

// bound ends a test that would hang.
func bound(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// faulty is a server with a fault at the requests of one method.
func faulty(method string, fault appservertest.Fault) *appservertest.Server {
	return &appservertest.Server{Faults: map[string]appservertest.Fault{method: fault}}
}

// dial connects, sends initialize, and runs the connection until the test ends.
func dial(t *testing.T, srv *appservertest.Server, o rpc.Options) *rpc.Conn {
	t.Helper()
	c, err := rpc.Dial(bound(t), appservertest.Start(t, srv), o)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- c.Run(context.Background()) }()
	t.Cleanup(func() {
		c.Close(nil)
		require.Error(t, <-ran)
	})
	require.NoError(t, c.Call(bound(t), "initialize", struct{}{}, nil))
	return c
}

func TestDialFails(t *testing.T) {
	_, err := rpc.Dial(bound(t), filepath.Join(t.TempDir(), "none"), rpc.Options{})
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestCallIsCancelled(t *testing.T) {
	c := dial(t, faulty("account/read", appservertest.Silent), rpc.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Call(ctx, "account/read", nil, nil), context.DeadlineExceeded)
	assert.NoError(t, c.Err(), "a cancelled call leaves the connection open")
	assert.NoError(t, c.Call(bound(t), "model/list", struct{}{}, nil))
}

func TestMalformedFramesCloseTheConnection(t *testing.T) {
	for _, frame := range []string{
		"", " ", "garbage", `[]`, `null`, `{"id":1`, `{"method":5}`, `{"error":"x","id":1}`,
		`{"a":` + strings.Repeat("[", 20000) + `}`,
	} {
		srv := faulty("model/list", appservertest.Frame([]byte(frame)))
		c := dial(t, srv, rpc.Options{})
		err := c.Call(bound(t), "model/list", struct{}{}, nil)
		require.ErrorIs(t, err, rpc.ErrLost, frame)
		assert.ErrorContains(t, c.Err(), "cannot parse")
	}
}

func TestFaultsOfThePeerReachTheCaller(t *testing.T) {
	for name, fault := range map[string]appservertest.Fault{"half a frame": appservertest.HalfFrame,
		"end of stream": appservertest.Disconnect} {
		c := dial(t, faulty("model/list", fault), rpc.Options{})
		err := c.Call(bound(t), "model/list", struct{}{}, nil)
		assert.ErrorIs(t, err, rpc.ErrLost, name)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	c, err := rpc.Dial(bound(t), appservertest.Start(t, &appservertest.Server{}), rpc.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	cancel(errTest)
	assert.NoError(t, <-ran)
	assert.ErrorIs(t, c.Err(), errTest)
}

func TestIncomingLimit(t *testing.T) {
	frame := append(append([]byte(`{"x":"`), make([]byte, 64<<20)...), `"}`...)
	c := dial(t, faulty("model/list", appservertest.Frame(frame)), rpc.Options{})
	err := c.Call(bound(t), "model/list", struct{}{}, nil)
	assert.ErrorIs(t, err, rpc.ErrLost)
}

// A stopped worker accepts bytes until its socket buffer is full.
func TestStoppedPeerCannotBlockWriting(t *testing.T) {
	stopped := make(chan struct{})
	srv := faulty("account/read", func(ctx context.Context, _ *appservertest.Peer, _ json.RawMessage) bool {
		close(stopped)
		<-ctx.Done()
		return true
	})
	c := dial(t, srv, rpc.Options{WriteTimeout: 300 * time.Millisecond})
	t.Cleanup(srv.Close)
	waiting := make(chan error, 1)
	go func() { waiting <- c.Call(bound(t), "account/read", nil, nil) }()
	<-stopped
	err := c.Call(bound(t), "thread/inject_items", strings.Repeat("x", 4<<20), nil)
	require.ErrorIs(t, err, rpc.ErrLost)
	assert.ErrorContains(t, err, "has not read for 300ms")
	assert.ErrorIs(t, <-waiting, rpc.ErrLost)
}

func TestAnswersAreBounded(t *testing.T) {
	srv := faulty("model/list", func(ctx context.Context, p *appservertest.Peer, _ json.RawMessage) bool {
		for ctx.Err() == nil { // it floods the client and does not read
			p.Send([]byte(`{"id":1,"method":"` + strings.Repeat("x", 4000) + `"}`))
		}
		return true
	})
	var c *rpc.Conn
	c = dial(t, srv,
		rpc.Options{WriteTimeout: 5 * time.Minute, OnRequest: func(m rpc.Message) error { return c.Refuse(m.ID, &rpc.Error{Code: -32601}) }})
	err := c.Call(bound(t), "model/list", struct{}{}, nil)
	require.ErrorIs(t, err, rpc.ErrLost)
	assert.ErrorContains(t, err, "does not read")
}
