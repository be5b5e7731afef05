package remotes_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
)

// client is a user's program at the unit's socket.
type client struct {
	*rpc.Conn
	t        *testing.T
	notes    chan rpc.Message
	requests chan rpc.Message
}

// attach connects, again if the unit dies meanwhile, as the TUI does.
func (u *unit) attach() *client {
	u.t.Helper()
	ctx := bound(u.t)
	for {
		c, err := u.connect(ctx)
		if err == nil {
			return c
		}
		require.NoError(u.t, ctx.Err(), "%v", err)
	}
}

func (u *unit) connect(ctx context.Context) (*client, error) {
	c := &client{t: u.t, notes: make(chan rpc.Message, 10_000), requests: make(chan rpc.Message, 100)}
	conn, err := rpc.Dial(ctx, u.socket, rpc.Options{
		OnNotification: func(msg rpc.Message) {
			msg.Params = append(json.RawMessage(nil), msg.Params...)
			c.notes <- msg
		},
		OnRequest: func(msg rpc.Message) error {
			msg.ID = append(json.RawMessage(nil), msg.ID...)
			c.requests <- msg
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	c.Conn = conn
	ran := make(chan struct{})
	go func() { defer close(ran); _ = conn.Run(context.Background()) }()
	u.t.Cleanup(func() { conn.Close(nil); <-ran })
	err = conn.Call(ctx, "initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "tester", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	if err != nil {
		return nil, err
	}
	return c, conn.Notify(ctx, "initialized", nil)
}

func (c *client) newThread() string {
	c.t.Helper()
	return c.newThreadWith(map[string]any{})
}

func (c *client) newThreadWith(params map[string]any) string {
	c.t.Helper()
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	require.NoError(c.t, c.Call(bound(c.t), "thread/start", params, &r))
	return r.Thread.ID
}

func (c *client) resume(thread string) {
	c.t.Helper()
	require.NoError(c.t, c.Call(bound(c.t), "thread/resume", map[string]any{"threadId": thread, "excludeTurns": true}, nil))
}

// ask starts a turn without waiting for the reply. The channel gets the turn's id, or is closed.
func (c *client) ask(thread, id, text string) <-chan string {
	started := make(chan string, 1)
	c.Post("turn/start", map[string]any{"threadId": thread, "clientUserMessageId": id, "input": []any{
		map[string]any{"type": "text", "text": text, "text_elements": []any{}},
	}}, func(r rpc.Reply) {
		defer close(started)
		var v struct {
			Turn struct {
				ID string `json:"id"`
			} `json:"turn"`
		}
		if r.Decode(&v) == nil {
			started <- v.Turn.ID
		}
	})
	return started
}

// answer waits for a request of codex and answers it.
func (c *client) answer(method string, result any) {
	c.t.Helper()
	ctx := bound(c.t)
	for {
		select {
		case msg := <-c.requests:
			if msg.Method == method {
				require.NoError(c.t, c.Reply(msg.ID, result))
				return
			}
		case <-ctx.Done():
			require.FailNow(c.t, "no "+method)
		}
	}
}

func (c *client) until(method string) json.RawMessage {
	c.t.Helper()
	ctx := bound(c.t)
	for {
		select {
		case msg := <-c.notes:
			if msg.Method == method {
				return msg.Params
			}
		case <-ctx.Done():
			require.FailNow(c.t, "no "+method)
		}
	}
}

// turns are all turns of a thread, the oldest first.
func (c *client) turns(thread string) (list []threadTurn) {
	c.t.Helper()
	var r struct {
		Data []threadTurn `json:"data"`
	}
	require.NoError(c.t, c.Call(bound(c.t), "thread/turns/list", map[string]any{
		"threadId": thread, "limit": 100, "sortDirection": "asc", "itemsView": "full",
	}, &r))
	return r.Data
}

type threadTurn struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Items  []struct {
		Type    string `json:"type"`
		Output  string `json:"aggregatedOutput"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"items"`
}
