package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/contract"
)

// compacted is a compacted conversation.
type compacted struct {
	ID     string
	Object string
	Output []json.RawMessage
	Usage  struct {
		Total int `json:"total_tokens"`
	}
}

// Compacting posts to /v1/responses/compact.
func (r *Rig) Compacting(t testing.TB, body string) *http.Response {
	t.Helper()
	return r.Do(t, http.MethodPost, "/v1/responses/compact", body)
}

// Compact posts a request for compaction, and returns what it made.
func (r *Rig) Compact(t testing.TB, body string) compacted {
	t.Helper()
	resp := r.Compacting(t, body)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	schema, err := contract.Compile()
	require.NoError(t, err)
	require.NoError(t, schema.Check(contract.Compaction, []byte(answer)))
	return Read[compacted](t, answer)
}

// Input is the compacted conversation as the input of a request, with one more question.
func (c compacted) Input(question string) string {
	items := make([]string, 0, len(c.Output))
	for _, item := range c.Output {
		items = append(items, string(item))
	}
	return "[" + strings.Join(items, ",") + `,{"role":"user","content":"` + question + `"}]`
}

// CountInput is how many tokens the input of a request has by /v1/responses/input_tokens.
func (r *Rig) CountInput(t testing.TB, body string) int {
	t.Helper()
	answer := Text(t, r.Do(t, http.MethodPost, "/v1/responses/input_tokens", body))
	return Read[struct {
		Tokens int `json:"input_tokens"`
	}](t, answer).Tokens
}
