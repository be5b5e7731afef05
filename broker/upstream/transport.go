// Package upstream sends requests to one model endpoint, over connections that it keeps, and names the reason if the
// endpoint cannot be reached.
package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/direct"
)

// The bounds of a connection. An endpoint that does not answer is reported within 10 s: a client waits that long.
const (
	dialBound      = 5 * time.Second
	handshakeBound = 4 * time.Second
	connectBound   = 9 * time.Second // of all, with the answer of an HTTP proxy
	// silence is how long an HTTP/2 connection may send nothing before a ping finds out whether it is alive. All
	// requests in flight end with the connection: the bound of the ping bears a short loss of the network, and the time
	// that a big body needs to leave the buffers below before the ping.
	silence   = 5 * time.Second
	pingBound = 30 * time.Second
	// unsent is how many bytes of a body the kernel accepts before it can send them.
	unsent = 128 << 10
	// unread is how many bytes of an answer the endpoint sends before codex reads them.
	unread = 256 << 10
	// usualConnections bounds those of an endpoint that speaks HTTP/1.1, without a setting: each request in flight has
	// one.
	usualConnections = 256
	// mostDials bounds the connections that are made at a time to an endpoint that speaks HTTP/2.
	mostDials = 2
)

// Transport is an http.RoundTripper for one endpoint. It sends all requests over one HTTP/2 connection if the endpoint
// speaks that, and keeps the connection as long as the endpoint does. An idle HTTP/1.1 connection serves no request
// after idleBound. The transport sends a request again only if the endpoint has read nothing of it, or has closed a
// kept HTTP/1.1 connection at the time of the request.
type Transport struct {
	// Changed is called after the end of a connection; nil: nothing is.
	Changed func()

	http, upgrades *http.Transport
	mostSockets    int
	connect        func(ctx context.Context, network, address string) (net.Conn, error)

	counts counts
	// shared: the endpoint speaks HTTP/2, so that one connection serves many requests. dials bounds the connections
	// that are being made then: each request without one would make its own.
	shared atomic.Bool
	dials  chan struct{}

	mu      sync.Mutex
	open    int      // connections for requests by HTTP
	sockets int      // connections for WebSockets
	first   *attempt // to connect while there is no connection; nil: none
}

// attempt is a request that makes the first connection. Others wait for it: they can use the same connection.
type attempt struct {
	ended chan struct{} // closed after err is set
	err   error
}

// New makes a transport with so many connections at most; 0: as many as are usual. trust has the certificate
// authorities; nil: the system's.
func New(trust *x509.CertPool, connections int) *Transport {
	dialer := dialerWith(func(fd int) { // without it the ping waits longer
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
	})
	sockets, others := usualSockets, usualConnections
	if connections > 0 {
		sockets = connections / halfConnections
		others = connections - sockets
	}
	t := &Transport{connect: dialer.DialContext, dials: make(chan struct{}, mostDials), mostSockets: sockets}
	t.http = &http.Transport{
		Proxy:               discreet(proxyFromEnvironment()),
		DialContext:         t.dial,
		TLSClientConfig:     &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: handshakeBound,
		ForceAttemptHTTP2:   true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingBound,
			MaxReceiveBufferPerStream: unread},
		DisableCompression:  true, // the bytes go on as they are
		MaxIdleConnsPerHost: others,
		MaxConnsPerHost:     others,
	}
	t.upgrades = t.upgrading(t.http)
	return t
}

// dialerWith is a dialer that sets options of its sockets.
func dialerWith(set func(fd int)) *net.Dialer {
	return &net.Dialer{Timeout: dialBound, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { set(int(fd)) })
	}}
}

// Close closes the idle connections.
func (t *Transport) Close() { t.http.CloseIdleConnections() }

// errSlow is the cause of a request that gets no connection in time.
var errSlow = errors.New("no connection within " + connectBound.String())

