package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
)

// openAI plays OpenAI's hosts inside a machine for one person: the login of codex, its queries of an account, and the
// Responses API, which the bed's model endpoint answers. codex runs as on a server; the names lead here, and the
// certificate of the test is trusted.
type openAI struct {
	*accountserver.Server
	t      *testing.T
	person *accountserver.Account
}

const (
	authority   = "/etc/ssl/openai-test.pem"
	userCode    = accountserver.UserCode
	accountMail = "person@example.com"
)

// openAI starts the hosts, and makes the workers trust them.
func (b *bed) openAI() *openAI {
	b.t.Helper()
	server := accountserver.New(b.models, "person")
	o := &openAI{server, b.t, server.Account("person")}
	o.person.Change(func(q *accountserver.Quota) {
		reset := time.Now().Add(72 * time.Minute)
		q.Windows[0].Used, q.Windows[0].Cost, q.Windows[0].Resets = 42, 1, reset
		q.Windows[1].Used, q.Windows[1].Resets = 7, reset
	})
	b.serveHosts(server)
	return o
}

// serveHosts has the names of OpenAI's hosts lead to the server, at which the bed's endpoint then listens.
func (b *bed) serveHosts(server *accountserver.Server) {
	b.t.Helper()
	certificate, root := certify(b.t, accountserver.Hosts...)
	require.NoError(b.t, b.WriteFile(authority, root, 0o644))
	b.dropIn("codex-worker@.service", "openai", "[Service]\nEnvironment=SSL_CERT_FILE="+authority+"\n")
	for _, host := range accountserver.Hosts {
		b.appendTo("/etc/hosts", "127.0.0.1 "+host+"\n")
	}
	l, err := newEndpoint(func() (net.Listener, error) { return b.Listen("tcp", "127.0.0.1:443") })
	require.NoError(b.t, err)
	b.endpoint = l
	b.serveTLSOn(l, certificate, server.Handler())
}

// certify makes an authority and a certificate for these names; rustls takes no
// authority for a server.
func certify(t *testing.T, names ...string) (tls.Certificate, []byte) {
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

// approve sets whether the person at the browser approves the login.
func (o *openAI) approve(yes bool) {
	if yes {
		o.Approve(o.person.Name)
		return
	}
	o.Approve("")
}

// hang makes readings wait until the returned function is called.
func (o *openAI) hang() (goOn func()) {
	o.person.Read(accountserver.Hanging)
	return sync.OnceFunc(func() { o.person.Read(accountserver.Answered) })
}

// untilRead waits for a reading after so many.
func (o *openAI) untilRead(before int) {
	o.t.Helper()
	require.NoError(o.t, o.Wait(o.t.Context(), func() bool { return len(o.person.Record().Readings) > before }))
}
