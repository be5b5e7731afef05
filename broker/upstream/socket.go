package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/direct"
)

const (
	// halfConnections is how many of the connections may be WebSockets if a setting bounds all.
	halfConnections = 2
	// usualSockets bounds the WebSockets without that setting. Users report that OpenAI refuses more than
	// about 50.
	usualSockets = 32
	// A socket is silent while the endpoint computes. Probes of the kernel find out whether the endpoint is there, and
	// keep the connection in the tables of firewalls.
	probeAfter = 15 * time.Second
	probeEvery = 5 * time.Second
	probes     = 3
	// acknowledged bounds the wait for the acknowledgement of sent bytes.
	acknowledged = 30 * time.Second
)

// Sockets is how many WebSockets there may be at a time.
func (t *Transport) Sockets() int { return t.mostSockets }

// upgrades is the transport for the requests by which connections become WebSockets: each makes a connection.
func (t *Transport) upgrading(proxied *http.Transport) *http.Transport {
	dialer := dialerWith(func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(acknowledged.Milliseconds()))
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) // a ping follows a request
	})
	dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probes}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy: proxied.Proxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			began := time.Now()
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			t.counts.connected(time.Since(began))
			return t.countedIn(&t.sockets, direct.Conn(conn)), nil
		},
		Protocols:             protocols,
		TLSClientConfig:       &tls.Config{RootCAs: proxied.TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   handshakeBound,
		ResponseHeaderTimeout: connectBound,
		DisableKeepAlives:     true,
		DisableCompression:    true,
	}
}

// Upgrade makes a WebSocket to the endpoint. The response has the headers of the endpoint's answer; nil: there is no
// answer.
func (t *Transport) Upgrade(ctx context.Context, address string, h http.Header) (
	*websocket.Conn, *http.Response, error,
) {
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	client := &http.Client{Transport: t.upgrades,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	conn, res, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, HTTPHeader: h})
	var of *url.Error
	if errors.As(err, &of) { // its address may have a secret in its query
		err = of.Err
	}
	return conn, res, err
}

// Answered records the first byte of an answer over a WebSocket, and whether only a part of the request went up.
func (t *Transport) Answered(took time.Duration, continued bool) {
	t.counts.answered(took)
	if continued {
		t.counts.continued.Add(1)
	}
}

// Failed names the reason of a failure of a WebSocket, and records it.
func (t *Transport) Failed(err error) error {
	err = named(err, true)
	t.counts.failed(err)
	return err
}

// Cut names the reason of an answer that has ended too early. The endpoint was reachable.
func (*Transport) Cut(err error) error {
	if errors.Is(err, io.EOF) { // it would end the answer as a whole one
		err = io.ErrUnexpectedEOF
	}
	return named(err, true)
}

// countedIn is a connection that counts in n until it is closed.
func (t *Transport) countedIn(n *int, conn net.Conn) net.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
	return &countedConn{Conn: conn, counts: &t.counts, closed: sync.OnceFunc(func() {
		t.mu.Lock()
		*n--
		t.mu.Unlock()
		if t.Changed != nil {
			t.Changed()
		}
	})}
}
