package workerhands

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/paths"
	"codex-proxy/proxy"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
	"codex-proxy/remotes/hands"
)

// asks are the requests of clients to a unit that is played.
type asks struct {
	*Endpoint
	limiter *limits.Limiter
}

func newAsks(t *testing.T, unit http.Handler) asks {
	t.Helper()
	sockets, err := os.MkdirTemp("", "hands")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(sockets) })
	l, err := net.Listen("unix", filepath.Join(sockets, filepath.Base(paths.HandsSocket("w"))))
	require.NoError(t, err)
	s := &http.Server{Handler: unit, ReadHeaderTimeout: enough}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return asks{&Endpoint{Client: &Client{Sockets: sockets}, Server: &proxy.Server{Settings: proxy.Settings{
		Accounts: []string{"w"}, Hands: func(string) bool { return true }}}}, limits.NewLimiter(limits.Settings{})}
}

func (a asks) take(key auth.Key) error {
	r := httptest.NewRequest(http.MethodGet, "/v1/hands/A/diff", http.NoBody)
	r.SetPathValue("session", "A")
	x := &proxy.Exchange{Key: key, Grant: a.limiter.Grant(key, limits.NewMemory(1<<20, time.Second))}
	return a.diff(httptest.NewRecorder(), r, x)
}

// The diffs that are taken at the same time are bounded, in all and of each key.
func TestDiffsAtTheSameTime(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	a := newAsks(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == changesPath {
			began <- struct{}{}
			<-release
		}
	}))
	var taking sync.WaitGroup
	refused := func(key string) {
		t.Helper()
		var full *turn.HandsError
		require.ErrorAs(t, a.take(auth.Key{Name: key}), &full)
		assert.Equal(t, codeDiffsFull, full.Code)
		assert.Equal(t, retryDiff, full.Retry)
	}
	for _, key := range []string{"ann", "bob", "cid", "dan"} {
		for range mostOfKey {
			taking.Go(func() { assert.NoError(t, a.take(auth.Key{Name: key})) })
			<-began
		}
		refused(key)
	}
	refused("eve")
	close(release)
	taking.Wait()
	go func() { <-began }()
	assert.NoError(t, a.take(auth.Key{Name: "ann"}))
	assert.Empty(t, a.diffs.ofKey)
}

// A diff is a request of its key.
func TestDiffsAreRequests(t *testing.T) {
	a := newAsks(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ann := auth.Key{Name: "ann", Limits: auth.Limits{RequestsPerMinute: 1}}
	require.NoError(t, a.take(ann))
	var refused *openai.Error
	require.ErrorAs(t, a.take(ann), &refused)
	assert.Equal(t, http.StatusTooManyRequests, refused.Status)
	assert.NoError(t, a.take(auth.Key{Name: "bob"}))
}

// Changes that are too large stay so: no library repeats the request.
func TestChangesThatAreTooLarge(t *testing.T) {
	a := newAsks(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == changesPath {
			refuse(w, ofClient(fmt.Errorf("%w: words for a remote", hands.ErrTooLarge), "x1"))
		}
	}))
	var refused *openai.Error
	require.ErrorAs(t, a.take(auth.Key{Name: "ann"}), &refused)
	assert.Equal(t, http.StatusRequestEntityTooLarge, refused.Status)
	assert.Equal(t, "changes_too_large", refused.Code)
	assert.Contains(t, refused.Message, "more than 5 MiB")
	assert.Contains(t, refused.Message, "codex-runner diff x1")
	assert.Zero(t, refused.RetryAfter)
	assert.Equal(t, "false", refused.Header.Get("X-Should-Retry"))
	assert.NotContains(t, ofClient(fmt.Errorf("it ends: %w", hands.ErrSilent), "x1").Error(), "remote")
}

// A session is on one worker: a client that looks for it on another one reads how to name it.
func TestASessionThatIsNotThere(t *testing.T) {
	a := newAsks(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == changesPath {
			refuse(w, &turn.HandsError{Code: noSession, Words: "there is none"})
		}
	}))
	var refused *openai.Error
	require.ErrorAs(t, a.take(auth.Key{Name: "ann"}), &refused)
	assert.Equal(t, http.StatusNotFound, refused.Status)
	assert.Contains(t, refused.Message, `"A" of this API key on the worker to which its name leads`)
	assert.Contains(t, refused.Message, "X-Codex-Account")
}
