package modelproxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

// longestKey bounds a key, in bytes.
const longestKey = 8 << 10

// provider sends requests on with a key.
type provider struct {
	url    *url.URL
	key    string // empty: none is sent
	logger *slog.Logger
}

// New makes a model proxy for the provider at baseURL. caFile has the certificate authorities; empty: the
// authorities of the system.
func New(baseURL, key, caFile string, logger *slog.Logger) (*Proxy, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	p := &provider{url: base, key: key, logger: logger}
	trust, err := trusted(caFile)
	if err != nil {
		return nil, err
	}
	l := newProxy(logger)
	l.handler = ofCodex(&httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: newTransport(trust), FlushInterval: -1, ErrorHandler: p.fail,
		ModifyResponse: func(res *http.Response) error { bound(res); return nil },
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	})
	return l, nil
}

// asked are the requests that codex sends to a provider of one's own. The key is lent for no others: some endpoint of
// the provider's might show it, or whatever else belongs to its owner.
var asked = map[string]bool{
	"POST /responses": true, "POST /responses/compact": true, "GET /models": true, "POST /images/generations": true,
	"POST /images/edits": true, "POST /alpha/search": true, "POST /memories/trace_summarize": true,
}

// ofCodex passes those on. The path is the decoded one, as the provider may decode it.
func ofCodex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asked[r.Method+" "+r.URL.Path] || r.URL.RawPath != "" || r.Header.Get("Upgrade") != "" {
			refuse(w, http.StatusNotFound, "the key of a remote is lent for requests to the model alone")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trusted are the certificate authorities of the file; without one nil, for the authorities of the system.
func trusted(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate: give a PEM file, with BEGIN CERTIFICATE", caFile)
	}
	return pool, nil
}

func newTransport(trust *x509.CertPool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
	transport.DisableCompression = true // the bytes go on as they are
	return transport
}

// ReadKey reads a key: one line.
func ReadKey(from io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, longestKey+1))
	if err != nil {
		return "", fmt.Errorf("cannot read the key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	switch {
	case len(text) > longestKey:
		return "", fmt.Errorf("the key is longer than %d KiB", longestKey>>10)
	case key == "":
		return "", errors.New("there is no key in the file")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("the file has more than a key: put the key alone, on one line")
	}
	return key, nil
}

func (p *provider) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = queryOf(r.In.URL)
	r.SetURL(p.url)
	r.Out.Host = p.url.Host
	r.Out.Header = headersOf(r.Out.Header)
	if p.key != "" {
		r.Out.Header.Set("Authorization", "Bearer "+p.key)
	}
	r.Out.Body = ending(r.Out.Body, r.Out.ContentLength)
}

// fail answers a request that the provider has not. codex repeats it, and shows the words.
func (p *provider) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // codex has interrupted the turn
	}
	p.logger.Warn("the model endpoint of a remote cannot be reached", "error", err)
	refuse(w, http.StatusBadGateway, "cannot reach the provider at "+p.url.Host+": "+err.Error())
}
