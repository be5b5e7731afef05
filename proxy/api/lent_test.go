package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// unread asks for a path and reads nothing.
func (r *rig) unread(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	require.NoError(t, err)
	return conn
}

// Clients that do not read hold little, which is counted; those that do get all of it
// meanwhile.
func TestUnreadAnswersHoldLittle(t *testing.T) {
	t.Parallel()
	const clients, size = 50, 8 << 20 // which is more than the kernel keeps for a client
	r := newRig(t, &appservertest.Server{Handler: appservertest.Reply("x")}, keeping(t, 1<<30), func(o *options) {
		o.BodyLimit, o.IdleTimeout = 16<<20, bound
	})
	id := r.whole(t, `{"model":"demo","input":[{"role":"user","content":"`+strings.Repeat("y",
		300<<10)+`"}],"instructions":"`+strings.Repeat("x", size)+`"}`).ID
	path := "/v1/responses/" + id
	want := text(t, r.do(t, http.MethodGet, path, ""))
	require.Greater(t, len(want), size)
	require.Contains(t, text(t, r.do(t, http.MethodGet, path+"/input_items", "")), strings.Repeat("y", 300<<10))
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })

	var conns []net.Conn
	for range clients {
		conns = append(conns, r.unread(t, path))
	}
	for _, conn := range conns {
		head := make([]byte, len("HTTP/1.1 200"))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
		_, err := io.ReadFull(conn, head)
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1 200", string(head))
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() <= clients*(320<<10) })
	assert.NotEqual(t, "0", metric(t, r, "codex_request_memory_bytes"))
	assert.Equal(t, want, text(t, r.do(t, http.MethodGet, path, "")))
	all, err := io.ReadAll(conns[0])
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(all), want), "a client that was slow gets it whole, too")
	for _, conn := range conns {
		conn.Close()
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// What is larger than a request may hold is read in parts; where there is no memory at
// all, nothing is sent.
func TestAnswersWithLittleMemory(t *testing.T) {
	worker, store := &appservertest.Server{Handler: appservertest.Reply("x")}, keeping(t, 1<<30)
	r := newRig(t, worker, store)
	id := r.whole(t, asked("",
		`[{"role":"user","content":"`+strings.Repeat("y", 1000<<10)+`"},{"role":"user","content":"z"}]`)).ID
	path := "/v1/responses/" + id + "/input_items"
	want := text(t, r.do(t, http.MethodGet, path, ""))
	small := newRig(t, nil, store, func(o *options) { o.RequestMemory, o.QueueTimeout = 3<<20, 30*time.Millisecond })
	assert.Equal(t, want, text(t, small.do(t, http.MethodGet, path, "")))
	await(t, tick(t), func() bool { return small.Memory.Bytes() == 0 })
	defer fill(t, small.Memory).release()
	resp := small.do(t, http.MethodGet, path, "")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "overloaded", failure(t, text(t, resp)).Error.Code)
}
