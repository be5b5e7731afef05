package apitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/workers/accounts"
)

// Available makes an account the one in use.
func (r *Rig) Available(b *testing.B, account string) {
	windows := []accounts.Window{{Name: "5h", Length: 5 * time.Hour, UsedRatio: .1}}
	r.Pool.AccountStore().Read(account, "", accounts.Quota{At: time.Now(), Source: accounts.Reading, Windows: windows})
	if r.Pool.AccountStore().Policy().On() {
		require.NoError(b, r.Pool.AccountStore().Switch(account))
	}
}

// Benchmark sends a chat and reads its answer.
func (r *Rig) Benchmark(b *testing.B, body string) {
	resp, err := r.Client.Post(r.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	require.Contains(b, []int{http.StatusOK, http.StatusTooManyRequests}, resp.StatusCode)
}
