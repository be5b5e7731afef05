// Package deliver brings the messages of Web Push to push services. Deliverer runs in codex-proxy-fetch.service, which
// can reach the network and no other part of the service; Client, in a process without a network, calls it over a unix
// socket:
//
//	POST /push {"endpoint":"https://…","authorization":"vapid …","urgency":"high","ttl":3600,"body":"…"}
//	204, or
//	400, 503 {"code":"gone","message":"…"}
//
// The endpoint is not trusted: a person with an API key names it. It must not reach an address that only this host can
// reach (package publicnet). The message is encrypted for the browser.
package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"codex-proxy/console/webpush"
	"codex-proxy/internal/publicnet"
)

const (
	// Bound is how long a push service may take.
	Bound = 10 * time.Second
	// stepBound bounds one connection attempt, and one TLS handshake.
	stepBound = 5 * time.Second
	maxHeader = 16 << 10
	// parallel is how many messages are on their way at a time.
	parallel = 8
)

// Message is one message for a push service (RFC 8030).
type Message struct {
	Endpoint      string `json:"endpoint"`
	Authorization string `json:"authorization"` // see webpush.Key
	Urgency       string `json:"urgency"`
	TTL           int    `json:"ttl"` // in seconds: how long the service keeps it for a browser that is away
	Body          []byte `json:"body"`
}

// Deliverer sends messages. Its methods are safe for concurrent use.
type Deliverer struct {
	slots chan struct{} // has one entry for each message
	http  http.Client
}

// New returns a deliverer that reaches public addresses, and the networks in allow.
func New(allow []netip.Prefix) *Deliverer {
	dialer := net.Dialer{Timeout: stepBound,
		// The address that the name has led to, right before the connection.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !publicnet.Permitted(to.Addr(), allow) {
				return &Error{Address, "the push service is not on the public network"}
			}
			return nil
		}}
	return &Deliverer{slots: make(chan struct{}, parallel), http: http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: stepBound, MaxResponseHeaderBytes: maxHeader,
			ForceAttemptHTTP2: true, DisableKeepAlives: true, DisableCompression: true,
		},
	}}
}

// Deliver sends one message. Its errors are of type *Error.
func (d *Deliverer) Deliver(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, Bound)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return &Error{Busy, "too many pushes are on their way"}
	}
	if _, err := webpush.Origin(m.Endpoint); err != nil {
		return &Error{Address, err.Error()}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Endpoint, bytes.NewReader(m.Body))
	if err != nil {
		return &Error{Address, "the endpoint of the push service is no URL"}
	}
	r.Header = http.Header{"Authorization": {m.Authorization}, "Content-Encoding": {"aes128gcm"},
		"Content-Type": {"application/octet-stream"}, "Ttl": {strconv.Itoa(m.TTL)}, "Urgency": {m.Urgency},
		"User-Agent": {"codex-proxy"}}
	res, err := d.http.Do(r)
	if err != nil {
		return unreached(err)
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxHeader) // the words of a push service are not used
	_ = res.Body.Close()
	return judge(res.StatusCode)
}

func judge(status int) error {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return &Error{Gone, "the browser takes no pushes of this subscription any more"}
	case status/100 == 2:
		return nil
	case status == http.StatusTooManyRequests, status/100 == 5:
		return &Error{Unavailable, fmt.Sprintf("the push service is not available: it answers %d", status)}
	}
	return &Error{Refused, fmt.Sprintf("the push service refuses: it answers %d", status)}
}

// unreached hides the errors of package net, addresses above all.
func unreached(err error) error {
	var known *Error
	var dns *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Unavailable, "the push service did not answer in time"}
	case errors.As(err, &dns):
		return &Error{Unavailable, "the push service has no address"}
	case errors.As(err, &certificate):
		return &Error{Refused, "the certificate of the push service is not valid"}
	}
	return &Error{Unavailable, "the push service cannot be reached, or breaks off"}
}
