package modelproxy

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/brokerstate"
)

// The tokens of each answer count by the kind of its request, whatever the pieces in which it comes. A text that looks
// like a usage is none.
func TestTokens(t *testing.T) {
	const last = `data: {"type":"response.completed","response":{"id":"r","output":[{"text":"\"usage\":{\"input_tokens\":1}"}],` +
		`"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"total_tokens":13},"user":null}}` + "\n\n"
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := range strings.SplitSeq(strings.Repeat("data: {}\n\n", 500)+last, ",") {
			_, _ = io.WriteString(w, piece+",")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer provider.Close()
	l, err := ForWorker(Endpoint{BaseURL: provider.URL}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	for _, kind := range []string{"turn", "turn", "compaction", "memory"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/responses", strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("X-Codex-Turn-Metadata", `{"request_kind":"`+kind+`"}`)
		r.Header.Set("Thread-Id", fmt.Sprintf("%x-1", kind))
		r.Header.Set("Session-Id", "2-0")
		r.Header.Set("X-Codex-Parent-Thread-Id", "<script>")
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		textOf(t, res)
	}
	assert.Equal(t, map[string]brokerstate.Tokens{"turn": {Input: 20, Cached: 8, Output: 6},
		"compaction": {Input: 10, Cached: 4, Output: 3}, "memory": {Input: 10, Cached: 4, Output: 3}}, l.State().Tokens)
	assert.Equal(t, []brokerstate.Hidden{{Number: 1, Threads: []string{"6d656d6f7279-1", "2-0"},
		Tokens: brokerstate.Tokens{Input: 10, Cached: 4, Output: 3}}}, l.State().Hidden, "codex counts the others")

	for _, none := range []string{"", `"usage":{`, `"usage":{"input_tokens":-1}`, `"usage":null`} {
		_, ok := usageIn([]byte(none))
		assert.False(t, ok, none)
	}
}
