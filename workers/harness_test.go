package workers_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/annotations"
	"codex-proxy/workers/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is the longest that any wait of these tests takes.
const bound = time.Minute

// socket is a fake worker's listener that reports each connection and can cut the
// latest one, as the death of the worker would. Connections for annotations do not
// reach the fake, as with the shim in front of codex.
type socket struct {
	net.Listener
	path     string
	accepted chan time.Time
	aside    chan net.Conn

	mu   sync.Mutex
	conn net.Conn
}

func (s *socket) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := peeked{c, bufio.NewReader(c)}
		if first, _ := p.in.Peek(1); string(first) == annotations.Greeting[:1] {
			s.aside <- p
			continue
		}
		s.mu.Lock()
		s.conn = c
		s.mu.Unlock()
		s.accepted <- time.Now()
		return p, nil
	}
}

// peeked is a connection whose first byte was read ahead.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

func (s *socket) cut(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.conn.Close())
}

// awaitDial waits for the next connection and returns when it came.
func (s *socket) awaitDial(t *testing.T) time.Time {
	t.Helper()
	select {
	case at := <-s.accepted:
		return at
	case <-time.After(bound):
		require.Fail(t, "the worker was not dialled")
		return time.Time{}
	}
}

func (s *socket) awaitAnnotations(t *testing.T) net.Conn {
	t.Helper()
	select {
	case conn := <-s.aside:
		return conn
	case <-time.After(bound):
		require.Fail(t, "no connection for annotations")
		return nil
	}
}

// idle fails the test if there was a connection since: connections are accepted in
// order.
func (s *socket) idle(t *testing.T) {
	t.Helper()
	for len(s.accepted) > 0 {
		<-s.accepted
	}
	conn, err := net.Dial("unix", s.path)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET"))
	require.NoError(t, err)
	s.awaitDial(t)
	assert.Empty(t, s.aside)
}

// fake serves a fake worker until the test ends.
func fake(t *testing.T, srv *appservertest.Server) *socket {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // not t.TempDir: a socket's path has at most 107 bytes
	require.NoError(t, err)
	s := &socket{path: filepath.Join(dir, "s"), accepted: make(chan time.Time, 1000), aside: make(chan net.Conn, 1000)}
	s.Listener, err = net.Listen("unix", s.path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, s) }()
	t.Cleanup(func() {
		srv.Close()
		cancel()
		require.NoError(t, <-served)
		for len(s.aside) > 0 {
			require.NoError(t, (<-s.aside).Close())
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	return s
}

// rig is a pool under test.
type rig struct {
	pool    *workers.Pool
	changed chan struct{}
	log     *logBuffer

	losing sync.Mutex
	ready  map[string]bool
	then   []units.State        // what systemd reports at the next loss
	lost   chan []probes.Worker // the workers right after each loss of a ready one
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

type named struct {
	name   string // NAME, or NAME@HOST for an account that the codex of another worker serves
	socket string
}

// newRig makes a pool that does not run yet.
func newRig(t *testing.T, change func(*workers.Settings), ws ...named) *rig {
	t.Helper()
	return newRigWithQueue(t, dispatch.Queue{Limit: 64, Timeout: bound, ReadyTimeout: bound}, change, ws...)
}

func newRigWithQueue(t *testing.T, queue dispatch.Queue, change func(*workers.Settings), ws ...named) *rig {
	t.Helper()
	r := &rig{changed: make(chan struct{}, 1), log: &logBuffer{}, ready: map[string]bool{},
		lost: make(chan []probes.Worker, 1000)}
	onChange := func() {
		r.watchLosses()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	settings := workers.Settings{
		MaxInflight: 4, HandshakeTimeout: 10 * time.Second, ResetAfter: time.Hour, OnChange: onChange,
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&settings)
	}
	var all []*workers.Worker
	for _, w := range ws {
		name, host, _ := strings.Cut(w.name, "@")
		all = append(all, workers.Served(name, cmp.Or(host, name), w.socket, settings))
	}
	r.pool = workers.NewPool(all, queue, settings.OnChange)
	return r
}

// run runs the pool until the test ends.
func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.pool.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
}

// await waits until the snapshot satisfies ok.
func (r *rig) await(t *testing.T, what string, ok func(probes.Snapshot) bool) probes.Snapshot {
	t.Helper()
	limit := time.After(bound)
	for {
		if s := r.pool.Snapshot(); ok(s) {
			return s
		}
		select {
		case <-r.changed:
		case <-limit:
			require.FailNow(t, "never saw "+what, "%+v\n%s", r.pool.Snapshot(), r.log)
		}
	}
}

func (r *rig) awaitReady(t *testing.T) probes.Snapshot {
	t.Helper()
	return r.await(t, "all workers ready", func(s probes.Snapshot) bool {
		for _, w := range s.Workers {
			if !w.Ready {
				return false
			}
		}
		return true
	})
}

// lose makes the pool lose a ready worker by cause, and returns the workers as they were right
// then: a pool that knows of no end of the unit soon connects again. With reports, systemd
// reports these before it could.
func (r *rig) lose(t *testing.T, cause func(), reports ...units.State) []probes.Worker {
	t.Helper()
	r.losing.Lock()
	r.then = reports
	for len(r.lost) > 0 {
		<-r.lost
	}
	r.losing.Unlock()
	cause()
	select {
	case all := <-r.lost:
		return all
	case <-time.After(bound):
		require.FailNow(t, "never saw a worker not ready", "%+v\n%s", r.pool.Snapshot(), r.log)
		return nil
	}
}

// watchLosses is called after each change, by the goroutine that made it.
func (r *rig) watchLosses() {
	r.losing.Lock()
	all, lost := r.pool.Published(), false
	for _, w := range all {
		lost = lost || r.ready[w.Name] && !w.Ready
		r.ready[w.Name] = w.Ready
	}
	then := r.then
	if lost {
		r.then = nil
	}
	r.losing.Unlock()
	if lost {
		if len(then) > 0 {
			r.report(then...)
		}
		r.lost <- all
	}
}

// settled returns when every loop has seen all earlier reports.
func (r *rig) settled(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	for range 2 { // the first answer may come from a loop that has not seen the reports yet
		require.NoError(t, r.pool.Alive(ctx))
	}
}

// report passes on unit states from systemd, over a bus that is up.
func (r *rig) report(states ...units.State) {
	for _, u := range states {
		r.pool.UnitChanged(u)
	}
	r.pool.BusChanged(true, nil)
}

func unit(name, active, sub, invocation string, restarts uint32) units.State {
	return units.State{
		Unit: units.Worker(name), LoadState: "loaded", ActiveState: active, SubState: sub, Result: "success",
		InvocationID: invocation, NRestarts: restarts,
	}
}

func running(name, invocation string, restarts uint32) units.State {
	return unit(name, "active", "running", invocation, restarts)
}

// noBus makes connections alone decide.
func (r *rig) noBus() { r.pool.BusChanged(false, units.ErrNoBus) }

func aReady(s probes.Snapshot) bool { return s.Workers[0].Ready }
