package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/codex/appservertest"
)

// counted is a worker on which a turn ends with each token, and how many turns there
// were at the same time.
type counted struct {
	ends      chan struct{}
	now, most atomic.Int64
}

func (c *counted) handle(ctx context.Context, turn *appservertest.Turn) error {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); {
		most = c.most.Load()
	}
	return gated(c.ends)(ctx, turn)
}

// client has a connection of its own, which it keeps as long as it may.
type client struct {
	t    *testing.T
	s    *service
	key  string
	http http.Client
}

func (s *service) client(t *testing.T, key string) *client {
	c := &client{t: t, s: s, key: key, http: http.Client{Transport: &http.Transport{}}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// begin sends a chat and returns when its answer has begun.
func (c *client) begin(extra string) *http.Response {
	body := `{"model":"demo","messages":[{"role":"user","content":"hi"}]` + extra + `}`
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.s.url+"/v1/chat/completions", strings.NewReader(body))
	if !assert.NoError(c.t, err) {
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.key)
	res, err := c.http.Do(req)
	assert.NoError(c.t, err)
	return res
}

// ask is begin to the end of the answer.
func (c *client) ask() int {
	res := c.begin("")
	if res == nil {
		return 0
	}
	_, err := io.Copy(io.Discard, res.Body)
	assert.NoError(c.t, err)
	assert.NoError(c.t, res.Body.Close())
	return res.StatusCode
}

// touch opens the client's connection.
func (c *client) touch() {
	res, err := c.http.Get(c.s.url + "/livez")
	require.NoError(c.t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	require.NoError(c.t, res.Body.Close())
	assert.False(c.t, res.Close)
}

const stream = `,"stream":true`

func held(t *testing.T, settings ...string) (*service, *counted) {
	t.Helper()
	w := &counted{ends: make(chan struct{})}
	s := process(t, settings...)
	s.worker(t, &appservertest.Server{Handler: w.handle})
	s.note(t, "READY=1")
	return s, w
}

func limitedKey(t *testing.T, limits ...string) (key, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "api-keys")
	got := try(t, append([]string{"keys", "add", "alice", "--file", file, "--socket", file + ".none"}, limits...)...)
	require.Zero(t, got.status, got.stderr)
	return strings.TrimSpace(got.stdout), file
}

// What any process has in flight counts against the limit of an API key in each of
// them, before and after it, and no longer when it has ended.
func TestConcurrentAcrossReloads(t *testing.T) {
	key, file := limitedKey(t, "--concurrent", "1")
	s, w := held(t, "api_keys="+file)
	var first *http.Response
	var kept []*client
	for i := range 4 {
		c := s.client(t, key)
		c.touch()
		kept = append(kept, c)
		s.reload(t)
		if i == 0 { // in the second process
			first = s.client(t, key).begin(stream)
			require.Equal(t, http.StatusOK, first.StatusCode)
		}
		assert.Equal(t, http.StatusTooManyRequests, s.client(t, key).ask(), "on a new connection")
	}
	for i, c := range kept {
		assert.Equal(t, http.StatusTooManyRequests, c.ask(), "of process %d", i)
	}
	close(w.ends)
	_, err := io.Copy(io.Discard, first.Body)
	require.NoError(t, err)
	last := s.client(t, key)
	require.Eventually(t, func() bool { return last.ask() == http.StatusOK }, bound, time.Millisecond)
	assert.EqualValues(t, 1, w.most.Load())
}

// A place of a worker is free when the turn of a process before has ended, and who
// waits for it in another process gets it.
func TestMaxInflightAcrossReloads(t *testing.T) {
	s, w := held(t, "max_inflight=2")
	old := s.client(t, "")
	old.touch()
	streams := []*http.Response{s.client(t, "").begin(stream)}
	s.reload(t)
	streams = append(streams, s.client(t, "").begin(stream)) // waits for nothing
	s.reload(t)
	answers := make(chan int, 2)
	for _, c := range []*client{old, s.client(t, "")} { // of the first process, and of the third
		go func() { answers <- c.ask() }()
	}
	s.untilWaiting(t, 1)
	assert.Empty(t, answers)
	for range 4 {
		w.ends <- struct{}{}
	}
	for range 2 {
		assert.Equal(t, http.StatusOK, received(t, answers))
	}
	for _, res := range streams {
		_, err := io.Copy(io.Discard, res.Body)
		assert.NoError(t, err)
	}
	assert.EqualValues(t, 2, w.most.Load())
}

// untilWaiting waits for requests to be in the queue of the process that serves.
func (s *service) untilWaiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		res, err := http.Get(s.url + "/readyz")
		require.NoError(t, err)
		defer res.Body.Close()
		var r struct{ Queue struct{ Depth int } }
		require.NoError(t, json.NewDecoder(res.Body).Decode(&r))
		return r.Queue.Depth >= n
	}, bound, 10*time.Millisecond)
}

// A process that ends gives all of its places back.
func TestAProcessThatDiesGivesItsPlacesBack(t *testing.T) {
	key, file := limitedKey(t, "--concurrent", "1")
	s, w := held(t, "api_keys="+file, "max_inflight=1")
	first := s.client(t, key).begin(stream)
	require.Equal(t, http.StatusOK, first.StatusCode)
	s.reload(t)
	assert.Equal(t, http.StatusTooManyRequests, s.client(t, key).ask())
	require.NoError(t, unix.Kill(s.pid, unix.SIGKILL))
	_, err := io.Copy(io.Discard, first.Body)
	require.Error(t, err)
	close(w.ends)
	last := s.client(t, key)
	require.Eventually(t, func() bool { return last.ask() == http.StatusOK }, bound, time.Millisecond)
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// However requests come to two processes at the same time, there are never more turns
// than may be.
func TestLimitsHoldDuringReloads(t *testing.T) {
	s, w := held(t, "max_inflight=2")
	done := make(chan struct{})
	var clients, ends sync.WaitGroup
	ends.Go(func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for !over(done) {
			w.ends <- struct{}{}
			<-pace.C
		}
		close(w.ends)
	})
	for range 8 {
		c := s.client(t, "")
		clients.Go(func() {
			for !over(done) {
				assert.Equal(t, http.StatusOK, c.ask())
			}
		})
	}
	for range 4 {
		s.reload(t)
	}
	close(done)
	clients.Wait()
	ends.Wait()
	assert.LessOrEqual(t, w.most.Load(), int64(2))
	assert.NotZero(t, w.most.Load())
}
