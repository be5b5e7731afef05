package fetch

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/ondemand"
	"codex-proxy/proxy/openai"
)

// pair is a fetcher behind a socket, and a client of it.
type pair struct {
	*Client
	socket   string
	listener *net.UnixListener
	log      bytes.Buffer
	stop     context.CancelFunc
	ended    chan error
}

func paired(t *testing.T, limits Limits, unused time.Duration) *pair {
	t.Helper()
	dir, err := os.MkdirTemp("", "fetch") // short: a socket's path has 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &pair{socket: filepath.Join(dir, "socket"), ended: make(chan error, 1)}
	p.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
	require.NoError(t, err)
	p.listener.SetUnlinkOnClose(false) // nor does systemd remove it
	logger := slog.New(slog.NewTextHandler(&p.log, nil))
	p.Client = NewClient(p.socket, limits, prometheus.NewRegistry(), logger)
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.ended <- NewServer(New(limits), unused, nil, logger).Run(ctx, p.listener) }()
	return p
}

// replaced is the socket of a new fetcher in place of the stopped one.
func (p *pair) replaced(t *testing.T) net.Listener {
	t.Helper()
	p.stop()
	require.NoError(t, await(t, p.ended))
	require.NoError(t, os.Remove(p.socket))
	l, err := net.Listen("unix", p.socket)
	require.NoError(t, err)
	return l
}

func (p *pair) outcome(code string) float64 {
	return testutil.ToFloat64(p.fetches.WithLabelValues(code))
}

// denied is an Inline that must fail, with the error that the client sees.
func (p *pair) denied(t *testing.T, url string) *openai.Error {
	t.Helper()
	_, err := p.Inline(t.Context(), url)
	var known *openai.Error
	require.ErrorAs(t, err, &known)
	assert.EqualValues(t, 1, p.outcome(known.Code), known.Code)
	return known
}

func TestInline(t *testing.T) {
	data := append(bytes.Clone(png), bytes.Repeat([]byte{1, 2, 3}, 1000)...)
	url := host(t, serving(data))
	p := paired(t, loopback(), bound)
	got, err := p.Inline(t.Context(), url)
	require.NoError(t, err)
	assert.Equal(t, "data:image/png;base64,"+base64.StdEncoding.EncodeToString(data), got)
	assert.EqualValues(t, 1, p.outcome("ok"))
	p.stop()
	assert.NoError(t, await(t, p.ended))
}

func TestInlineRefuses(t *testing.T) {
	page := host(t, serving([]byte("<html>")))
	large := host(t, serving(append(bytes.Clone(png), make([]byte, 5000)...)))
	p := paired(t, loopback(), bound)
	for code, url := range map[string]string{
		CodeURL: "file:///etc/passwd", CodeAddress: "http://10.0.0.1/", CodeFailed: host(t, http.NotFound),
		CodeSize: large, CodeType: page,
	} {
		e := p.denied(t, url)
		assert.Equal(t, code, e.Code)
		assert.Equal(t, http.StatusBadRequest, e.Status)
		assert.Equal(t, openai.TypeInvalidRequest, e.Type)
	}
	p.stop()
	assert.NoError(t, await(t, p.ended))
	assert.Empty(t, p.log.String(), "no URL of a client is logged")
}

// Another fetcher follows one that is killed during a request.
func TestTheFetcherIsKilled(t *testing.T) {
	url := host(t, serving(gif))
	p := paired(t, loopback(), bound)
	l := p.replaced(t)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		conn, err := l.Accept()
		if err == nil {
			conn.Close() // with the request
		}
		p.ended <- NewServer(New(loopback()), bound, nil, slog.New(slog.DiscardHandler)).Run(ctx, l)
	}()
	got, err := p.Inline(t.Context(), url)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(got, "data:image/gif;base64,"))
	stop()
	assert.NoError(t, await(t, p.ended))
}

func TestNoFetcher(t *testing.T) {
	p := paired(t, loopback(), bound)
	p.stop()
	require.NoError(t, await(t, p.ended))
	e := p.denied(t, "http://127.0.0.1/?token=planted")
	assert.Equal(t, http.StatusServiceUnavailable, e.Status)
	assert.Equal(t, codeUnavailable, e.Code)
	assert.Positive(t, e.RetryAfter)
	assert.Contains(t, p.log.String(), "images cannot be fetched")
	assert.NotContains(t, p.log.String(), "planted")
}

// The reason why a fetcher with a bad configuration refuses is for the operator alone.
func TestTheFetcherRefuses(t *testing.T) {
	p := paired(t, loopback(), bound)
	l := p.replaced(t)
	refusing := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(ondemand.ReasonHeader, "line 3 is bad")
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go refusing.Serve(l) //nolint:errcheck // it ends with the test
	defer refusing.Close()
	e := p.denied(t, "http://127.0.0.1/")
	assert.Equal(t, codeUnavailable, e.Code)
	assert.NotContains(t, e.Message, "line 3")
	assert.Contains(t, p.log.String(), "the image fetcher refuses: line 3 is bad")
}

// badRequest answers with status 400 and the text.
func badRequest(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusBadRequest) }
}

// The client checks the answers of the fetcher, which servers of strangers can attack.
func TestALyingFetcher(t *testing.T) {
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"page":    {serving([]byte("<html>")), CodeType},
		"large":   {serving(append(bytes.Clone(png), make([]byte, 5000)...)), CodeSize},
		"code":    {badRequest(`{"code":"new"}`), codeUnavailable},
		"no JSON": {badRequest("no"), codeUnavailable},
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"code":"overloaded"}`, http.StatusServiceUnavailable)
		}, codeOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			p := paired(t, loopback(), bound)
			p.stop()
			require.NoError(t, await(t, p.ended))
			require.NoError(t, os.Remove(p.socket))
			l, err := net.Listen("unix", p.socket)
			require.NoError(t, err)
			liar := http.Server{Handler: tc.serve}
			go func() { p.ended <- liar.Serve(l) }()
			assert.Equal(t, tc.want, p.denied(t, "http://127.0.0.1/").Code)
			liar.Close()
			assert.ErrorIs(t, await(t, p.ended), http.ErrServerClosed)
		})
	}
}

// A client that disconnects also ends the fetch in the fetcher.
func TestInlineCancel(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	url := host(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(left)
	})
	p := paired(t, loopback(), bound)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := p.Inline(ctx, url)
	assert.ErrorIs(t, err, context.Canceled)
	await(t, left)
	p.stop()
	assert.NoError(t, await(t, p.ended))
}

// An idle fetcher ends; a busy one does not, and finishes its fetches.
func TestIdle(t *testing.T) {
	assert.NoError(t, await(t, paired(t, loopback(), time.Millisecond).ended))

	asked, release := make(chan struct{}), make(chan struct{})
	url := host(t, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		_, _ = w.Write(webp)
	})
	p := paired(t, loopback(), bound)
	done := make(chan error, 1)
	go func() { _, err := p.Inline(t.Context(), url); done <- err }()
	await(t, asked)
	p.stop()
	close(release)
	assert.NoError(t, await(t, done))
	assert.NoError(t, await(t, p.ended))
}
