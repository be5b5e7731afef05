package delivery

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
)

// The text of a finished message that has come as deltas is not queued again.
func TestTextIsKeptOnce(t *testing.T) {
	for name, tt := range map[string]struct{ deltas, item, want string }{
		"all of it came as deltas":         {"a b", `{"type":"agentMessage","id":"i","text":"a b"}`, "a b"},
		"a tail did not":                   {"a", `{"text":"a b","id":"i","type":"agentMessage"}`, "a b"},
		"nothing did":                      {"", `{"type":"agentMessage","id":"i","text":"a b"}`, "a b"},
		"it begins in another way":         {"a b", `{"type":"agentMessage","id":"i","text":"c d e f"}`, "a b"},
		"it is shorter":                    {"a b", `{"type":"agentMessage","id":"i","text":"a"}`, "a b"},
		"it is of another item":            {"a b", `{"type":"agentMessage","id":"j","text":"a b"}`, "a ba b"},
		"with escapes":                     {"a\nb", `{"type":"agentMessage","id":"i","text":"a\u000ab"}`, "a\nb"},
		"codex has restarted the response": {"a b!", `{"type":"agentMessage","id":"i","text":"a b"}`, "a b!a b"},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue(nil, Bounds{Events: 16, Bytes: 1 << 20})
			put := func(method, params string) {
				n, err := rpc.Parse([]byte(`{"method":"`+method+`","params":`+params+`}`), &Fields)
				require.NoError(t, err)
				n.At = time.Now()
				require.True(t, q.Put(&n))
			}
			for _, one := range tt.deltas {
				delta, err := json.Marshal(string(one))
				require.NoError(t, err)
				put(TextDelta, `{"itemId":"i","delta":`+string(delta)+`}`)
			}
			if strings.HasSuffix(tt.deltas, "!") {
				put("error", `{}`)
			}
			put("item/completed", `{"item":`+tt.item+`}`)
			got := ""
			for n, ok, _ := q.Pop(); ok; n, ok, _ = q.Pop() {
				assert.NotEqual(t, "item/completed", n.Method)
				got += string(n.Text)
			}
			assert.Equal(t, tt.want, got)
			assert.Zero(t, q.bytes)
		})
	}
}
