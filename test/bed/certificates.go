package bed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// ServeTLSOn is serveTLS on a listener.
func (b *Bed) ServeTLSOn(l net.Listener, certificate tls.Certificate, handler http.Handler) {
	b.T.Helper()
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(b.T.Output(), nil),
		slog.LevelInfo),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(l, "", "") }()
	b.T.Cleanup(func() {
		_ = server.Close()
		assert.ErrorIs(b.T, <-served, http.ErrServerClosed)
	})
}

const (
	// Authority is the certificate authority of the hosts of OpenAI in the machine.
	Authority = "/etc/ssl/openai-test.pem"
)

// serveHosts has the names of OpenAI's hosts lead to the server, at which the bed's endpoint then listens.
func (b *Bed) serveHosts(server *accountserver.Server) {
	b.T.Helper()
	certificate, root := Certify(b.T, accountserver.Hosts...)
	require.NoError(b.T, b.WriteFile(Authority, root, 0o644))
	b.DropIn("codex-worker@.service", "openai", "[Service]\nEnvironment=SSL_CERT_FILE="+Authority+"\n")
	for _, host := range accountserver.Hosts {
		b.AppendTo("/etc/hosts", "127.0.0.1 "+host+"\n")
	}
	l, err := newEndpoint(func() (net.Listener, error) { return b.Listen("tcp", "127.0.0.1:443") })
	require.NoError(b.T, err)
	b.Endpoint = l
	b.ServeTLSOn(l, certificate, server.Handler())
}

// Certify makes an authority and a certificate for these names; rustls takes no
// authority for a server.
func Certify(t *testing.T, names ...string) (tls.Certificate, []byte) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour),
			time.Now().Add(24*time.Hour)
		if by == nil {
			by = key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		require.NoError(t, err)
		return der, key
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	root, signer := sign(authority, authority, nil)
	leaf, key := sign(&x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, authority, signer)
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}
