package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/workers/accounts"
)

// BenchmarkRotation is one turn with a worker that answers at once: without a refusal (direct), refused and not
// rotated (refused), and rotated to an account whose worker is ready (rotated). What a rotation adds is rotated less
// the other two.
func BenchmarkRotation(b *testing.B) {
	for _, kind := range []string{"direct", "refused", "rotated"} {
		b.Run(kind, func(b *testing.B) {
			f := newFleet("a", "b")
			if kind != "direct" {
				f.refuses("a", usedUp)
			}
			r := f.rig(b, func(o *options) {
				if kind == "refused" {
					rotationOff(o)
				}
			})
			for i := range b.N {
				b.StopTimer()
				r.available(b, "a")
				b.StartTimer()
				r.benchmark(b, conversation(streaming, fmt.Sprint(i), 1))
			}
		})
	}
}

// available makes an account the one in use.
func (r *rig) available(b *testing.B, account string) {
	windows := []accounts.Window{{Name: "5h", Length: 5 * time.Hour, UsedRatio: .1}}
	r.pool.Book().Read(account, "", accounts.Quota{At: time.Now(), Source: accounts.Reading, Windows: windows})
	if r.pool.Book().Policy().On() {
		require.NoError(b, r.pool.Book().Switch(account))
	}
}

func (r *rig) benchmark(b *testing.B, body string) {
	resp, err := r.client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	require.Contains(b, []int{http.StatusOK, http.StatusTooManyRequests}, resp.StatusCode)
}
