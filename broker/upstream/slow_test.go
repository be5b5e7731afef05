package upstream

import (
	"bytes"
	"crypto/x509"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uplink is a connection that sends slowly. Its buffer is larger than the kernel's (4 MiB) so that no write blocks: time
// would stand still while a ping waits for the lock of another write.
type uplink struct {
	net.Conn
	buffer chan []byte
	ended  chan struct{}
	end    func()
}

const piece = 8 << 10

func newUplink(conn net.Conn, bytesPerSecond int) net.Conn {
	const largest = 8 << 20
	ended := make(chan struct{})
	u := &uplink{conn, make(chan []byte, largest/piece), ended, sync.OnceFunc(func() { close(ended) })}
	go func() {
		defer u.end()
		for b := range u.slowly(bytesPerSecond) {
			if _, err := u.Conn.Write(b); err != nil {
				return
			}
		}
	}()
	return u
}

// slowly yields the bytes of the buffer until the connection is closed.
func (u *uplink) slowly(bytesPerSecond int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		for {
			select {
			case b = <-u.buffer:
			case <-u.ended:
				return
			}
			select {
			case <-time.After(time.Duration(len(b)) * time.Second / time.Duration(bytesPerSecond)):
			case <-u.ended:
				return
			}
			if !yield(b) {
				return
			}
		}
	}
}

func (u *uplink) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), piece)
		select {
		case u.buffer <- bytes.Clone(rest[:n]):
		case <-u.ended:
			return 0, net.ErrClosed
		}
		rest = rest[n:]
	}
	return len(p), nil
}

func (u *uplink) SetWriteDeadline(time.Time) error { return nil }

func (u *uplink) Close() error {
	u.end()
	return u.Conn.Close()
}

// encrypted serves HTTP/2 by pipes until the end of the test.
func encrypted(t *testing.T, wrap func(net.Conn) net.Conn, handle http.HandlerFunc) *Transport {
	t.Helper()
	e := httptest.NewUnstartedServer(handle)
	require.NoError(t, e.Listener.Close())
	pool := x509.NewCertPool()
	transport := New(pool, 0)
	e.Listener = over(t, transport, wrap)
	e.EnableHTTP2 = true
	e.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 64 << 20, MaxReceiveBufferPerStream: 64 << 20}
	e.StartTLS()
	pool.AddCert(e.Certificate())
	t.Cleanup(func() { transport.Close(); e.CloseClientConnections(); e.Close() })
	return transport
}

// A body that leaves slowly keeps its connection alive, although the answer to a ping has to wait for it.
func TestSlowUplink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, rate = 4 << 20, 250 << 10
		began := time.Now()
		transport := encrypted(t, func(c net.Conn) net.Conn { return newUplink(c, rate) },
			func(w http.ResponseWriter, r *http.Request) {
				// It sends nothing meanwhile, not even that it reads.
				time.Sleep(size / rate * time.Second) //nolint:forbidigo // of the clock of synctest
				n, _ := io.Copy(io.Discard, r.Body)
				assert.EqualValues(t, size, n)
				_, _ = io.WriteString(w, "ok")
			})
		res, err := post(t, transport, "https://example.com", strings.Repeat("x", size))
		assert.Equal(t, "ok", finish(t, res, err))
		assert.Greater(t, time.Since(began), 15*time.Second)
	})
}

// An answer that codex does not read takes little memory.
func TestUnreadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		transport := encrypted(t, func(c net.Conn) net.Conn { return c }, func(w http.ResponseWriter, _ *http.Request) {
			for {
				n, err := w.Write(make([]byte, piece))
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		res, err := post(t, transport, "https://example.com", "hello")
		require.NoError(t, err)
		synctest.Wait()
		assert.Less(t, written.Load(), int64(2*unread))
		require.NoError(t, res.Body.Close())
	})
}
