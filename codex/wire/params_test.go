package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// The hand-written encoding equals that of encoding/json.
func TestParametersEncodeThemselves(t *testing.T) {
	terse := "be \"terse\"\n"
	for _, p := range []rpc.Params{
		wire.ThreadStart{},
		wire.ThreadStart{
			Ephemeral: true, Model: "m", BaseInstructions: &terse, ExperimentalRawEvents: true, ServiceTier: "flex",
			Config: wire.Config{wire.ModelVerbosity: "low", "a.b": "http://x"},
			DynamicTools: []wire.Tool{{"function", "f", "does\tthis", []byte(`{"type":"object"}`)},
				{"function", "g", "", []byte(`{}`)}},
			Environments: []wire.ThreadEnvironment{{"hands-0", "/workspace"}, {"x", "/\""}},
		},
		wire.InjectItems{"th", []history.Item{history.TextMessage("user", "a"), history.TextMessage("user", "b")}},
		wire.TurnStart{ThreadID: "th", Input: []struct{}{}},
		wire.TurnStart{"th", []struct{}{}, "high", "auto", []byte(`{"type":"object"}`)},
		wire.ThreadUnsubscribe{"th"},
	} {
		want, err := json.Marshal(p)
		require.NoError(t, err)
		got := p.AppendJSON(nil)
		assert.JSONEq(t, string(want), string(got))
		assert.LessOrEqual(t, len(got), 2*p.Size(), "Size is about right")
	}
}
