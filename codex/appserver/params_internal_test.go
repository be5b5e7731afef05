package appserver

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
)

// The hand-written encoding equals that of encoding/json.
func TestParametersEncodeThemselves(t *testing.T) {
	terse := "be \"terse\"\n"
	for _, p := range []rpc.Params{
		threadStartParams{},
		threadStartParams{
			Ephemeral: true, Model: "m", BaseInstructions: &terse, ExperimentalRawEvents: true, ServiceTier: "flex",
			Config: threadConfig{modelVerbosity: "low"},
			DynamicTools: dynamicTools([]Tool{{"f", "does\tthis", []byte(`{"type":"object"}`)},
				{"g", "", []byte(`{}`)}}),
		},
		injectItemsParams{"th", []history.Item{history.TextMessage("user", "a"), history.TextMessage("user", "b")}},
		turnStartParams{ThreadID: "th", Input: []struct{}{}},
		turnStartParams{"th", []struct{}{}, "high", "auto", []byte(`{"type":"object"}`)},
		unsubscribeParams{"th"},
	} {
		want, err := json.Marshal(p)
		require.NoError(t, err)
		got := p.AppendJSON(nil)
		assert.JSONEq(t, string(want), string(got))
		assert.LessOrEqual(t, len(got), 2*p.Size(), "Size is about right")
	}
}

// Requests that differ in more than their items have different fingerprints.
func TestFingerprint(t *testing.T) {
	seen := map[[32]byte]string{TurnRequest{}.Fingerprint(): "nothing"}
	different := func(r TurnRequest, what string) {
		k := r.Fingerprint()
		assert.Empty(t, seen[k], what)
		seen[k] = what
	}
	empty := ""
	different(TurnRequest{BaseInstructions: &empty}, "empty instructions")
	fields := reflect.TypeFor[TurnRequest]()
	for i := range fields.NumField() {
		var r TurnRequest
		switch field := reflect.ValueOf(&r).Elem().Field(i).Addr().Interface().(type) {
		case *string:
			*field = "x"
		case **string:
			*field = new("x")
		case *json.RawMessage:
			*field = []byte(`{}`)
		case *[]Tool:
			*field = []Tool{{Name: "x", InputSchema: []byte(`{}`)}}
		case *[]history.Item, *func(), *func(string):
			continue
		default:
			t.Fatal(fields.Field(i).Name)
		}
		different(r, fields.Field(i).Name)
	}
}
