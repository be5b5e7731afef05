package bed

import (
	"encoding/json"

	"codex-proxy/test/await"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// UntilKeyUsed waits until the database has exactly that many requests of a key.
func UntilKeyUsed(b *Bed, key string, requests int64) {
	b.T.Helper()
	var got int64
	await.True(b.T, func() bool {
		var report struct {
			Usage []struct {
				Key      string
				Requests int64
				Input    int64 `json:"input_tokens"`
			}
		}
		out, stderr, err := b.Run(b.T.Context(), "codex-proxy", "usage", "--json", "--by=key")
		require.NoError(b.T, err, stderr)
		require.NoError(b.T, json.Unmarshal([]byte(out), &report), out)
		for _, u := range report.Usage {
			if u.Key == key {
				got = u.Requests
				assert.Positive(b.T, u.Input)
			}
		}
		return got == requests
	}, Bound, "%d", got)
}

// Keys is the output of `codex-proxy keys` with these arguments.
func Keys(b *Bed, args ...string) string {
	b.T.Helper()
	return b.MustRun(b.T, append([]string{"codex-proxy", "keys"}, args...)...)
}

// AddKey returns the new key.
func AddKey(b *Bed, name string, limits ...string) string {
	b.T.Helper()
	return Trim(Keys(b, append([]string{"add", name}, limits...)...))
}
