package appserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
)

// A notification that makes no event does not delay delivered text.
func TestReady(t *testing.T) {
	turn := &Turn{conn: &Conn{opts: Options{}.withDefaults()}}
	turn.box = newMailbox(turn)
	put := func(message string) {
		n, err := rpc.Parse([]byte(message), &delivery.Fields)
		require.NoError(t, err)
		n.At = time.Now()
		require.True(t, turn.box.put(&n, nil))
	}
	assert.False(t, turn.Ready())
	put(`{"method":"item/agentMessage/delta","params":{"itemId":"i","delta":"so far"}}`)
	put(`{"method":"thread/unknown","params":{}}`)
	require.True(t, turn.Ready())
	event, err := turn.Next(t.Context())
	require.NoError(t, err)
	assert.Equal(t, TextDelta{ItemID: "i", Text: "so far"}, event)
	assert.False(t, turn.Ready(), "Next would wait")
	put(`{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"i","text":"so far"}}}`)
	assert.False(t, turn.Ready())
	put(`{"method":"item/agentMessage/delta","params":{"itemId":"i","delta":"!"}}`)
	assert.True(t, turn.Ready())
	turn.box.queue.Shut(ErrTurnClosed)
	require.True(t, turn.Ready())
	for range 2 {
		assert.True(t, turn.Ready())
		_, err = turn.Next(t.Context())
	}
	assert.ErrorIs(t, err, ErrTurnClosed)
}
