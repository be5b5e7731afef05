package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
)

// Access is the class of clients that may use a route.
type Access int

// The classes.
const (
	Public   Access = iota // any client: probes must work without a secret
	Keyed                  // a holder of an API key, if there are keys
	Operator               // a program on this machine, or a holder of an API key
)

// access applies the access class of a route. It returns the key of the request, which
// is empty if the request needs none, or an *openai.Error.
func access(keys *auth.Keys, route Route, r *http.Request) (auth.Key, error) {
	switch {
	case route.Access == Public:
		return auth.Key{}, nil
	case keys.Open() && forwardedBy(r) != "":
		return auth.Key{}, forwardingNotAllowed(forwardedBy(r))
	case keys.Open() && foreignHost(r):
		return auth.Key{}, hostNotAllowed()
	case keys.Open() || route.Access == Operator && isLocal(r):
		return auth.Key{}, nil
	case keys.Outdated():
		return auth.Key{}, keysOutdated()
	}
	key, ok := keys.Check(r)
	switch {
	case ok:
		return key, nil
	case keys.Doubtful() && auth.HasKey(r):
		return key, keysOutdated()
	case route.Access == Operator:
		return key, unauthorized("; without one, " + route.Path +
			" is for this machine alone, by the name localhost and not through a reverse proxy")
	case keys.Empty():
		return key, unauthorized("; there is none, so that nobody is let in until the operator makes one: codex-proxy keys add NAME")
	default:
		return key, unauthorized("")
	}
}

// keysOutdatedRetry is some exchanges with the database.
const keysOutdatedRetry = 5 * time.Second

// keysOutdated refuses a request with a key that may be good: no database answers, and a 401 would mean a wrong key.
func keysOutdated() error {
	return openai.Unavailable("keys_outdated", "the database with the API keys does not answer at the moment, and "+
		"this host cannot tell whether the key is valid", keysOutdatedRetry)
}

func hostNotAllowed() error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "host_not_allowed",
		Message: "without API keys this is for programs on this machine that ask for it by the name localhost: " +
			"use http://localhost:PORT, or have the operator make a key with `codex-proxy keys add NAME`",
	}
}

// forwardingNotAllowed refuses a request that a reverse proxy forwarded, or seems to have
// forwarded: sign shows it.
func forwardingNotAllowed(sign string) error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "forwarding_not_allowed",
		Message: "without API keys this is for programs on this machine that speak HTTP/1.1, and a request with " +
			sign +
			" may come from elsewhere through a reverse proxy: " +
			"have the operator make a key with `codex-proxy keys add NAME`, and send it",
	}
}

// unauthorized names one header for the key: Claude Code replaces a message with the words
// "x-api-key" by its own, such as a request to log in at Anthropic.
func unauthorized(hint string) error {
	return openai.Unauthorized("send a valid API key as Authorization: Bearer KEY" + hint)
}

// forwardingHeaders are the headers that a reverse proxy adds: RFC 7239, RFC 9110 7.6.3,
// and the older ones.
var forwardingHeaders = []string{
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
}

// isLocal reports whether a program on this machine sends the request for itself. A
// request through a reverse proxy on this machine has this machine's address, too. A
// reverse proxy that adds no header forwards the host name of its client, as does a
// browser that DNS led here; nginx before 1.29.7 without any setting is known by HTTP/1.0.
// A later nginx without any setting looks like a program on this machine.
func isLocal(r *http.Request) bool {
	return isLoopback(r.RemoteAddr) && isLoopback(r.Host) && forwardedBy(r) == ""
}

// forwardedBy is the header or the protocol that shows that a reverse proxy forwarded the
// request; empty: nothing shows it.
func forwardedBy(r *http.Request) string {
	for _, name := range forwardingHeaders {
		if _, there := r.Header[name]; there {
			return name
		}
	}
	if !r.ProtoAtLeast(1, 1) {
		return r.Proto
	}
	return ""
}

// foreignHost reports whether a request over TCP names another host than this one, as a browser does if DNS resolves
// the name of a page to this host. A page cannot reach a unix socket.
func foreignHost(r *http.Request) bool {
	_, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && !isLoopback(r.Host)
}

// isLoopback accepts an address or localhost, with a port or without.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
