package modelproxy

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All connections of a worker are codex's, also those whose request has not come yet: none is closed for another.
func TestBurst(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer provider.Close()
	l, err := ForWorker(Endpoint{BaseURL: provider.URL}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	conns := make([]net.Conn, 2*strangerLimit)
	for i := range conns {
		conns[i], err = net.Dial("tcp", url[len("http://"):])
		require.NoError(t, err)
		defer conns[i].Close()
	}
	assert.Equal(t, "hello", textOf(t, ask(t, url+"/responses", "", ""))) // the others are accepted
	for _, conn := range conns {
		_, err := io.WriteString(conn, "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		assert.Equal(t, "hello", textOf(t, res))
	}
}

// A connection beyond the bound waits until another is closed, or the listener.
func TestLimit(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := bounded(tcp, 1)
	for range 2 {
		client, err := net.Dial("tcp", tcp.Addr().String())
		require.NoError(t, err)
		defer client.Close()
	}
	first, err := l.Accept()
	require.NoError(t, err)
	second := make(chan net.Conn)
	go func() { conn, _ := l.Accept(); second <- conn }()
	select {
	case <-second:
		t.Error("a connection beyond the bound")
	default:
	}
	require.NoError(t, first.Close())
	_ = first.Close() // counts once
	conn := <-second
	require.NotNil(t, conn)
	assert.Len(t, l.slots, 1)
	go func() { conn, _ := l.Accept(); second <- conn }()
	require.NoError(t, l.Close())
	assert.Nil(t, <-second)
	require.NoError(t, conn.Close())
}
