package modelproxy

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	"codex-proxy/broker/conversation"
	"codex-proxy/broker/upstream"
)

// longestKey bounds a key, in bytes.
const longestKey = 8 << 10

// Endpoint is the model endpoint of a provider.
type Endpoint struct {
	BaseURL string
	Key     string     // empty: none is sent
	CAFile  string     // has the certificate authorities; empty: those of the system
	Query   url.Values // in addition to that of BaseURL
	// Connections bounds those to the endpoint at a time; 0: as many as are usual.
	Connections int
}

// provider sends requests on with a key.
type provider struct {
	url     *url.URL
	targets map[string]url.URL // by the path of codex's request
	key     string             // empty: none is sent
	next    http.RoundTripper
	logger  *slog.Logger
}

// New makes a model proxy for the provider of a remote.
func New(e Endpoint, logger *slog.Logger) (*Proxy, error) {
	base, err := url.Parse(e.BaseURL)
	if err != nil {
		return nil, err
	}
	query := base.Query()
	maps.Copy(query, e.Query)
	base.RawQuery = query.Encode()
	trust, err := trusted(e.CAFile)
	if err != nil {
		return nil, err
	}
	l := newProxy(logger)
	transport := upstream.New(trust, e.Connections)
	l.seen.of(transport)
	l.conversations = conversation.New(transport, logger)
	p := &provider{url: base, targets: targetsOf(base), key: e.Key, next: l.conversations, logger: logger}
	l.handler = probing(base, transport, ofCodex(l.seen.observe(l.retriable(&forward{
		transport: p, rewrite: p.rewrite, fail: p.fail,
		modify: func(res *http.Response) { answered(res); l.seen.meter(res); bound(res) },
	}))))
	return l, nil
}

// ForWorker makes a model proxy for the provider of a worker. codex alone reaches its socket: it needs no token and no
// guard.
func ForWorker(e Endpoint, logger *slog.Logger) (*Proxy, error) {
	l, err := New(e, logger)
	if err == nil {
		l.Token, l.guard = "", nil
	}
	return l, err
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
			refuse(w, http.StatusNotFound, "the key of the provider is lent for requests to the model alone")
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

// targetsOf are the addresses of the requests that codex sends, by their paths.
func targetsOf(base *url.URL) map[string]url.URL {
	all := map[string]url.URL{}
	for question := range asked {
		_, path, _ := strings.Cut(question, " ")
		r := &httputil.ProxyRequest{Out: &http.Request{URL: &url.URL{Path: path}}}
		r.SetURL(base)
		all[path] = *r.Out.URL
	}
	return all
}

func (p *provider) rewrite(out *http.Request) {
	target := p.targets[out.URL.Path]
	if query := queryOf(out.URL); query != "" {
		target.RawQuery = strings.TrimPrefix(target.RawQuery+"&"+query, "&")
	}
	out.URL, out.Host = &target, target.Host
}

// RoundTrip implements http.RoundTripper: it sends a request with the key.
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	switch password, _ := p.url.User.Password(); {
	case p.key != "":
		r.Header.Set("Authorization", "Bearer "+p.key)
	case p.url.User != nil:
		r.SetBasicAuth(p.url.User.Username(), password)
	}
	return p.next.RoundTrip(r)
}

// fail answers a request that the provider has not. codex repeats it, and shows the words, which have no address of a
// network: the journal has them.
func (p *provider) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // codex has interrupted the turn
	}
	reason := upstream.ReasonOf(err)
	p.logger.Warn("the model endpoint cannot be reached", "endpoint", p.url.Host, "reason", string(reason), "error", err)
	refuse(w, http.StatusBadGateway, "cannot reach the provider: "+reason.Words())
}
