package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/recent"
	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// watchRig is a stream on a control socket.
type watchRig struct {
	*stream
	*control.Client
	server *control.Server
	log    syncedBuffer
	depth  atomic.Int32 // of the queue in the report
	remote atomic.Int32 // programs that watch the remotes
}

type syncedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newWatchRig(t *testing.T) *watchRig {
	t.Helper()
	r := &watchRig{}
	changes := control.NewChanges()
	r.stream = &stream{
		report:   func() probes.Report { return probes.Report{Queue: probes.Queue{Depth: int(r.depth.Load())}} },
		accounts: func() control.Accounts { return control.Accounts{} },
		keys:     func() control.Keys { return control.Keys{Keys: []control.Key{{Name: "alice"}}} },
		recent: recent.New(recent.Settings{Look: func() recent.Gauges { return recent.Gauges{} },
			Restarts: func() uint64 { return 0 }, Changed: changes.Changed}),
		changes: changes, places: make(chan struct{}, maxWatchers), patience: patience,
		logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		watched: func() func() {
			r.remote.Add(1)
			return func() { r.remote.Add(-1) }
		},
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := control.Listen(socket)
	require.NoError(t, err)
	r.server = control.New(control.Settings{Changes: changes, Logger: r.logger,
		Routes: map[string]http.HandlerFunc{"GET /v1/watch": r.serve}})
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, r.server.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	r.Client = control.NewClient(socket)
	return r
}

// follow watches some parts until the test ends.
func (r *watchRig) follow(t *testing.T, parts ...string) <-chan Event {
	t.Helper()
	events, ended := make(chan Event), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- r.Follow(ctx, parts, func(raw []byte) error {
			var e Event
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			select {
			case events <- e:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return events
}

func TestWatchSendsWhatHasChanged(t *testing.T) {
	r := newWatchRig(t)
	r.recent.Add(recent.Request{At: time.Now(), ID: "one", Outcome: "ok"})
	events := r.follow(t, Parts...)
	first := <-events
	assert.True(t, first.Whole)
	assert.NotNil(t, first.Status)
	assert.NotNil(t, first.Accounts)
	assert.Equal(t, "alice", first.Keys.Keys[0].Name)
	assert.NotNil(t, first.Remotes)
	assert.NotNil(t, first.Dependencies)
	assert.Len(t, first.History.Points, 1)
	assert.Equal(t, "one", first.Requests[0].ID)
	r.recent.Add(recent.Request{At: time.Now(), ID: "two", Outcome: "ok"})
	second := <-events
	assert.False(t, second.Whole)
	assert.Nil(t, second.Status, "nothing of it has changed")
	require.Len(t, second.Requests, 1)
	assert.Equal(t, "two", second.Requests[0].ID)
	r.changes.Changed() // although nothing has changed
	r.depth.Store(3)
	r.changes.Changed()
	third := <-events
	require.NotNil(t, third.Status)
	assert.Equal(t, 3, third.Status.Queue.Depth)
	assert.Nil(t, third.Requests)
	assert.Equal(t, int32(1), r.remote.Load(), "the remotes are asked more often meanwhile")
}

func TestWatchOfParts(t *testing.T) {
	r := newWatchRig(t)
	e := <-r.follow(t, "keys")
	assert.Nil(t, e.Status)
	assert.NotNil(t, e.Keys)
	assert.Zero(t, r.remote.Load())
	err := r.Follow(t.Context(), []string{"keys", "secrets"}, func([]byte) error { return nil })
	assert.EqualError(t, err, `there is no part "secrets" to watch; there are status, accounts, keys, remotes, `+
		`dependencies, history, requests`)
}

// However often something changes, a watcher gets few lines, and the last state.
func TestWatchIsCoalesced(t *testing.T) {
	r := newWatchRig(t)
	events := r.follow(t, "status")
	<-events
	began := time.Now()
	for n := range int32(1000) {
		r.depth.Store(n + 1)
		r.changes.Changed()
	}
	lines := 0
	for depth := 0; depth < 1000; lines++ {
		depth = (<-events).Status.Queue.Depth
	}
	assert.LessOrEqual(t, lines, 2+int(time.Since(began)/linePause))
}

// A watcher to which nothing is sent costs few looks, too, and no report that it does not need.
func TestWatchLooksSeldom(t *testing.T) {
	r := newWatchRig(t)
	var looks atomic.Int32
	r.report = func() probes.Report { looks.Add(1); return probes.Report{} }
	<-r.follow(t, "keys")
	assert.Zero(t, looks.Load())
	began := time.Now()
	<-r.follow(t, "remotes")
	for range 300 {
		r.changes.Changed()
		<-time.After(100 * time.Microsecond) // a watcher without a pause looks meanwhile
	}
	assert.LessOrEqual(t, int(looks.Load()), 2+int(time.Since(began)/linePause))
}

// The first line has a list of requests even if there are none: a reader empties his own one.
func TestWatchWithoutRequests(t *testing.T) {
	r := newWatchRig(t)
	events := r.follow(t, "requests")
	first := <-events
	assert.True(t, first.Whole)
	assert.NotNil(t, first.Requests)
	r.changes.Changed() // although there is no request yet
	r.recent.Add(recent.Request{At: time.Now(), ID: "one", Outcome: "ok"})
	second := <-events
	assert.False(t, second.Whole)
	assert.Len(t, second.Requests, 1)
}

func TestWatchersAreBounded(t *testing.T) {
	r := newWatchRig(t)
	for range maxWatchers {
		<-r.follow(t, "keys")
	}
	err := r.Follow(t.Context(), []string{"keys"}, func([]byte) error { return nil })
	assert.EqualError(t, err, "16 programs watch the service, which is the bound; end one of them")
}

// A watcher that does not read is dropped, and the journal has the reason.
func TestSlowWatcherIsDropped(t *testing.T) {
	r := newWatchRig(t)
	r.patience = 50 * time.Millisecond
	big := []control.Key{{Name: strings.Repeat("x", 32<<20)}} // more than the buffers of a socket
	r.keys = func() control.Keys { return control.Keys{Keys: big} }
	dropped := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(dropped)
		r.serve(w, req)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /v1/watch?of=keys HTTP/1.1\r\nHost: control\r\n\r\n")
	require.NoError(t, err)
	<-dropped
	assert.Contains(t, r.log.String(), "watcher dropped: it does not read")
}
