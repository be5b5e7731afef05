package appserver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/appserver/history"
)

// Unread turns of two connections share the limit: some are ended. A turn that is read continues beside them, and in
// the end the backlog is empty.
func TestBacklog(t *testing.T) {
	const piece, pieces, turns = 1 << 10, 64, 8
	srv := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if turn.Request.Prompt() != "hello" {
			return appservertest.Reply("yes")(ctx, turn)
		}
		m := turn.Begin("")
		for range pieces {
			m.Delta(strings.Repeat("x", piece))
		}
		turn.EndResponse(appservertest.Usage{})
		return nil
	}}
	backlog := appserver.NewBacklog(turns / 2 * piece * pieces)
	var idle []*appserver.Turn
	var conns []*appserver.Conn
	for range 2 {
		c := connectWith(t, srv, appserver.Options{Backlog: backlog})
		conns = append(conns, c)
		for range turns / 2 {
			idle = append(idle, start(t, c, hello()))
		}
	}
	most := int64(turns / 2 * piece * pieces)
	eventually(t, func() bool { return backlog.Bytes() > most })
	small := hello()
	small.Items = []history.Item{history.TextMessage("user", "small")}
	eventually(t, func() bool { // once they have stood still for a second
		assert.Equal(t, "yes", drain(t, start(t, conns[0], small)).text)
		return backlog.Bytes() <= most
	})
	ended := 0
	for _, turn := range idle {
		if _, err := collect(bound(t), turn); err != nil {
			require.ErrorIs(t, err, appserver.ErrSlowConsumer)
			ended++
		}
		require.NoError(t, turn.Close(bound(t)))
	}
	assert.Positive(t, ended)
	assert.Less(t, ended, turns)
	assert.Zero(t, backlog.Bytes())
}
