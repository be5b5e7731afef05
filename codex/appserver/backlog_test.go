package appserver_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/delivery"
	"codex-proxy/codex/history"
)

// Unread turns of two connections share the limit: some are ended. A turn that is read continues beside them, and in
// the end the backlog is empty.
func TestBacklog(t *testing.T) {
	const piece, pieces, turns = 1 << 10, 64, 8
	var written sync.WaitGroup
	written.Add(turns)
	srv := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if turn.Request.Prompt() != "hello" {
			return appservertest.Reply("yes")(ctx, turn)
		}
		defer written.Done()
		m := turn.Begin("")
		for range pieces {
			m.Delta(strings.Repeat("x", piece))
		}
		turn.EndResponse(appservertest.Usage{})
		return nil
	}}
	backlog := delivery.NewBacklog(turns / 2 * piece * pieces)
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
	small := hello()
	small.Items = []history.Item{history.TextMessage("user", "small")}
	written.Wait()
	for _, c := range conns { // all that came before has been received, and is more than the limit
		assert.Equal(t, "yes", drain(t, start(t, c, small)).text)
	}
	eventually(t, func() bool { // once they have stood still for a second
		assert.Equal(t, "yes", drain(t, start(t, conns[0], small)).text)
		return backlog.Bytes() <= most
	})
	ended := 0
	for _, turn := range idle {
		if _, err := collect(bound(t), turn); err != nil {
			require.ErrorIs(t, err, delivery.ErrSlowConsumer)
			ended++
		}
		require.NoError(t, turn.Close(bound(t)))
	}
	assert.Positive(t, ended)
	assert.Less(t, ended, turns)
	assert.Zero(t, backlog.Bytes())
}
