package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"codex-proxy/internal/publicnet"
)

const (
	// stepTimeout bounds one connection attempt, one TLS handshake and one wait
	// for a header, so that a host which is down does not use up the whole time.
	stepTimeout  = 5 * time.Second
	maxRedirects = 3
	maxHeader    = 64 << 10 // bytes
	// parallel is how many images are fetched at a time. It bounds memory, with
	// Limits.Bytes.
	parallel = 8
)

// Limits bound one image.
type Limits struct {
	Bytes int64         // of the image
	Time  time.Duration // from the request to the last byte, with the wait for a slot
	// Allow are networks that may be reached although they are not public.
	Allow []netip.Prefix
}

// Image is one fetched image.
type Image struct {
	Type string // image/png, image/jpeg, image/gif or image/webp
	Data []byte
}

// Fetcher gets images. Its methods are safe for concurrent use.
type Fetcher struct {
	limits Limits
	slots  chan struct{} // holds one entry for each fetch
	dialer net.Dialer
	http   http.Client
}

// New returns a fetcher with these limits.
func New(limits Limits) *Fetcher {
	f := &Fetcher{limits: limits, slots: make(chan struct{}, parallel)}
	f.dialer = net.Dialer{Timeout: stepTimeout, ControlContext: f.control}
	f.http = http.Client{CheckRedirect: redirect, Transport: &http.Transport{
		DialContext:            f.dialer.DialContext,
		TLSHandshakeTimeout:    stepTimeout,
		ResponseHeaderTimeout:  stepTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true, // a kept connection would go to an old address
		DisableCompression:     true, // images are compressed; and a bomb stays small
	}}
	return f
}

// control gets the address that a name was resolved to, right before the connection
// is made: the name may lead elsewhere at another time.
func (f *Fetcher) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !publicnet.Permitted(to.Addr(), f.limits.Allow) {
		return wrong(CodeAddress, "the host of the URL is not on the public network")
	}
	return nil
}

func redirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return wrong(CodeFailed, "the host redirects more than %d times", maxRedirects)
	}
	r.Header.Del("Referer") // net/http has added it
	return checkURL(r.URL)
}

// Fetch gets the image at a URL. Its errors are of type *Error, unless ctx ended.
func (f *Fetcher) Fetch(ctx context.Context, url string) (Image, error) {
	limited, cancel := context.WithTimeout(ctx, f.limits.Time)
	defer cancel()
	image, err := f.inTurn(limited, url)
	if err != nil && ctx.Err() != nil {
		return Image{}, ctx.Err()
	}
	return image, explain(err)
}

// inTurn waits for a slot.
func (f *Fetcher) inTurn(ctx context.Context, url string) (Image, error) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
		return f.get(ctx, url)
	case <-ctx.Done():
		return Image{}, wrong(codeOverloaded, "too many images are being fetched")
	}
}

func (f *Fetcher) get(ctx context.Context, text string) (Image, error) {
	u, err := parseURL(text)
	if err != nil {
		return Image{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Image{}, wrong(CodeURL, "this is not a URL")
	}
	r.Header.Set("User-Agent", "codex-proxy")
	r.Header.Set("Accept", "image/png, image/jpeg, image/gif, image/webp")
	res, err := f.http.Do(r)
	if err != nil {
		return Image{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return Image{}, wrong(CodeFailed, "the host answers with status %d", res.StatusCode)
	}
	return f.read(res)
}

// read stops at the first byte beyond the limit. Of other content than an image it
// reads no more than it needs to recognise it.
func (f *Fetcher) read(res *http.Response) (Image, error) {
	if res.ContentLength > f.limits.Bytes {
		return Image{}, tooLarge(f.limits)
	}
	var data bytes.Buffer
	if _, err := io.CopyN(&data, res.Body, min(sniffLength, f.limits.Bytes)); err != nil && !errors.Is(err, io.EOF) {
		return Image{}, err
	}
	kind := kindOf(data.Bytes())
	if kind == "" {
		return Image{}, notAnImage()
	}
	data.Grow(int(max(0, res.ContentLength)))
	if _, err := io.CopyN(&data, res.Body, f.limits.Bytes-int64(data.Len())+1); err != nil && !errors.Is(err, io.EOF) {
		return Image{}, err
	}
	if int64(data.Len()) > f.limits.Bytes {
		return Image{}, tooLarge(f.limits)
	}
	return Image{Type: kind, Data: data.Bytes()}, nil
}

func tooLarge(l Limits) error {
	return wrong(CodeSize, "the image is larger than %d bytes", l.Bytes)
}

// explain hides the errors of package net from clients, addresses above all.
func explain(err error) error {
	var known *Error
	var dns *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &timeout) && timeout.Timeout():
		return wrong(CodeFailed, "the host did not deliver the image in time")
	case errors.As(err, &dns):
		return wrong(CodeFailed, "the host of the URL has no address")
	case errors.As(err, &certificate):
		return wrong(CodeFailed, "the host's certificate is not valid")
	}
	return wrong(CodeFailed, "the host cannot be reached, or breaks off")
}
