package modelproxy

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start runs a model proxy for the provider, and returns its URL.
func start(t *testing.T, l *Proxy) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, listener) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	return "http://" + listener.Addr().String()
}

func ask(t *testing.T, url, token, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// The provider gets the key in place of the token, at its own path; the first bytes of a stream arrive before its end.
func TestLend(t *testing.T) {
	more := make(chan struct{})
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		assert.Equal(t, "Bearer sk-key", r.Header.Get("Authorization"))
		assert.Empty(t, r.Header.Get("X-Forwarded-For"))
		assert.Equal(t, "/api/v1/responses", r.URL.Path)
		assert.Equal(t, "hello", string(body))
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "data: 2\n\n")
	}))
	defer provider.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw}), 0o600))
	l, err := New(Endpoint{BaseURL: provider.URL + "/api/v1", Key: "sk-key", CAFile: ca}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)

	assert.Equal(t, http.StatusUnauthorized, ask(t, url+"/responses", "guess", "hello").StatusCode)
	assert.Equal(t, http.StatusUnauthorized, ask(t, url+"/responses", "", "hello").StatusCode)
	res := ask(t, url+"/responses", l.Token, "hello")
	stream := bufio.NewReader(res.Body)
	line, err := stream.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "data: 1\n", line)
	close(more)
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	assert.Equal(t, "\ndata: 2\n\n", string(rest))
}

func TestWithoutKeyOrProvider(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Authorization"))
	}))
	l, err := New(Endpoint{BaseURL: provider.URL}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	assert.Equal(t, http.StatusOK, ask(t, url+"/responses", l.Token, "").StatusCode)
	provider.Close()
	res := ask(t, url+"/responses", l.Token, "")
	words, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadGateway, res.StatusCode)
	assert.Contains(t, string(words), `{"error":{"message":"cannot reach the provider: `)
	assert.Contains(t, string(words), `: it refuses connections"}}`)
}

func TestReadKey(t *testing.T) {
	key, err := ReadKey(strings.NewReader(" sk-1\n"))
	require.NoError(t, err)
	assert.Equal(t, "sk-1", key)
	for text, want := range map[string]string{
		"": "there is no key", "\n": "there is no key", "a b": "more than a key", "a\nb": "more than a key",
		strings.Repeat("a", longestKey+1): "longer than 8 KiB", "schlüssel": "more than a key",
	} {
		_, err := ReadKey(strings.NewReader(text))
		assert.ErrorContains(t, err, want)
	}
}

// early is a provider that answers as soon as it has the last byte of a request. The server then closes the request's
// body, before the transport has looked for its end.
type early struct{ t *testing.T }

func (e early) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.ReadFull(r.Body, make([]byte, r.ContentLength))
	require.NoError(e.t, err)
	require.NoError(e.t, r.Body.Close())
	_, err = r.Body.Read(make([]byte, 1))
	assert.Equal(e.t, io.EOF, err, "the transport would close the connection")
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("early"))}, nil
}

func TestEarlyAnswers(t *testing.T) {
	l, err := New(Endpoint{BaseURL: "http://provider.invalid"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	l.handler = ofCodex(&forward{rewrite: func(*http.Request) {}, modify: func(*http.Response) {}, transport: early{t}})
	assert.Equal(t, "early", textOf(t, ask(t, start(t, l)+"/responses", l.Token, "body")))
}
