package upstream

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

var errProxy = errors.New("HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is no URL: give http://HOST:PORT or socks5://HOST:PORT")

// proxyFromEnvironment chooses the proxy of a request by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and by ALL_PROXY where
// these name none, as codex does.
func proxyFromEnvironment() func(*http.Request) (*url.URL, error) {
	c := httpproxy.FromEnvironment()
	all := cmp.Or(os.Getenv("ALL_PROXY"), os.Getenv("all_proxy"))
	c.HTTPProxy, c.HTTPSProxy = cmp.Or(c.HTTPProxy, all), cmp.Or(c.HTTPSProxy, all)
	choose := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}

// discreet replaces the error of a proxy's address, which has the password in it.
func discreet(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if err != nil {
			err = errProxy
		}
		return u, err
	}
}

// ofProxy reports whether the proxy has failed, and not the endpoint behind it. "socks connect" is the operation of
// net/http's client of SOCKS.
func ofProxy(err error) bool {
	var op *net.OpError
	return errors.Is(err, errProxy) || errors.As(err, &op) && (op.Op == "proxyconnect" || op.Op == "socks connect")
}
