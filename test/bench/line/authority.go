package line

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
	"os"
	"time"
)

// Authority signs the certificates of endpoints.
type Authority struct {
	File string // in PEM
	Pool *x509.CertPool
	leaf tls.Certificate
}

// OpenAI are names of OpenAI's servers, which an endpoint may play.
var OpenAI = []string{"api.openai.com", "chatgpt.com"}

// addresses are those of endpoints.
func addresses() (all []net.IP) {
	const most = 100
	for n := range byte(most) {
		all = append(all, net.IPv4(127, 0, 0, n+1))
	}
	return all
}

// NewAuthority makes one that is valid for a day, with its certificate in the file.
func NewAuthority(file string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the bench"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	signed, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "endpoint of the bench"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, IPAddresses: addresses(), DNSNames: OpenAI,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	a := &Authority{File: file, Pool: x509.NewCertPool(), leaf: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own}}
	a.Pool.AppendCertsFromPEM(text)
	return a, os.WriteFile(file, text, 0o644)
}
