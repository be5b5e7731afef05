package proxy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// codex trusts its endpoint's authority alone, or none without TLS; an operator's
// setting in the unit takes precedence.
func TestCertificates(t *testing.T) { bed.EitherSuite(t, testCertificates) }

func testCertificates(t *testing.T, suite string) {
	const (
		own      = "/run/codex-worker/default/certificates.pem"
		internal = "/etc/ssl/internal.pem"
	)
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	assert.Equal(t, own, trusts(b))

	certificate, root := bed.Certify(t, "models.internal")
	require.NoError(t, b.WriteFile(internal, root, 0o644))
	b.AppendTo("/etc/hosts", "127.0.0.1 models.internal\n")
	serveTLS(b, "127.0.0.1:443", certificate, b.Models.Handler())
	secure := strings.Replace(bed.RealWorker, "http://"+bed.ModelAddr, "https://models.internal", 1)
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(secure), 0o644))
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	assert.Empty(t, trusts(b), "the system's")
	status, _, answer := b.Chat(false, "hello")
	assert.Equal(t, http.StatusServiceUnavailable, status, answer)

	require.NoError(t, b.WriteFile(bed.WorkerFile, fmt.Appendf(nil, "%sca_file = %q\n", secure, internal), 0o644))
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	assert.Equal(t, own, trusts(b))
	status, _, answer = b.Chat(false, "hello")
	assert.Equal(t, http.StatusOK, status, answer)

	b.DropIn("codex-worker@.service", "trust", "[Service]\nEnvironment=SSL_CERT_FILE="+internal+"\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	assert.Equal(t, internal, trusts(b))
}

// trusts is SSL_CERT_FILE= of the running codex.
func trusts(b *bed.Bed) string {
	b.T.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.Codex().Host))
	require.NoError(b.T, err)
	for _, variable := range strings.Split(string(environ), "\x00") {
		if path, ok := strings.CutPrefix(variable, "SSL_CERT_FILE="); ok {
			return path
		}
	}
	return ""
}

// serveTLS serves inside the machine until the test ends.
func serveTLS(b *bed.Bed, address string, certificate tls.Certificate, handler http.Handler) {
	b.T.Helper()
	l, err := b.Listen("tcp", address)
	require.NoError(b.T, err)
	b.ServeTLSOn(l, certificate, handler)
}
