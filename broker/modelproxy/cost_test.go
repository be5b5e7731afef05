package modelproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkTurn has the CPU time of a turn, with its client and its endpoint: through the broker, and through a bare
// reverse proxy of net/http. Each turn has a connection of its own, as codex makes one.
func BenchmarkTurn(b *testing.B) {
	events := strings.Repeat("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\" word\"}\n\n", 20)
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events)
	}))
	endpoint.EnableHTTP2 = true
	endpoint.StartTLS()
	defer endpoint.Close()
	ca := filepath.Join(b.TempDir(), "ca.pem")
	require.NoError(b, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: endpoint.Certificate().Raw}), 0o600))
	broker, err := ForWorker(Endpoint{BaseURL: endpoint.URL, Key: "sk-key", CAFile: ca}, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	pool := x509.NewCertPool()
	pool.AddCert(endpoint.Certificate())
	at, err := url.Parse(endpoint.URL)
	require.NoError(b, err)
	bare := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) },
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	for _, way := range []struct {
		name    string
		handler http.Handler
	}{{"broker", broker}, {"bare", bare}} {
		b.Run(way.name, func(b *testing.B) {
			l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
			require.NoError(b, err)
			server := &http.Server{Handler: way.handler, ReadHeaderTimeout: time.Minute}
			if way.handler == broker {
				l, server = broker.accepting(l), broker.server()
			}
			go func() { _ = server.Serve(l) }()
			defer server.Close()
			turn(b, l.Addr().String()) // it makes the connection to the endpoint
			b.ReportAllocs()
			before := spent()
			for b.Loop() {
				turn(b, l.Addr().String())
			}
			b.ReportMetric(float64((spent()-before).Microseconds())/float64(b.N), "CPU-µs/op")
		})
	}
}

func turn(b *testing.B, socket string) {
	b.Helper()
	client := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://broker/responses", strings.NewReader(strings.Repeat("x", 12_000)))
	require.NoError(b, err)
	r.Header.Set("X-Codex-Turn-Metadata", fmt.Sprintf(`{"turn_id":%q,"request_kind":"turn"}`, strings.Repeat("x", 600)))
	res, err := client.RoundTrip(r)
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(b, err)
	require.NoError(b, res.Body.Close())
}

// spent is the CPU time of this process.
func spent() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
