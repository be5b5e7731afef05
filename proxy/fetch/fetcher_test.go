package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/internal/publicnet"
)

// bound is the longest that any wait of these tests may take.
const bound = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The first bytes identify the format.
var (
	png  = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	jpeg = []byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00")
	gif  = []byte("GIF89a\x01\x00\x01\x00")
	webp = []byte("RIFF\x24\x00\x00\x00WEBPVP8 ")
)

// loopback are limits under which tests can serve images.
func loopback() Limits {
	return Limits{Bytes: 4096, Time: bound, Allow: publicnet.Prefixes("127.0.0.1/32")}
}

// host serves handler on 127.0.0.1.
func host(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func serving(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

// refused fetches a URL that must be refused, and checks the reason.
func refused(t *testing.T, f *Fetcher, url, code, message string) {
	t.Helper()
	image, err := f.Fetch(t.Context(), url)
	var known *Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, code, known.Code, known.Message)
	assert.Contains(t, known.Message, message)
	assert.Empty(t, image)
}

func TestFetch(t *testing.T) {
	for kind, data := range map[string][]byte{
		"image/png": png, "image/jpeg": jpeg, "image/gif": gif, "image/webp": webp,
	} {
		data = append(data, bytes.Repeat([]byte{7}, 2000)...)
		url := host(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain") // it is ignored
			_, _ = w.Write(data)
		})
		image, err := New(loopback()).Fetch(t.Context(), url+"/cat")
		require.NoError(t, err, kind)
		assert.Equal(t, Image{Type: kind, Data: data}, image)
	}
}

// A request carries nothing of this host or of an earlier answer.
func TestFetchRevealsNothing(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var hops atomic.Int32
	url := host(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Cookie", "Referer", "Authorization", "Accept-Encoding"} {
			assert.Empty(t, r.Header.Get(name), name)
		}
		assert.Equal(t, "codex-proxy", r.UserAgent())
		if hops.Add(1) == 1 {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			http.Redirect(w, r, "/next", http.StatusFound)
			return
		}
		_, _ = w.Write(gif)
	})
	_, err := New(loopback()).Fetch(t.Context(), url+"/first?secret=1")
	require.NoError(t, err)
	assert.EqualValues(t, 2, hops.Load())
}

func TestAddressesAreRefused(t *testing.T) {
	url := host(t, func(http.ResponseWriter, *http.Request) { assert.Fail(t, "the host was reached") })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	f := New(Limits{Bytes: 4096, Time: bound})
	for _, name := range []string{
		"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "[::]", "127.0.0.2", "10.0.0.1",
		"169.254.169.254",
	} {
		refused(t, f, "http://"+name+":"+port+"/", CodeAddress, "not on the public network")
	}
}

func TestRedirects(t *testing.T) {
	var others atomic.Int32
	other := host(t, func(http.ResponseWriter, *http.Request) { others.Add(1) })
	otherPort := other[strings.LastIndex(other, ":"):]
	url := host(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/hop/%d", &n); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/hop/%d", n-1), http.StatusTemporaryRedirect)
			return
		}
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = w.Write(png)
	})
	f := New(loopback())
	_, err := f.Fetch(t.Context(), url+"/hop/3")
	require.NoError(t, err)
	refused(t, f, url+"/hop/4", CodeFailed, "redirects more than 3 times")
	for to, code := range map[string]string{
		"http://127.0.0.2" + otherPort:                CodeAddress,
		"http://169.254.169.254/latest/meta-data/":    CodeAddress,
		"file:///etc/passwd":                          CodeURL,
		"http://user:secret@127.0.0.1" + otherPort:    CodeURL,
		"http://127.0.0.1:25/":                        CodeURL,
		"http://[::ffff:127.0.0.2]" + otherPort + "/": CodeAddress,
	} {
		refused(t, f, url+"/?to="+to, code, "")
	}
	assert.Zero(t, others.Load())
}

// A name is resolved to an allowed address at first, and to this host the next time.
func TestRebinding(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	var reached atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		http.Redirect(w, r, "/again", http.StatusFound)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	names, asked := nameServer(t, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"))
	f := New(loopback())
	f.dialer.Resolver = names

	refused(t, f, fmt.Sprintf("http://rebind.test.:%d/", port), CodeAddress, "not on the public network")
	assert.EqualValues(t, 1, reached.Load(), "the second address was reached")
	assert.EqualValues(t, 2, asked.Load())
}

func TestSize(t *testing.T) {
	exact := append(bytes.Clone(png), make([]byte, 4096-len(png))...)
	f := New(loopback())
	image, err := f.Fetch(t.Context(), host(t, serving(exact)))
	require.NoError(t, err)
	assert.Len(t, image.Data, 4096)
	refused(t, f, host(t, serving(append(exact, 0))), CodeSize, "larger than 4096 bytes")

	endless := host(t, func(w http.ResponseWriter, _ *http.Request) {
		data := png
		for { // until the fetcher stops reading
			if _, err := w.Write(data); err != nil {
				return
			}
			data = make([]byte, 4096)
		}
	})
	refused(t, f, endless, CodeSize, "larger than 4096 bytes")
}

func TestContentThatIsNoImage(t *testing.T) {
	secret := "<html>secret</html>"
	claims := host(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte(secret))
	})
	f := New(loopback())
	_, err := f.Fetch(t.Context(), claims)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	refused(t, f, claims, CodeType, "PNG, JPEG, GIF or WebP")
	refused(t, f, host(t, serving([]byte("<svg xmlns='http://www.w3.org/2000/svg'/>"))), CodeType, "")
	refused(t, f, host(t, serving([]byte("BM\x00\x00"))), CodeType, "")
	refused(t, f, host(t, serving(nil)), CodeType, "")
	refused(t, f, host(t, http.NotFound), CodeFailed, "status 404")
	noContent := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	refused(t, f, host(t, noContent), CodeFailed, "status 204")
}

func TestHostsThatFail(t *testing.T) {
	f := New(loopback())
	cut := host(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(png)
	})
	refused(t, f, cut, CodeFailed, "breaks off")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	refused(t, f, "http://"+l.Addr().String(), CodeFailed, "cannot be reached")

	s := httptest.NewUnstartedServer(serving(png))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	defer s.Close()
	refused(t, f, s.URL, CodeFailed, "certificate is not valid")
}

func TestTime(t *testing.T) {
	limits := loopback()
	limits.Time = 100 * time.Millisecond
	f := New(limits)
	silent := host(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	refused(t, f, silent, CodeFailed, "in time")
	slow := host(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(png)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	refused(t, f, slow, CodeFailed, "in time")
}

// A client that disconnects ends its fetch.
func TestCancel(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	url := host(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := New(loopback()).Fetch(ctx, url)
	assert.ErrorIs(t, err, context.Canceled)
	await(t, left)
}

func TestParallel(t *testing.T) {
	asked, release := make(chan struct{}, 2*parallel), make(chan struct{})
	url := host(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		_, _ = w.Write(png)
	})
	f := New(loopback())
	done := make(chan error, parallel)
	for range parallel {
		go func() { _, err := f.Fetch(t.Context(), url); done <- err }()
	}
	for range parallel {
		await(t, asked)
	}
	f.limits.Time = time.Millisecond // no other goroutine reads it now
	refused(t, f, url, codeOverloaded, "too many images")
	assert.Empty(t, asked, "more fetches were begun than may run")
	close(release)
	for range parallel {
		assert.NoError(t, await(t, done))
	}
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(bound):
		require.Fail(t, "it never came")
		panic(errors.New("unreachable"))
	}
}
