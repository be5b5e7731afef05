package appserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/rpc"
)

func TestOverloadedIsTriedAgain(t *testing.T) {
	srv := &appservertest.Server{
		Handler: appservertest.Reply("at last"),
		Faults: map[string]appservertest.Fault{
			"thread/start":        appservertest.Times(2, appservertest.Overloaded),
			"thread/inject_items": appservertest.Times(1, appservertest.Overloaded),
			"turn/start":          appservertest.Times(1, appservertest.Overloaded),
		},
	}
	assert.Equal(t, "at last", drain(t, start(t, connect(t, srv), hello())).text)
}

func TestOverloadedForTooLong(t *testing.T) {
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{"turn/start": appservertest.Overloaded}}
	c := connect(t, srv)
	all := bound(t)
	var refusal *rpc.Error
	for refusal == nil {
		require.NoError(t, all.Err())
		ctx, cancel := context.WithTimeout(all, 1500*time.Millisecond)
		_, err := c.StartTurn(ctx, hello())
		cancel()
		if !errors.As(err, &refusal) { // the time was over between a question and its answer
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
	assert.Equal(t, rpc.CodeOverloaded, refusal.Code)
	eventually(t, func() bool { return slices.Contains(srv.Requests(), "thread/unsubscribe") })
}

// codex works for a turn, and logs, before it answers turn/start.
func TestStartingComesBeforeTheTurn(t *testing.T) {
	srv := &appservertest.Server{Handler: appservertest.Reply("yes")}
	c := connect(t, srv)
	var started string
	r := hello()
	r.Starting = func(thread string) {
		started = thread
		_, err := c.Models(bound(t)) // answered after what was sent before it
		require.NoError(t, err)
		assert.NotContains(t, srv.Requests(), "turn/start")
	}
	assert.Equal(t, start(t, c, r).ThreadID(), started)
}

func TestRefusedStartLeavesNothingBehind(t *testing.T) {
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"turn/start": appservertest.Refused(-32600, "no")}}
	_, err := connect(t, srv).StartTurn(bound(t), hello())
	require.ErrorContains(t, err, "no")
	eventually(t, func() bool { return slices.Contains(srv.Requests(), "thread/unsubscribe") })
	assert.NotContains(t, srv.Requests(), "turn/interrupt")
}

// turn/start has already been sent when the history is refused.
func TestTurnWithoutItsHistoryIsEnded(t *testing.T) {
	srv := &appservertest.Server{
		Handler: appservertest.Hang(""),
		Faults:  map[string]appservertest.Fault{"thread/inject_items": appservertest.Refused(-32600, "no")},
	}
	_, err := connect(t, srv).StartTurn(bound(t), hello())
	require.ErrorContains(t, err, "cannot inject the history")
	assert.ErrorAs(t, err, new(*rpc.Error))
	eventually(t, func() bool { return slices.Contains(srv.Requests(), "thread/unsubscribe") })
	assert.Contains(t, srv.Requests(), "turn/interrupt")
}

// A turn that has started without its history spoils its thread: the next attempt uses another one.
func TestTurnWithoutItsHistoryIsTriedAgainWhileOverloaded(t *testing.T) {
	srv := &appservertest.Server{
		Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			if len(turn.Request.Items) == 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			turn.Text("with ", turn.Request.Prompt())
			return nil
		},
		Faults: map[string]appservertest.Fault{"thread/inject_items": appservertest.Times(2, appservertest.Overloaded)},
	}
	assert.Equal(t, "with hello", drain(t, start(t, connect(t, srv), hello())).text)
	for method, times := range map[string]int{"thread/start": 3, "turn/interrupt": 2, "thread/unsubscribe": 2} {
		eventually(t, func() bool {
			return len(slices.DeleteFunc(srv.Requests(), func(m string) bool { return m != method })) >= times
		})
	}
}

// A client that cancels during thread/start or turn/start must not leave a thread or a turn behind: the late reply has
// the ids.
func TestCancelledStartLeavesNothingBehind(t *testing.T) {
	for method, want := range map[string][]string{
		"thread/start":        {"thread/unsubscribe"},
		"thread/inject_items": {"turn/interrupt", "thread/unsubscribe"},
		"turn/start":          {"turn/interrupt", "thread/unsubscribe"},
	} {
		t.Run(method, func(t *testing.T) {
			reached, goOn := make(chan struct{}), make(chan struct{})
			srv := &appservertest.Server{
				Handler: appservertest.Hang(""),
				Faults: map[string]appservertest.Fault{
					method: func(context.Context, *appservertest.Peer, json.RawMessage) bool {
						close(reached)
						<-goOn
						return false
					}},
			}
			var log bytes.Buffer
			c := connectWith(t, srv, appserver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			ctx, cancel := context.WithCancel(context.Background())
			failed := make(chan error, 1)
			go func() { _, err := c.StartTurn(ctx, hello()); failed <- err }()
			<-reached
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
			close(goOn)
			for _, m := range want {
				eventually(t, func() bool { return slices.Contains(srv.Requests(), m) })
			}
			_, err := c.Models(bound(t)) // what came before has been handled then
			require.NoError(t, err)
			assert.Empty(t, log.String(), "the late reply is no fault of codex")
		})
	}
}
