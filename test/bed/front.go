package bed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
)

// Front is a reverse proxy before codex-proxy, with the file in docs/reverse-proxies.md,
// and a second server behind it that is another program.
type Front struct {
	Unit, File string
	Check      []string // the command that finds mistakes in the file
	Roots      *x509.CertPool
}

// frontName is the name in the files, and otherAddr the address of the second server in a
// network that has only a loopback.
const (
	FrontName = "api.example.com"
)

// NewClient has connections of its own to the proxy, or to its front.
func NewClient(b *Bed) *http.Client {
	client := b.HTTPClient()
	if b.Front != nil {
		client.Transport = b.Front.transport(b.DialContext)
	}
	if b.Key != "" {
		client.Transport = &Bearer{client.Transport, b.Key}
	}
	return client
}

// Bearer sends an API key with each request.
type Bearer struct {
	http.RoundTripper
	key string
}

// RoundTrip implements http.RoundTripper.
func (t *Bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.key)
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is the method that http.Client calls.
func (t *Bearer) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

func (f *Front) transport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *Fronted {
	return &Fronted{http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dial(ctx, network, "127.0.0.1:443")
		},
		TLSClientConfig:   &tls.Config{RootCAs: f.Roots, ServerName: FrontName},
		ForceAttemptHTTP2: true,
	}}
}

// Fronted sends requests for the proxy to its front.
type Fronted struct{ http.Transport }

// RoundTrip implements http.RoundTripper.
func (f *Fronted) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = "https", FrontName, ""
	return f.Transport.RoundTrip(r)
}
