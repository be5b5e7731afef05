package rpc

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 has it
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A peer that reads slowly reads: a long message may take longer than the write timeout.
func TestSlowPeerGetsALongMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go readSlowly(far)
		out := &writeBuffer{Conn: near, in: bufio.NewReader(near)}
		ws, _, err := websocket.Dial(t.Context(), "ws://codex/", &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return out, nil }}},
		})
		require.NoError(t, err)
		c := newConn(ws, out, Options{}.withDefaults())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(t.Context()) }()
		began := time.Now()
		require.NoError(t, c.writer.sendBulk(t.Context(), []byte(strings.Repeat("x", 8<<20))))
		require.NoError(t, c.writer.sendBulk(t.Context(), []byte("{}")), "the long one has gone")
		assert.Greater(t, time.Since(began), 2*c.opts.WriteTimeout)
		c.Close(nil)
		assert.ErrorIs(t, <-ran, ErrClosed)
	})
}

// readSlowly answers the upgrade, and reads 256 KiB a second.
func readSlowly(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	for err == nil {
		time.Sleep(time.Second) //nolint:forbidigo // of the clock of synctest
		_, err = io.CopyN(io.Discard, in, 256<<10)
	}
}
