package turn_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// The oldest codex names no items of the model, and reports no tokens of a response that calls tools: an answer has each
// item once, and its usage is estimated.
func TestOldestCodex(t *testing.T) {
	t.Parallel()
	calls := false
	worker := &appservertest.Server{Older: true, Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("why")
		turn.Text("fine")
		if calls {
			turn.Call(ctx, "f", `{"a":1}`)
		}
		return nil
	}}
	r := apitest.NewRig(t, worker)
	ask := func() (kinds []string, tokens int) {
		resp := r.Responding(t, `{"model":"demo","input":"hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`)
		text := apitest.Text(t, resp)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
		var answer struct {
			Output []struct{ Type string }
			Usage  struct {
				Input  int `json:"input_tokens"`
				Output int `json:"output_tokens"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		for _, item := range answer.Output {
			kinds = append(kinds, item.Type)
		}
		return kinds, min(answer.Usage.Input, answer.Usage.Output)
	}
	kinds, _ := ask()
	assert.Equal(t, []string{"reasoning", "message"}, kinds)
	calls = true
	kinds, tokens := ask()
	assert.Equal(t, []string{"reasoning", "message", "function_call"}, kinds)
	assert.Positive(t, tokens)
}
