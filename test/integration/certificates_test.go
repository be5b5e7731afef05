package integration

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codex trusts its endpoint's authority alone, or none without TLS; an operator's
// setting in the unit takes precedence.
func TestCertificates(t *testing.T) { bothSuites(t, testCertificates) }

func testCertificates(t *testing.T, suite string) {
	const (
		own      = "/run/codex-worker/default/certificates.pem"
		internal = "/etc/ssl/internal.pem"
	)
	b := newBed(t, suite, realWorker, "")
	b.start()
	assert.Equal(t, own, b.trusts())

	certificate, root := certify(t, "models.internal")
	require.NoError(t, b.WriteFile(internal, root, 0o644))
	b.appendTo("/etc/hosts", "127.0.0.1 models.internal\n")
	b.serveTLS("127.0.0.1:443", certificate, b.models.Handler())
	secure := strings.Replace(realWorker, "http://"+modelAddr, "https://models.internal", 1)
	require.NoError(t, b.WriteFile(workerFile, []byte(secure), 0o644))
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.until("ready", ready)
	assert.Empty(t, b.trusts(), "the system's")
	status, _, answer := b.chat(false, "hello")
	assert.Equal(t, http.StatusServiceUnavailable, status, answer)

	require.NoError(t, b.WriteFile(workerFile, fmt.Appendf(nil, "%sca_file = %q\n", secure, internal), 0o644))
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.until("ready", ready)
	assert.Equal(t, own, b.trusts())
	status, _, answer = b.chat(false, "hello")
	assert.Equal(t, http.StatusOK, status, answer)

	b.dropIn("codex-worker@.service", "trust", "[Service]\nEnvironment=SSL_CERT_FILE="+internal+"\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.until("ready", ready)
	assert.Equal(t, internal, b.trusts())
}

// trusts is SSL_CERT_FILE= of the running codex.
func (b *bed) trusts() string {
	b.t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.codex().Host))
	require.NoError(b.t, err)
	for _, variable := range strings.Split(string(environ), "\x00") {
		if path, ok := strings.CutPrefix(variable, "SSL_CERT_FILE="); ok {
			return path
		}
	}
	return ""
}

// serveTLS serves inside the machine until the test ends.
func (b *bed) serveTLS(address string, certificate tls.Certificate, handler http.Handler) {
	b.t.Helper()
	l, err := b.Listen("tcp", address)
	require.NoError(b.t, err)
	b.serveTLSOn(l, certificate, handler)
}

// serveTLSOn is serveTLS on a listener.
func (b *bed) serveTLSOn(l net.Listener, certificate tls.Certificate, handler http.Handler) {
	b.t.Helper()
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(b.t.Output(), nil),
		slog.LevelInfo),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(l, "", "") }()
	b.t.Cleanup(func() {
		_ = server.Close()
		assert.ErrorIs(b.t, <-served, http.ErrServerClosed)
	})
}
