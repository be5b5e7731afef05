package line

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// The endpoint answers by HTTP/2 and by WebSocket, no sooner than its line lets it, and counts what comes.
func TestEndpoint(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	t.Cleanup(func() { cancel(); assert.NoError(t, g.Wait()) })
	a, err := NewAuthority(filepath.Join(t.TempDir(), "ca.pem"))
	require.NoError(t, err)
	const trip = 20 * time.Millisecond
	e, err := Start(ctx, &g, a, Options{RoundTrip: trip, Up: 8 << 20})
	require.NoError(t, err)
	trust := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: a.Pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(trust.CloseIdleConnections)
	client := &http.Client{Transport: trust}
	ask := func(size int) (answer string, took time.Duration) {
		t.Helper()
		began := time.Now()
		res, err := client.Post("https://"+e.Address+"/v1/responses", "application/json",
			strings.NewReader(`{"model":"m","input":"`+strings.Repeat("x", size)+`"}`))
		require.NoError(t, err)
		defer res.Body.Close()
		assert.Equal(t, 2, res.ProtoMajor)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(text), time.Since(began)
	}
	answer, took := ask(1)
	assert.Contains(t, answer, Answer)
	assert.GreaterOrEqual(t, took, 3*trip, "TCP, TLS and the request take a round trip each")
	_, took = ask(256 << 10)
	assert.GreaterOrEqual(t, took, time.Second/4, "a megabyte takes a second at 8 Mbit/s")

	plain := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool, MinVersion: tls.VersionTLS12}}}
	conn, _, err := websocket.Dial(ctx, "wss://"+e.Address+"/v1/responses", &websocket.DialOptions{HTTPClient: plain})
	require.NoError(t, err)
	defer conn.CloseNow()
	for request, want := range map[string]string{`{"generate":false}`: "response.completed", `{}`: "response.output_item.added"} {
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(request)))
		var got string
		for !strings.Contains(got, "response.completed") {
			_, text, err := conn.Read(ctx)
			require.NoError(t, err)
			got += string(text)
		}
		assert.Contains(t, got, want)
	}
	assert.Equal(t, Counts{Connections: 2, Requests: 3, Upgrades: 1, Warmups: 1}, e.Counts())
}