// RoundTrip implements http.RoundTripper. An error without a connection is an *Error.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.roundTrip(r)
	t.counts.failed(err)
	return res, err
}

func (t *Transport) roundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	lead, err := t.await(r.Context())
	if err != nil {
		return nil, err
	}
	res, again, err := t.send(r, lead, connectBound-time.Since(began))
	if again == nil {
		return res, err
	}
	t.http.CloseIdleConnections() // the endpoint may be closing others, too
	res, _, err = t.send(again, nil, connectBound)
	return res, err
}

// send sends a request once. It makes a connection within patience. again is the request to send if its connection has
// ended too early.
func (t *Transport) send(r *http.Request, lead *attempt, patience time.Duration) (
	res *http.Response, again *http.Request, err error,
) {
	ctx, cancel := context.WithCancelCause(r.Context()) // ends with its parent: the body is read under it
	way := &way{patience: patience, give: func() { cancel(errSlow) }}
	ctx = context.WithValue(ctx, wayKey{}, way)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { way.begin() },
		GotConn: func(info httptrace.GotConnInfo) {
			if stale(r, info) {
				t.http.CloseIdleConnections() // they were idle for longer
				_ = plain(info.Conn).Close()  // net/http takes another one, as nothing was sent
				return
			}
			t.shared.Store(multiplexed(info.Conn))
			way.take(info)
			t.end(lead, nil)
		},
		TLSHandshakeStart: way.shake,
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			way.made()
			if took := way.shaken(); err == nil {
				t.counts.tls(took)
			}
		},
		GotFirstResponseByte: func() {
			way.answered.Store(true)
			t.counts.answered(time.Since(way.since))
		},
	})
	res, err = t.http.RoundTrip(r.WithContext(ctx))
	connected := way.end()
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSlow) {
			err = cause
		}
		if connected && way.closing() && context.Cause(ctx) == nil {
			again = rewound(r)
		}
		err = named(err, connected)
		cancel(err)
	}
	t.end(lead, err)
	return res, again, err
}

// dial makes a connection for a request.
func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	way, has := ctx.Value(wayKey{}).(*way)
	if has {
		way.dial()
		if err := t.queue(ctx, way); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	conn, err := t.connect(ctx, network, address)
	if err != nil {
		if has {
			way.made()
		}
		return nil, err
	}
	t.counts.connected(time.Since(began))
	return t.countedIn(&t.open, direct.Conn(conn)), nil
}

// errNotNeeded ends a dial after its request has got another connection.
var errNotNeeded = errors.New("the request has a connection")

// queue waits for the turn of a request to make a connection. Until made of its way, others wait for theirs.
func (t *Transport) queue(ctx context.Context, way *way) error {
	if !t.shared.Load() {
		return nil
	}
	select {
	case t.dials <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-way.connection():
		return errNotNeeded
	}
	if !way.makes(func() { <-t.dials }) {
		<-t.dials
		return errNotNeeded
	}
	return nil
}

// await waits while another request makes the first connection, and returns its error if that fails. It returns an
// attempt if the caller has to make the first connection: clients of others may have gone away before.
func (t *Transport) await(ctx context.Context) (*attempt, error) {
	var late <-chan time.Time // from the first wait on
	for {
		t.mu.Lock()
		a := t.first
		if a == nil {
			var lead *attempt
			if t.open == 0 {
				lead = &attempt{ended: make(chan struct{})}
				t.first = lead
			}
			t.mu.Unlock()
			return lead, nil
		}
		t.mu.Unlock()
		if late == nil {
			late = time.After(connectBound)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late:
			return nil, named(errSlow, false)
		case <-a.ended:
		}
		var failed *Error
		if errors.As(a.err, &failed) && failed.Unsent {
			return nil, a.err
		}
	}
}

// end ends an attempt, once.
func (t *Transport) end(a *attempt, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a != nil && t.first == a {
		a.err, t.first = err, nil
		close(a.ended)
	}
}
