package deliver

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/internal/ondemand"
	"codex-proxy/internal/publicnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = publicnet.Prefixes("127.0.0.1/32")

// service is a push service on 127.0.0.1, and a deliverer that trusts its certificate.
func service(t *testing.T, allow []netip.Prefix, handler http.HandlerFunc) (string, *Deliverer) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	d := New(allow)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	transport, ok := d.http.Transport.(*http.Transport)
	require.True(t, ok)
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport.TLSClientConfig.RootCAs = roots
	t.Cleanup(transport.CloseIdleConnections)
	return s.URL, d
}

func code(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

func TestDeliver(t *testing.T) {
	url, d := service(t, loopback, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "encrypted", string(body))
		assert.Equal(t, "/push/1", r.URL.Path)
		for name, want := range map[string]string{"Authorization": "vapid t=x, k=y", "TTL": "60", "Urgency": "high",
			"Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream", "User-Agent": "codex-proxy", "Cookie": "", "Accept-Encoding": ""} {
			assert.Equal(t, want, r.Header.Get(name), name)
		}
		w.WriteHeader(http.StatusCreated)
	})
	m := Message{Endpoint: url + "/push/1", Authorization: "vapid t=x, k=y", Urgency: "high", TTL: 60, Body: []byte("encrypted")}
	require.NoError(t, d.Deliver(t.Context(), m))

	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(Route, d)
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		require.NoError(t, server.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	c := NewClient(socket)
	require.NoError(t, c.Deliver(t.Context(), m))
	m.Endpoint = "https://127.0.0.2:1/"
	assert.Equal(t, Address, code(t, c.Deliver(t.Context(), m)))
	m.Body = make([]byte, maxRequest)
	assert.Equal(t, Refused, code(t, c.Deliver(t.Context(), m)), "too long")
	assert.Equal(t, Unavailable, code(t, NewClient(socket+"none").Deliver(t.Context(), m)))
}

// No endpoint reaches an address of this host, of its network or of nobody; redirects are not followed.
func TestEndpointsThatAreRefused(t *testing.T) {
	var reached atomic.Int32
	url, d := service(t, nil, func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	port := url[strings.LastIndex(url, ":"):]
	for _, endpoint := range []string{
		url, "https://localhost" + port, "https://[::1]" + port, "https://[::ffff:127.0.0.1]" + port, "https://0.0.0.0" + port,
		"https://10.0.0.1/", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://[fe80::1]/",
		"https://[fd00::1]/", "https://100.64.0.1/", "http://push.example.com/", "file:///etc/passwd", "https://a:b@push.example.com/", "", "https://",
	} {
		assert.Equal(t, Address, code(t, d.Deliver(t.Context(), Message{Endpoint: endpoint})), endpoint)
	}
	assert.Zero(t, reached.Load())
	_, d = service(t, loopback, nil)
	assert.Equal(t, Refused, code(t, d.Deliver(t.Context(), Message{Endpoint: url})), "a certificate of others")
}

func TestAnswers(t *testing.T) {
	var status atomic.Int32
	url, d := service(t, loopback, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			assert.Fail(t, "a redirect was followed")
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(make([]byte, 1<<20))
	})
	for want, statuses := range map[string][]int{
		"": {200, 201, 202}, Gone: {404, 410}, Refused: {301, 307, 400, 401, 403, 413}, Unavailable: {429, 500, 503},
	} {
		for _, s := range statuses {
			status.Store(int32(s))
			err := d.Deliver(t.Context(), Message{Endpoint: url})
			if want == "" {
				assert.NoError(t, err, s)
				continue
			}
			var e *Error
			require.ErrorAs(t, err, &e, s)
			assert.Equal(t, want, e.Code, s)
			assert.Equal(t, want == Unavailable, e.Passing(), s)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *Error
	require.ErrorAs(t, d.Deliver(ctx, Message{Endpoint: url}), &e)
	assert.True(t, e.Passing(), "its sender has gone")
}

// A unit with a bad configuration says so.
func TestReason(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ondemand.ReasonHeader, "config.toml is bad")
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		require.NoError(t, server.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	err = NewClient(socket).Deliver(t.Context(), Message{})
	assert.Equal(t, Unavailable, code(t, err))
	assert.ErrorContains(t, err, "config.toml is bad")
}
