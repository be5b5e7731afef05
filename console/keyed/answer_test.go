package keyed

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A button of a notification needs no session, and its own token; other pages cannot press it.
func TestAnswer(t *testing.T) {
	r := newRig(t)
	const body = `{"token":"right","decision":"accept"}`
	status, text := r.send(t, "POST", "/api/answer", "", body)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, text, "there are no notifications")
	var got []string
	r.orders.Answer = func(_ context.Context, token, decision string) error {
		got = append(got, token+" "+decision)
		if token != "right" {
			return errors.New("this was answered before")
		}
		return nil
	}
	status, text = r.send(t, "POST", "/api/answer", "", body)
	assert.Equal(t, http.StatusOK, status, text)
	status, text = r.send(t, "POST", "/api/answer", "", `{"token":"wrong","decision":"accept"}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, text, "answered before")
	assert.Equal(t, []string{"right accept", "wrong accept"}, got)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		method, body string
		change       func(*http.Request)
		want         int
	}{
		"another page":       {"POST", body, header("Origin", "https://evil.example"), http.StatusForbidden},
		"another site":       {"POST", body, header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"a form":             {"POST", body, header("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		"a link":             {"GET", "", header("Accept", "text/html"), http.StatusMethodNotAllowed},
		"rebinding":          {"POST", body, func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"no object":          {"POST", "right", header("Accept", "*/*"), http.StatusBadRequest},
		"another member":     {"POST", `{"token":"right","decision":"accept","key":"x"}`, header("Accept", "*/*"), http.StatusBadRequest},
		"a long token":       {"POST", `{"token":"` + strings.Repeat("x", 300) + `"}`, header("Accept", "*/*"), http.StatusBadRequest},
		"as an order of one": {"POST", body, func(r *http.Request) { r.URL.Path = "/api/do" }, http.StatusUnauthorized},
	} {
		status, _ := r.send(t, c.method, "/api/answer", "", c.body, c.change)
		assert.Equal(t, c.want, status, name)
	}
	assert.Len(t, got, 2, "none of them was carried out")
}

// Notices have a socket of their own. One that is worked on keeps the process.
func TestNotices(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		require.NoError(t, err)
		return l
	}
	notices := listen("notices")
	kept := heldOpen(t, notices)
	got, release := make(chan string, maxNotices+2), make(chan struct{})
	s := &Server{Orders: &Orders{Logger: slog.New(slog.DiscardHandler)}, Unused: time.Hour,
		Notice: func(_ context.Context, conn net.Conn) {
			text, err := io.ReadAll(conn)
			assert.NoError(t, err)
			got <- string(text)
			<-release
		}}
	s.SetSockets(map[string][]net.Listener{NoticesSocket: {notices}})
	const more = maxNotices + 2
	for range more {
		conn, err := net.Dial("unix", filepath.Join(dir, "notices"))
		require.NoError(t, err)
		_, err = conn.Write([]byte("a notice"))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- s.Run(ctx, listen("orders")) }()
	for range maxNotices {
		assert.Equal(t, "a notice", <-got)
	}
	select {
	case <-got:
		assert.Fail(t, "more at the same time than the bound")
	case <-time.After(20 * time.Millisecond):
	}
	release <- struct{}{}
	assert.Equal(t, "a notice", <-got)
	cancel()
	select {
	case err := <-ended:
		assert.Fail(t, "it has ended before its notices", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-ended)
	require.Empty(t, got, "one more was not accepted")
	conn, err := kept.Accept()
	require.NoError(t, err, "it waits for the next process")
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "a notice", string(text))
	require.NoError(t, conn.Close())
}

// heldOpen is the same listener, as systemd holds it.
func heldOpen(t *testing.T, l net.Listener) net.Listener {
	t.Helper()
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	file, err := l.(*net.UnixListener).File()
	require.NoError(t, err)
	kept, err := net.FileListener(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { _ = kept.Close() })
	return kept
}
