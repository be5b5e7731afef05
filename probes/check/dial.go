package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
)

// dialer has no keep-alive: the connection of a probe ends with it.
var dialer = net.Dialer{KeepAlive: -1}

// TCP passes when a connection to addr (host:port) is accepted.
func TCP(addr string) Func { return accepts("tcp", addr) }

// Unix passes when a connection to the unix socket at path is accepted.
func Unix(path string) Func { return accepts("unix", path) }

func accepts(network, addr string) Func {
	return func(ctx context.Context) (string, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return "", err
		}
		return network + " " + addr, conn.Close()
	}
}

// authoritiesLimit is far above the bundle of a distribution, which has 220 KiB.
const authoritiesLimit = 4 << 20

// secure begins TLS with the server at addr on conn, and closes conn on an error. The
// server's certificate must be of host. authorities is the path of a PEM file, which
// each call reads anew; empty: the authorities of the system.
func secure(ctx context.Context, conn net.Conn, host, authorities string, protocols ...string) (net.Conn, error) {
	roots, err := pool(authorities)
	if err != nil {
		conn.Close()
		return nil, err
	}
	encrypted := tls.Client(conn, &tls.Config{ServerName: host, RootCAs: roots, NextProtos: protocols})
	if err := encrypted.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return encrypted, nil
}

func pool(authorities string) (*x509.CertPool, error) {
	if authorities == "" {
		return nil, nil // crypto/tls takes the authorities of the system
	}
	file, err := os.Open(authorities)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, authoritiesLimit+1))
	roots := x509.NewCertPool()
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
	case len(text) > authoritiesLimit:
		return nil, fmt.Errorf("certificate authorities: %s has more than %d bytes", authorities, authoritiesLimit)
	case !roots.AppendCertsFromPEM(text):
		return nil, fmt.Errorf("certificate authorities: %s has no certificate in PEM", authorities)
	}
	return roots, nil
}

var (
	errClosed = errors.New("the server closes the connection; if it wants TLS, check it with grpcs")
	errHTTP1  = errors.New("the server speaks HTTP/1, not gRPC")
	errTLS    = errors.New("the server speaks TLS: check it with grpcs")
	errLarge  = fmt.Errorf("the server sends more than %d bytes", answerLimit)
)

// answer is a connection that reads at most answerLimit bytes. One goroutine reads.
type answer struct {
	net.Conn
	plain  bool // HTTP/2 without TLS: another protocol is named
	read   int
	failed atomic.Pointer[error] // why a read failed
}

// Read implements net.Conn.
func (a *answer) Read(p []byte) (n int, err error) {
	defer func() {
		if err != nil {
			a.failed.CompareAndSwap(nil, &err)
		}
	}()
	if a.read >= answerLimit {
		return 0, errLarge
	}
	n, err = a.Conn.Read(p[:min(len(p), answerLimit-a.read)])
	if a.plain && a.read == 0 && n > 0 {
		if err := foreign(p[:n]); err != nil {
			return 0, err
		}
	}
	a.read += n
	return n, err
}

// cause is why a call on the connection failed with err: HTTP/2 reports the failure of
// a read in several ways.
func (a *answer) cause(err error) error {
	read := a.failed.Load()
	switch {
	case read == nil:
		return err
	case errors.Is(*read, io.EOF): // as a Go server with TLS does
		return errClosed
	default:
		return *read
	}
}

// Write implements net.Conn. If the server has closed the connection, Read returns the error, after the last bytes of
// the server.
func (a *answer) Write(p []byte) (int, error) {
	_, _ = a.Conn.Write(p)
	return len(p), nil
}

// foreign judges the first bytes of a server. A frame of HTTP/2 begins with its
// length in three bytes (RFC 9113, 4.1), and the first one is short.
func foreign(first []byte) error {
	switch first[0] {
	case 'H': // HTTP/1.1 400 Bad Request
		return errHTTP1
	case 0x15, 0x16: // an alert or a handshake (RFC 8446, 5.1)
		return errTLS
	default:
		return nil
	}
}
