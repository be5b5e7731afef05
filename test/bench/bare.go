package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startBare runs a reverse proxy of Go's library in the place of a broker, with as many processors and the same timers.
func (b *bench) startBare(ctx context.Context, address, authorities string) (*broker, error) {
	path := filepath.Join(b.dir, "bare.sock")
	cmd := exec.Command("/proc/self/exe", bareName, path, "https://"+address+"/v1", authorities)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	return startOn(ctx, cmd, path)
}

// serveBare serves on a socket, in front of an endpoint, whose authorities are in a file.
func serveBare(args []string) error {
	at, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) },
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}
	return (&http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}).Serve(l)
}
