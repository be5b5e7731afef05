package upstream

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endpoint is a server with TLS and HTTP/2 that counts its connections.
type endpoint struct {
	*httptest.Server
	connections atomic.Int64
}

func newEndpoint(t *testing.T, handle http.HandlerFunc) (*endpoint, *Transport) {
	t.Helper()
	e := &endpoint{Server: httptest.NewUnstartedServer(handle)}
	e.EnableHTTP2 = true
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.connections.Add(1)
		}
	}
	e.StartTLS()
	t.Cleanup(e.Close)
	pool := x509.NewCertPool()
	pool.AddCert(e.Certificate())
	transport := New(pool, 0)
	t.Cleanup(transport.Close)
	return e, transport
}

func (t *Transport) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

func post(t *testing.T, transport *Transport, url, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	return transport.RoundTrip(r)
}

// Requests at once, the first ones of all, go out in one connection, and so do later ones.
func TestOneConnection(t *testing.T) {
	e, transport := newEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, 2, r.ProtoMajor)
		_, _ = io.Copy(w, r.Body)
	})
	for range 2 {
		var asking sync.WaitGroup
		for range 16 {
			asking.Go(func() {
				res, err := post(t, transport, e.URL, "hello")
				if !assert.NoError(t, err) {
					return
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				assert.NoError(t, err)
				assert.Equal(t, "hello", string(text))
			})
		}
		asking.Wait()
	}
	assert.EqualValues(t, 1, e.connections.Load())
}

// A connection that the endpoint has closed is replaced.
func TestClosedConnection(t *testing.T) {
	e, transport := newEndpoint(t, func(http.ResponseWriter, *http.Request) {})
	for n := range int64(3) {
		res, err := post(t, transport, e.URL, "hello")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, n+1, e.connections.Load())
		e.CloseClientConnections()
		for transport.count() > 0 { // it has noticed
			runtime.Gosched()
		}
	}
}

// A request that the endpoint has begun to read is sent once.
func TestSentOnce(t *testing.T) {
	var requests atomic.Int64
	e, transport := newEndpoint(t, func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	})
	_, err := post(t, transport, e.URL, "hello")
	require.Error(t, err)
	var failed *Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, Cut, failed.Reason)
	assert.False(t, failed.Unsent)
	assert.EqualValues(t, 1, requests.Load())
}

// A request whose client goes away ends at the endpoint.
func TestCancelled(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	e, transport := newEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, http.NoBody)
	require.NoError(t, err)
	_, err = transport.RoundTrip(r)
	require.ErrorIs(t, err, context.Canceled)
	<-ended
}

// Each fault of the way to the endpoint has a name.
func TestReasons(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	strange := httptest.NewTLSServer(http.NotFoundHandler())
	defer strange.Close()
	hasty := listen(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_ = conn.Close()
	})
	for url, want := range map[string]Reason{
		"http://" + closed.Addr().String(): Refused,
		"https://name.invalid":             Unresolvable,
		strange.URL:                        Certificate,
		strings.Replace(plain.URL, "http://", "https://", 1): TLS,
		"http://" + hasty: Cut,
	} {
		transport := New(x509.NewCertPool(), 0)
		_, err := post(t, transport, url, "hello")
		var failed *Error
		require.ErrorAs(t, err, &failed, url)
		assert.Equal(t, want, failed.Reason, err.Error())
		assert.Equal(t, want != Cut, failed.Unsent)
		transport.Close()
	}
	misspelt := New(nil, 0)
	misspelt.http.Proxy = discreet(func(*http.Request) (*url.URL, error) { return nil, errors.New("http://user:p%ss@proxy") })
	_, err = post(t, misspelt, "http://endpoint", "hello")
	assert.Equal(t, ViaProxy, ReasonOf(err))
	require.NotContains(t, err.Error(), "p%ss")
	assert.Equal(t, NoAnswer, reasonOf(errSlow))
	assert.Equal(t, ViaProxy, reasonOf(&net.OpError{Op: "proxyconnect", Err: errors.New("x")}))
}

// listen serves connections of TCP, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// Requests that wait for the first connection share its fault: they do not each wait for as long.
func TestSharedFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := New(nil, 0)
		lead, err := transport.await(t.Context())
		require.NoError(t, err)
		require.NotNil(t, lead)
		failed := make(chan error, 1)
		go func() { _, err := transport.await(t.Context()); failed <- err }()
		synctest.Wait()
		fault := &Error{Reason: NoAnswer, Unsent: true, Err: errSlow}
		transport.end(lead, fault)
		assert.Equal(t, fault, <-failed)
	})
}
