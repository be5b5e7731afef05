package apitest

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/responses/wire"
	"codex-proxy/test/contract"
)

// Counting asks for a count.
func (r *Rig) Counting(t testing.TB, body string, header ...string) *http.Response {
	t.Helper()
	return r.Do(t, http.MethodPost, "/v1/responses/input_tokens", body,
		append([]string{"Content-Type", "application/json"}, header...)...)
}

// Counted is the count in an answer.
func (r *Rig) Counted(t testing.TB, body string, header ...string) int {
	t.Helper()
	resp := r.Counting(t, body, header...)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	schema, err := contract.Compile()
	require.NoError(t, err)
	require.NoError(t, schema.Check(contract.InputTokens, []byte(answer)))
	var count wire.InputTokens
	require.NoError(t, json.Unmarshal([]byte(answer), &count))
	return int(count.InputTokens)
}
