package modelproxy

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An event that is too long ends the answer in an error of the model; any number of events that are not passes.
func TestBoundOfAnEvent(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		"data: 12345678\n\n":                  "data: 12345678\n\n",
		"data: 1\r\n\r\ndata: 2\n\n":          "data: 1\r\n\r\ndata: 2\n\n",
		"data: 1\n\nevent: x\ndata: 2\n\n":    "data: 1\n\nevent: x\ndata: 2\n\n",
		strings.Repeat("data: 1234\n\n", 100): strings.Repeat("data: 1234\n\n", 100),
		"data: 1\n\ndata: 12345678901234567890123\n\ndata: 3\n\n": "data: 1\n\ndata: 123456789012345678" + tooLong,
		"data: 1\ndata: 2\ndata: 3\ndata: 4\n\n":                  "data: 1\ndata: 2\ndata: 3\n" + tooLong,
	} {
		e := &events{ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader(in))), longest: 23}
		got, err := io.ReadAll(e)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "%q", in)
	}
}

// Both workers bound events, and no other answers.
func TestProxyBoundsEvents(t *testing.T) {
	var kind string
	line := strings.Repeat("x", 1<<20)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for range longestEvent>>20 + 2 {
			_, _ = io.WriteString(w, line)
		}
	}))
	defer service.Close()
	discard := slog.New(slog.DiscardHandler)
	provider, err := New(Endpoint{BaseURL: service.URL}, discard)
	require.NoError(t, err)
	accounts, err := ForAccounts(NewTokenSource(&fakeBroker{names: []string{"a"}}, nil, "", discard), service.URL, discard)
	require.NoError(t, err)
	for url, token := range map[string]string{
		start(t, provider) + "/responses":                   provider.Token,
		start(t, accounts) + "/backend-api/codex/responses": "x.y." + accounts.Token,
	} {
		kind = "text/event-stream; charset=utf-8"
		text := textOf(t, ask(t, url, token, "{}"))
		assert.True(t, strings.HasSuffix(text, tooLong), url)
		kind = "application/json"
		assert.Len(t, textOf(t, ask(t, url, token, "{}")), longestEvent+2<<20, url)
	}
}
