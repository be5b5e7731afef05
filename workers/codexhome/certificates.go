package codexhome

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
)

// certificatesName is a file in the unit's RuntimeDirectory. codex trusts it in place
// of the system's certificate authorities.
const certificatesName = "certificates.pem"

// certificates writes that file if the provider determines the authorities that codex
// needs. codex reads the whole file for each turn; reading the system's takes half of
// a turn.
func (h *Home) certificates(w *Worker) error {
	path := filepath.Join(h.Runtime, certificatesName)
	switch {
	case w.Provider != nil && w.Provider.CAFile != "":
		doc, err := os.ReadFile(w.Provider.CAFile)
		if err != nil {
			return w.problem("provider.ca_file", fmt.Sprintf("cannot read provider.ca_file: %v", err),
				"it must be readable for the worker's user")
		}
		if !hasCertificate(doc) {
			return w.problem("provider.ca_file", fmt.Sprintf("provider.ca_file = %q holds no certificate",
				w.Provider.CAFile), "give a PEM file, with BEGIN CERTIFICATE")
		}
		return writeFile(path, doc)
	case w.Mode == Plain && (w.broker != "" || w.Provider.withoutTLS()):
		return writeFile(path, []byte("# none: the worker's only endpoint is http\n"))
	}
	return removeFiles(path)
}

// withoutTLS reports whether the endpoint is on this machine or at an address. A
// name could redirect to https.
func (p *Provider) withoutTLS() bool {
	if p == nil {
		return false
	}
	u, err := url.Parse(p.BaseURL)
	return err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()) != nil)
}

func hasCertificate(doc []byte) bool {
	for block, rest := pem.Decode(doc); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			return true
		}
	}
	return false
}
