package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forwarded are the headers by which a reverse proxy tells that it speaks for
// somebody else: RFC 7239, RFC 9110 7.6.3, and what was there before them.
var forwarded = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// fromHere reports whether a program on this machine asks, and for itself. A
// request through a reverse proxy on this machine has this machine's address, too.
// A reverse proxy that adds no header passes on the name that its client
// asked for, as a browser does that was led here by its DNS; or it is nginx before
// 1.29.7 without any setting, which speaks HTTP/1.0. A later one without any
// setting cannot be told from a program here.
func fromHere(r *http.Request) bool {
	return isLoopback(r.RemoteAddr) && isLoopback(r.Host) && passedOn(r) == ""
}

// passedOn is the header or the protocol that shows that a reverse proxy has passed
// the request on; empty: nothing shows it.
func passedOn(r *http.Request) string {
	for _, name := range forwarded {
		if _, there := r.Header[name]; there {
			return name
		}
	}
	if !r.ProtoAtLeast(1, 1) {
		return r.Proto
	}
	return ""
}

// misled reports whether a request over TCP asks for another host than this one:
// a browser does, with a page whose name its DNS has led here. A unix socket is
// out of a page's reach.
func misled(r *http.Request) bool {
	_, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && !isLoopback(r.Host)
}

// isLoopback takes an address or localhost, with a port or without.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
