package appserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
)

// Text that comes faster than it is read is joined, so that it needs little more memory than its bytes; other
// notifications keep their place.
func TestTextIsJoinedWhenTheConsumerIsBehind(t *testing.T) {
	m := newMailbox(&Turn{conn: &Conn{}})
	m.turnID = "tu"
	o := Options{}.withDefaults()
	delta := func(item string) {
		n := rpc.Message{Method: textDelta, At: time.Now()}
		n.Fields[fieldItemID], n.Fields[fieldDelta] = []byte(`"`+item+`"`), []byte(`"word "`)
		require.True(t, m.put(&n, []byte("tu"), o))
	}
	for range 1000 {
		delta("a")
	}
	require.True(t, m.put(&rpc.Message{Method: "error", At: time.Now(), Params: []byte(`{}`)}, []byte("tu"), o))
	delta("a")
	delta("b")
	assert.LessOrEqual(t, m.waiting(), joinAbove+5)
	assert.Equal(t, 1002*len("word ")+len(`{}`), m.bytes)
	texts, order := map[string]int{}, ""
	for n, ok, _ := m.pop(); ok; n, ok, _ = m.pop() {
		texts[n.item] += len(n.text)
		if n.text == nil {
			order += n.Method
		} else if len(order) == 0 || order[len(order)-1:] != n.item {
			order += n.item
		}
	}
	assert.Equal(t, map[string]int{"a": 1001 * 5, "b": 5, "": 0}, texts)
	assert.Equal(t, "aerrorab", order)
	assert.Zero(t, m.bytes)
}
