package delivery

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
	q := NewQueue(nil, Bounds{Events: 1 << 10, Bytes: 1 << 20})
	delta := func(item string) {
		n := rpc.Message{Method: TextDelta, At: time.Now()}
		n.Fields[fieldItemID], n.Fields[fieldDelta] = []byte(`"`+item+`"`), []byte(`"word "`)
		require.True(t, q.Put(&n))
	}
	for range 1000 {
		delta("a")
	}
	require.True(t, q.Put(&rpc.Message{Method: "error", At: time.Now(), Params: []byte(`{}`)}))
	delta("a")
	delta("b")
	assert.LessOrEqual(t, q.waiting(), joinAbove+5)
	assert.Equal(t, 1002*len("word ")+len(`{}`), q.bytes)
	texts, order := map[string]int{}, ""
	for n, ok, _ := q.Pop(); ok; n, ok, _ = q.Pop() {
		texts[n.Item] += len(n.Text)
		if n.Text == nil {
			order += n.Method
		} else if len(order) == 0 || order[len(order)-1:] != n.Item {
			order += n.Item
		}
	}
	assert.Equal(t, map[string]int{"a": 1001 * 5, "b": 5, "": 0}, texts)
	assert.Equal(t, "aerrorab", order)
	assert.Zero(t, q.bytes)
}
