package upstream

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// An endpoint closes an idle HTTP/1.1 connection without notice, often after 2 s, and a request may be on its way then.
const (
	// idleBound is how long a connection may be idle before a request.
	idleBound = time.Second
	// closeBound is how long after the start of a request the end of its connection may be due to an earlier close.
	closeBound = 2 * time.Second
)

// stale reports whether a request needs a newer connection.
func stale(r *http.Request, info httptrace.GotConnInfo) bool {
	return info.WasIdle && info.IdleTime >= idleBound && !multiplexed(info.Conn) && repeatable(r)
}

func repeatable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// rewound is the request from its beginning; nil if its body is gone.
func rewound(r *http.Request) *http.Request {
	if !repeatable(r) {
		return nil
	}
	again := r.WithContext(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil
		}
		again.Body = body
	}
	return again
}

// multiplexed reports whether a connection speaks HTTP/2.
func multiplexed(conn net.Conn) bool {
	c, is := conn.(*tls.Conn)
	return is && c.ConnectionState().NegotiatedProtocol == "h2"
}

// plain is the connection below TLS. Its close does not wait.
func plain(conn net.Conn) net.Conn {
	if c, is := conn.(*tls.Conn); is {
		return c.NetConn()
	}
	return conn
}
