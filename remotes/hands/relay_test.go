package hands

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/pulse"
)

// A long message on a slow line to the exec-server is no silence: pings go between its pieces.
func TestALongMessageOnASlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := make(chan int64, 1)
		conn := overSlowLine(t, func(ctx context.Context, ws *websocket.Conn) {
			for {
				_, message, err := ws.Reader(ctx)
				if err != nil {
					return
				}
				n, _ := io.Copy(io.Discard, message)
				received <- n
			}
		})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		reading := conn.CloseRead(ctx) // reads the pongs
		var alive pulse.Pulse
		pinged := make(chan struct{})
		go func() {
			defer close(pinged)
			ping(ctx, &alive, conn, func() { t.Error("the connection was taken for silent") })
		}()
		<-time.After(pingEvery - 2*time.Second)
		d := direction{to: conn, pulse: &alive}
		require.NoError(t, d.write(reading, websocket.MessageText, make([]byte, observed), true, nil))
		assert.EqualValues(t, observed, <-received)
		end()
		<-pinged
		_ = conn.CloseNow()
	})
}

// slow reads 100 KiB in a second.
type slow struct{ net.Conn }

func (s slow) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p[:min(len(p), 4<<10)])
	<-time.After(time.Duration(n) * time.Second / (100 << 10))
	return n, err
}

// single is a listener with one connection.
type single chan net.Conn

func (s single) Accept() (net.Conn, error) {
	if conn, is := <-s; is {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (single) Close() error   { return nil }
func (single) Addr() net.Addr { return &net.UnixAddr{Name: "slow", Net: "unix"} }

func overSlowLine(t *testing.T, serve func(context.Context, *websocket.Conn)) *websocket.Conn {
	t.Helper()
	near, far := net.Pipe()
	l := make(single, 1)
	l <- slow{far}
	close(l)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // of a test
			ws, err := websocket.Accept(w, r, nil)
			if assert.NoError(t, err) {
				ws.SetReadLimit(-1)
				serve(r.Context(), ws)
				_ = ws.CloseNow()
			}
		}))
	}()
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
	conn, _, err := websocket.Dial(t.Context(), "ws://slow/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, CompressionMode: websocket.CompressionDisabled})
	require.NoError(t, err)
	return conn
}
