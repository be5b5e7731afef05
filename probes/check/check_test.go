package check

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestTCP(t *testing.T) {
	defer goleak.VerifyNone(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	check := TCP(l.Addr().String())
	detail, err := check(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "tcp "+l.Addr().String(), detail)
	l.Close()
	_, err = check(t.Context())
	assert.ErrorContains(t, err, "connection refused")
}

func TestHTTP(t *testing.T) {
	defer goleak.VerifyNone(t)
	stop := make(chan struct{})
	mux := http.NewServeMux()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	mux.HandleFunc("/ok", status(http.StatusNoContent))
	mux.Handle("/moved", http.RedirectHandler("/missing", http.StatusFound))
	mux.HandleFunc("/broken", status(http.StatusServiceUnavailable))
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 4096))
		}
	})
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { <-stop })
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(stop)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, path := range []string{"/ok", "/moved", "/endless"} {
		detail, err := HTTP(server.URL+path, HTTPAnswer{})(ctx)
		assert.NoError(t, err, path)
		assert.Equal(t, "http "+server.URL+path, detail)
	}
	_, err := HTTP(server.URL+"/broken", HTTPAnswer{})(ctx)
	assert.ErrorContains(t, err, "/broken: 503 Service Unavailable")
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = HTTP(server.URL+"/silent", HTTPAnswer{})(short)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// The server gets the password of a URL, and neither detail nor error has it.
func TestHTTPPassword(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" || r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	address := strings.Replace(server.URL, "://", "://me:secret@", 1)
	shown := strings.Replace(server.URL, "://", "://me:xxxxx@", 1)
	detail, err := HTTP(address, HTTPAnswer{})(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "http "+shown, detail)
	_, err = HTTP(address+"/broken", HTTPAnswer{})(t.Context())
	assert.EqualError(t, err, "GET "+shown+"/broken: 503 Service Unavailable")
	server.Close()
	_, err = HTTP(address, HTTPAnswer{})(t.Context())
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

func TestHTTPUnix(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	_, err = HTTPUnix(path, "/healthz", HTTPAnswer{})(t.Context())
	assert.NoError(t, err)
	_, err = HTTPUnix(path, "", HTTPAnswer{})(t.Context())
	assert.ErrorContains(t, err, "404")
}

func TestExec(t *testing.T) {
	var result error
	check := Exec("pg_isready", func(context.Context) error { return result })
	detail, err := check(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "pg_isready", detail)
	result = errors.New("exit status 2")
	_, err = check(t.Context())
	assert.EqualError(t, err, "pg_isready: exit status 2")
	assert.ErrorIs(t, err, result)
}

func TestAppServer(t *testing.T) {
	const userAgent = "codex-proxy/0.169.0 (Debian 12.0.0; x86_64) xterm (codex-proxy; 1)"
	detail, err := AppServer(func(context.Context) (string, error) { return userAgent, nil })(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "codex 0.169.0", detail)

	models := 12
	check := AppServerModels(func(context.Context) (string, int, error) { return userAgent, models, nil })
	detail, err = check(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "codex 0.169.0, 12 models", detail)
	models = 0
	_, err = check(t.Context())
	assert.ErrorContains(t, err, "no models")
	assert.Equal(t, "of unknown version", codexVersion("codex"))
}

// An answer is judged by its status and by its body.
func TestHTTPAnswer(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"/missing": 404, "/ok": 200}[r.URL.Path])
		_, _ = w.Write([]byte(`{"status": "loading model"}`))
	}))
	defer server.Close()
	for _, c := range []struct {
		path, want string
		answer     HTTPAnswer
	}{
		{"/missing", "", HTTPAnswer{Statuses: []int{404}}},
		{"/ok", "/ok: 200 OK, want status 204 or 404", HTTPAnswer{Statuses: []int{204, 404}}},
		{"/ok", "", HTTPAnswer{Body: `"loading`}},
		{"/ok", `/ok: 200 OK, and the body lacks "ready"`, HTTPAnswer{Body: "ready"}},
		{"/missing", "/missing: 404 Not Found", HTTPAnswer{Body: "loading"}},
	} {
		_, err := run(t, HTTP(server.URL+c.path, c.answer))
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
}

func TestHTTPAuthorities(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, version := range []int{1, 2} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			assert.Equal(t, version, r.ProtoMajor)
		}))
		server.EnableHTTP2 = version == 2
		server.StartTLS()
		_, err := run(t, HTTP(server.URL, HTTPAnswer{}))
		require.ErrorContains(t, err, "certificate signed by unknown authority")
		_, err = run(t, HTTP(server.URL, HTTPAnswer{Authorities: writePEM(t, server.Certificate())}))
		require.NoError(t, err)
		server.Close()
	}
}

func writePEM(t testing.TB, certificate *x509.Certificate) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}
