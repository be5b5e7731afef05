package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// answerLimit bounds the bytes that one call of gRPC reads from its connection.
const answerLimit = 64 << 10

// GRPC is a server that speaks gRPC.
type GRPC struct {
	Network, Address string // "tcp" and host:port, or "unix" and a path
	TLS              bool
	Authorities      string // with TLS: the path of a PEM file; empty: the system's
}

// String names the server as KIND:TARGET does, with a space.
func (g GRPC) String() string {
	kind := "grpc "
	if g.TLS {
		kind = "grpcs "
	}
	return kind + g.Address
}

// call calls method ("/package.Service/Method") with a message, on a new connection:
// one kept open does not prove that the server still accepts. It speaks net/http's
// HTTP/2, since google.golang.org/grpc takes 1 MiB of memory in each process of the
// program.
func (g GRPC) call(ctx context.Context, method string, message []byte) (reply []byte, err error) {
	conn, err := dialer.DialContext(ctx, g.Network, g.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err = g.callOn(ctx, &answer{Conn: conn, plain: !g.TLS}, method, message)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%v accepts the connection and does not answer: %w", g, context.Cause(ctx))
	}
	return reply, err
}

func (g GRPC) callOn(ctx context.Context, conn *answer, method string, message []byte) (reply []byte, err error) {
	target := url.URL{Scheme: "http", Host: g.authority(), Path: method}
	if g.TLS {
		target.Scheme = "https"
	}
	client, err := g.transport(conn).NewClientConn(ctx, target.Scheme, target.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(frame(message)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := client.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("no gRPC answer: %w", conn.cause(err))
	}
	defer response.Body.Close()
	return replyOf(response)
}

// transport makes HTTP/2 of one connection.
func (g GRPC) transport(conn *answer) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(!g.TLS)
	protocols.SetHTTP2(g.TLS)
	return &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: answerLimit,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(g.Address)
			encrypted, err := secure(ctx, conn, host, g.Authorities, "h2")
			if err != nil {
				return nil, fmt.Errorf("%v: %w", g, err)
			}
			return encrypted, nil
		},
	}
}

// authority is the :authority of requests, which always has a port.
func (g GRPC) authority() string {
	if g.Network == "unix" {
		return "localhost:80"
	}
	return g.Address
}

// replyOf returns the message of an answer: gRPC over HTTP2, the document of the
// protocol.
func replyOf(response *http.Response) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("not gRPC: the status is %s", response.Status)
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/grpc") {
		return nil, fmt.Errorf("not gRPC: the content type is %q", kind)
	}
	body, err := io.ReadAll(response.Body) // the connection has a limit
	if err != nil {
		return nil, fmt.Errorf("cannot read the gRPC answer: %w", err)
	}
	if err := statusOf(response); err != nil {
		return nil, err
	}
	return unframe(body)
}

// statusOf returns the status of a call, a *Status unless it is OK. An error without a
// message is in the header ("trailers-only"), every other status in the trailer.
func statusOf(response *http.Response) error {
	fields := response.Trailer
	if response.Header.Get("Grpc-Status") != "" {
		fields = response.Header
	}
	code := fields.Get("Grpc-Status")
	switch code {
	case "":
		return errors.New("not gRPC: the answer has no grpc-status")
	case "0":
		return nil
	}
	words := fields.Get("Grpc-Message") // percent-encoded
	if plain, err := url.PathUnescape(words); err == nil {
		words = plain
	}
	return &Status{Code: code, Message: words}
}
