package upstream

import (
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// socks plays a proxy that leads each connection to one address, and tells the names that it was asked for (RFC 1928).
func socks(t *testing.T, address string, asked chan<- string) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		defer conn.Close()
		hello := make([]byte, 2)
		if _, err := io.ReadFull(conn, hello); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, conn, int64(hello[1]))
		_, _ = conn.Write([]byte{5, 0})
		head := make([]byte, 5)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		name := make([]byte, int(head[4])+2)
		if _, err := io.ReadFull(conn, name); err != nil {
			return
		}
		asked <- fmt.Sprintf("%s:%d", name[:head[4]], binary.BigEndian.Uint16(name[head[4]:]))
		far, err := net.Dial("tcp", address)
		if err != nil {
			_, _ = conn.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		defer far.Close()
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		go func() { _, _ = io.Copy(far, conn) }()
		_, _ = io.Copy(conn, far)
	})
}

// ALL_PROXY leads where HTTPS_PROXY does not, and NO_PROXY leads past both.
func TestAllProxy(t *testing.T) {
	e, _ := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	asked := make(chan string, 4)
	t.Setenv("ALL_PROXY", "socks5h://"+socks(t, e.Listener.Addr().String(), asked))
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}
	pool := x509.NewCertPool()
	pool.AddCert(e.Certificate())
	transport := New(pool, 0)
	defer transport.Close()
	res, err := post(t, transport, "https://example.com/v1", "x") // the certificate has that name
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, "example.com:443", <-asked)

	t.Setenv("NO_PROXY", "example.com")
	u, err := proxyFromEnvironment()(res.Request)
	require.NoError(t, err)
	assert.Nil(t, u)
	t.Setenv("NO_PROXY", "")
	t.Setenv("HTTPS_PROXY", "http://proxy.test:3128")
	u, err = proxyFromEnvironment()(res.Request)
	require.NoError(t, err)
	assert.Equal(t, "http://proxy.test:3128", u.String())
}

// The reason of a SOCKS proxy that cannot connect is the proxy.
func TestProxyThatFails(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, proxy := range []string{"socks5://" + socks(t, closed.Addr().String(), make(chan string, 4)), "socks5h://" + closed.Addr().String(),
		"http://" + closed.Addr().String()} {
		t.Setenv("HTTPS_PROXY", proxy)
		transport := New(nil, 0)
		_, err := post(t, transport, "https://example.com/v1", "x")
		assert.Equal(t, ViaProxy, ReasonOf(err), "%s: %v", proxy, err)
		transport.Close()
	}
}
