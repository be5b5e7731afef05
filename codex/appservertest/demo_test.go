package appservertest_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The demo worker with the client of the proxy.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := &appservertest.Server{Handler: appservertest.Demo(time.Microsecond)}
	c := connect(t, ctx, appservertest.Start(t, srv))
	models, err := c.Models(ctx)
	require.NoError(t, err)
	require.Len(t, models, 1)
	assert.Equal(t, "demo", models[0].ID)

	turn, err := c.StartTurn(ctx, appserver.TurnRequest{
		Items: []history.Item{history.TextMessage("user", "good  morning")}})
	require.NoError(t, err)
	text, deltas, usage := "", 0, appserver.Usage{}
	for {
		e, err := turn.Next(ctx)
		require.NoError(t, err)
		switch e := e.(type) {
		case appserver.TextDelta:
			text += e.Text
			deltas++
		case appserver.UsageUpdated:
			usage = e.Usage
		}
		if done, ok := e.(appserver.TurnCompleted); ok {
			assert.Equal(t, appserver.TurnCompletedOK, done.Status)
			break
		}
	}
	assert.Contains(t, text, `You said: "good morning".`)
	assert.Greater(t, deltas, 10)
	assert.Positive(t, usage.InputTokens)
	assert.Positive(t, usage.OutputTokens)
	assert.NoError(t, turn.Close(ctx))
}

// Like codex on SIGTERM the fake completes running turns and refuses new ones.
func TestServeDrains(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	finish := make(chan struct{})
	srv := &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		<-finish
		turn.Text("done")
		return nil
	}}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(serving, l) }()
	c := connect(t, ctx, path)
	hello := appserver.TurnRequest{Items: []history.Item{history.TextMessage("user", "hello")}}
	turn, err := c.StartTurn(ctx, hello)
	require.NoError(t, err)

	stop()
	require.Eventually(t, func() bool {
		_, err := c.StartTurn(ctx, hello)
		var refusal *rpc.Error
		return errors.As(err, &refusal) && refusal.ShuttingDown()
	}, time.Minute, time.Millisecond)
	close(finish)
	e, err := turn.Next(ctx)
	require.NoError(t, err)
	assert.Equal(t, "done", e.(appserver.TextDelta).Text)
	assert.NoError(t, <-served)
	<-c.Done()
}

func connect(t *testing.T, ctx context.Context, path string) *appserver.Conn {
	t.Helper()
	c, err := appserver.Dial(ctx, path, appserver.Options{})
	require.NoError(t, err)
	ran := make(chan struct{})
	go func() { defer close(ran); _ = c.Run(context.Background()) }()
	t.Cleanup(func() { c.Close(nil); <-ran })
	_, err = c.Initialize(ctx)
	require.NoError(t, err)
	return c
}
