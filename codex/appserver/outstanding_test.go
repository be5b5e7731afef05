package appserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
)

// ending is hello with a channel that receives a value for each call of Ended.
func ending() (r appserver.TurnRequest, ended chan struct{}) {
	r, ended = hello(), make(chan struct{}, 8)
	r.Ended = func() { ended <- struct{}{} }
	return r, ended
}

func awaitEnded(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.Fail(t, "Ended was not called")
	}
	assert.Empty(t, ended, "it ends once")
}

// answered waits until the fake has handled all earlier messages.
func answered(t *testing.T, c *appserver.Conn) {
	t.Helper()
	_, err := c.Models(bound(t))
	require.NoError(t, err)
}

func TestTurnEndsWithItsThread(t *testing.T) {
	c := connect(t, &appservertest.Server{})
	r, ended := ending()
	turn, err := c.StartTurn(bound(t), r)
	require.NoError(t, err)
	drain(t, turn)
	answered(t, c)
	assert.Empty(t, ended, "the thread still runs")
	require.NoError(t, turn.Close(bound(t)))
	awaitEnded(t, ended)
}

func TestTurnEndsWhenItsThreadIsKept(t *testing.T) {
	c := connect(t, &appservertest.Server{})
	r, ended := ending()
	turn, err := c.StartTurn(bound(t), r)
	require.NoError(t, err)
	drain(t, turn)
	thread := turn.Keep()
	awaitEnded(t, ended)
	turn, err = thread.StartTurn(bound(t), r)
	require.NoError(t, err)
	assert.Empty(t, ended)
	require.NoError(t, turn.Close(bound(t)))
	awaitEnded(t, ended)
	_, err = thread.StartTurn(bound(t), r)
	require.Error(t, err, "the thread was unsubscribed")
	answered(t, c)
	awaitEnded(t, ended)
}

// A turn in a kept thread with another environment ends at once, and the thread is closed.
func TestTurnInAThreadOfAnotherEnvironment(t *testing.T) {
	c := connect(t, &appservertest.Server{})
	r, ended := ending()
	turn, err := c.StartTurn(bound(t), r)
	require.NoError(t, err)
	drain(t, turn)
	thread := turn.Keep()
	awaitEnded(t, ended)
	elsewhere := r
	elsewhere.Environment = &appserver.Environment{ID: "x", Dir: "/"}
	_, err = thread.StartTurn(bound(t), elsewhere)
	require.ErrorIs(t, err, appserver.ErrEnvironment)
	awaitEnded(t, ended)
	_, err = thread.StartTurn(bound(t), r)
	require.Error(t, err, "the thread was unsubscribed")
}

func TestRefusedTurnEndsAtOnce(t *testing.T) {
	for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
		c := connect(t, &appservertest.Server{
			Faults: map[string]appservertest.Fault{method: appservertest.Refused(-32600, "no")}})
		r, ended := ending()
		_, err := c.StartTurn(bound(t), r)
		require.Error(t, err, method)
		awaitEnded(t, ended)
	}
}

// A cancelled start has not ended while codex works on it.
func TestAbandonedStartEndsWhenCodexHasAnswered(t *testing.T) {
	for _, method := range []string{"thread/start", "thread/inject_items", "turn/start", "turn/interrupt",
		"thread/unsubscribe"} {
		for how, open := range map[string]bool{"answered": true, "disconnected": false} {
			t.Run(method+"/"+how, func(t *testing.T) {
				gate, came := make(chan struct{}), make(chan struct{}, 1)
				held := appservertest.Held(gate)
				c := connect(t, &appservertest.Server{
					Handler: func(ctx context.Context, _ *appservertest.Turn) error { <-ctx.Done(); return ctx.Err() },
					Faults: map[string]appservertest.Fault{
						method: func(ctx context.Context, p *appservertest.Peer, id json.RawMessage) bool {
							came <- struct{}{}
							return held(ctx, p, id)
						}},
				})
				r, ended := ending()
				ctx, leave := context.WithCancelCause(bound(t))
				gone := errors.New("gone")
				go func() { <-came; leave(gone) }()
				turn, err := c.StartTurn(ctx, r)
				if err == nil {
					err = turn.Close(ctx)
				}
				require.ErrorIs(t, err, gone)
				assert.Empty(t, ended)
				if open {
					close(gate)
				} else {
					c.Close(nil)
				}
				awaitEnded(t, ended)
			})
		}
	}
}
