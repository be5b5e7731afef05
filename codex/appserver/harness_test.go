package appserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound ends a test that would hang: a real codex on a busy machine takes a minute for what it does at once elsewhere.
func bound(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dial connects and runs the connection until the test ends.
func dial(t *testing.T, path string, o appserver.Options) *appserver.Conn {
	t.Helper()
	c, err := appserver.Dial(bound(t), path, o)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- c.Run(context.Background()) }()
	t.Cleanup(func() {
		c.Close(nil)
		require.Error(t, <-ran)
	})
	return c
}

// connect is dial with the handshake done, to a fake.
func connect(t *testing.T, srv *appservertest.Server) *appserver.Conn {
	t.Helper()
	return connectWith(t, srv, appserver.Options{})
}

func connectWith(t *testing.T, srv *appservertest.Server, o appserver.Options) *appserver.Conn {
	t.Helper()
	c := dial(t, appservertest.Start(t, srv), o)
	_, err := c.Initialize(bound(t))
	require.NoError(t, err)
	return c
}

func hello() appserver.TurnRequest {
	return appserver.TurnRequest{Model: "demo", Items: []history.Item{history.TextMessage("user", "hello")}}
}

// start starts a turn and closes it when the test ends.
func start(t *testing.T, c *appserver.Conn, r appserver.TurnRequest) *appserver.Turn {
	t.Helper()
	turn, err := c.StartTurn(bound(t), r)
	require.NoError(t, err)
	t.Cleanup(func() {
		if c.Err() == nil {
			require.NoError(t, turn.Close(bound(t)))
		}
	})
	return turn
}

// outcome holds the events of a whole turn.
type outcome struct {
	events    []appserver.Event
	texts     map[string]string // by item
	text      string
	reasoning string
	retries   int
	usage     appserver.Usage
	end       appserver.TurnCompleted
}

// drain reads a turn to its end.
func drain(t *testing.T, turn *appserver.Turn) outcome {
	t.Helper()
	o, err := collect(bound(t), turn)
	require.NoError(t, err)
	return o
}

func collect(ctx context.Context, turn *appserver.Turn) (outcome, error) {
	o := outcome{texts: map[string]string{}}
	for {
		e, err := turn.Next(ctx)
		if err != nil {
			return o, err
		}
		o.events = append(o.events, e)
		switch e := e.(type) {
		case appserver.TextDelta:
			o.texts[e.ItemID] += e.Text
			o.text += e.Text
		case appserver.ReasoningDelta:
			o.reasoning += e.Text
		case appserver.UsageUpdated:
			o.usage = e.Usage
		case appserver.Retrying:
			o.retries++
		case appserver.TurnCompleted:
			o.end = e
			return o, nil
		}
	}
}
