package modelproxy

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A stopping proxy finishes the answer in flight, takes requests until then, and ends.
func TestDrain(t *testing.T) {
	more := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "1\n")
		w.(http.Flusher).Flush()
		if r.ContentLength == int64(len("held")) {
			<-more
		}
		_, _ = io.WriteString(w, "2\n")
	}))
	defer provider.Close()
	l, err := ForWorker(Endpoint{BaseURL: provider.URL}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, l.Alive(t.Context()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.RunAndDrain(ctx, listener, time.Minute, time.Minute) }()
	url := "http://" + listener.Addr().String() + "/responses"
	held := ask(t, url, "", "held")
	stream := bufio.NewReader(held.Body)
	_, err = stream.ReadString('\n')
	require.NoError(t, err)
	stop()
	for closes := false; !closes; { // the proxy has noticed the stop
		res := ask(t, url, "", "x")
		assert.Equal(t, "1\n2\n", textOf(t, res))
		closes = res.Close
	}
	close(more)
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	assert.Equal(t, "2\n", string(rest))
	assert.NoError(t, <-ended)
}

// The parameters of an endpoint's address stay, and codex adds none.
func TestQueryOfTheEndpoint(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.RequestURI())
	}))
	defer provider.Close()
	l, err := ForWorker(Endpoint{BaseURL: provider.URL + "/openai/v1?a=1", Query: map[string][]string{"api-version": {"preview"}}},
		slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	assert.Equal(t, "/openai/v1/responses?a=1&api-version=preview", textOf(t, ask(t, start(t, l)+"/responses?x=1", "", "")))
}
