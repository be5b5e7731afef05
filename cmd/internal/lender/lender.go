// Package lender lends the key of a remote's provider to codex: a server, beside codex, that adds the key to the
// requests of codex and sends them on. So codex, its tools, and the people who attach to it use the key and cannot read
// it.
package lender

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"
)

// longestKey bounds a key, in bytes.
const longestKey = 8 << 10

// Lender is a server for one codex.
type Lender struct {
	// Token is what codex has to send in place of the key. On a network that codex shares with the machine it keeps
	// other users from the server.
	Token string

	provider *url.URL
	key      string // empty: none is sent
	trust    *x509.CertPool
	logger   *slog.Logger
}

// New makes a lender for the provider at baseURL. caFile has the certificate authorities; empty: those of the system.
func New(baseURL, key, caFile string, logger *slog.Logger) (*Lender, error) {
	provider, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	l := &Lender{Token: rand.Text(), provider: provider, key: key, logger: logger}
	if caFile == "" {
		return l, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
	}
	if l.trust = x509.NewCertPool(); !l.trust.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate: give a PEM file, with BEGIN CERTIFICATE", caFile)
	}
	return l, nil
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

// Run serves on l until ctx is done.
func (l *Lender) Run(ctx context.Context, listener net.Listener) error {
	const headerBound = 10 * time.Second
	server := &http.Server{
		Handler: l.handler(), ReadHeaderTimeout: headerBound,
		ErrorLog: slog.NewLogLogger(l.logger.Handler(), slog.LevelDebug), // of single connections: no events
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (l *Lender) handler() http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: l.trust, MinVersion: tls.VersionTLS12}
	transport.DisableCompression = true // the bytes go on as they are
	proxy := &httputil.ReverseProxy{
		Rewrite: l.rewrite, Transport: transport, FlushInterval: -1, ErrorHandler: l.fail,
		ErrorLog: slog.NewLogLogger(l.logger.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(token), []byte(l.Token)) != 1 {
			refuse(w, http.StatusUnauthorized, "this server is for the codex of a remote alone")
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func (l *Lender) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(l.provider)
	r.Out.Host = l.provider.Host
	r.Out.Header.Del("Authorization")
	if l.key != "" {
		r.Out.Header.Set("Authorization", "Bearer "+l.key)
	}
}

// fail answers a request that the provider has not. codex repeats it, and shows the words.
func (l *Lender) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // codex has interrupted the turn
	}
	l.logger.Warn("the provider cannot be reached", "error", err)
	refuse(w, http.StatusBadGateway, "cannot reach the provider at "+l.provider.Host+": "+err.Error())
}

func refuse(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": words}})
}
