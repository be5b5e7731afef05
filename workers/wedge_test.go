package workers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/annotations"
	"codex-proxy/workers/dispatch"
)

// examined makes a fake report each call that examines it, and answer it or not.
func examined(answers bool) (calls chan struct{}, faults map[string]appservertest.Fault) {
	calls = make(chan struct{}, 100)
	return calls, map[string]appservertest.Fault{
		"thread/loaded/list": func(context.Context, *appservertest.Peer, json.RawMessage) bool {
			calls <- struct{}{}
			return !answers
		},
	}
}

func hasty(s *workers.Settings) { s.HandshakeTimeout = 500 * time.Millisecond }

// always is more calls than a test waits for.
const always = 1000

// suspectUntil suspects the worker again and again, as turn after turn without a
// message would, until n calls have reached it or its connection has ended.
func suspectUntil(t *testing.T, lease *dispatch.Lease, calls <-chan struct{}, n int) {
	t.Helper()
	limit := time.After(bound)
	for n > 0 {
		lease.Suspect()
		select {
		case <-calls:
			n--
		case <-lease.Conn.Done():
			return
		case <-time.After(time.Millisecond):
		case <-limit:
			require.FailNow(t, "it is not examined")
		}
	}
}

// The second call finds a codex that answers nothing on the connection of the proxy,
// although it accepts new ones. It is dialled again only as another invocation.
func TestWedgedWorker(t *testing.T) {
	calls, faults := examined(false)
	s := fake(t, &appservertest.Server{Faults: faults})
	r := newRig(t, hasty, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	defer lease.Release()
	shim := s.awaitAnnotations(t)
	defer shim.Close()

	suspectUntil(t, lease, calls, 1)
	assert.True(t, aReady(r.pool.Snapshot()), "one silence is no proof")
	suspectUntil(t, lease, calls, always) // a message in between, such as the account, starts the count again
	<-lease.Conn.Done()
	snap := r.await(t, "wedged", func(s probes.Snapshot) bool { return !aReady(s) })
	assert.Equal(t, probes.HandshakeLost, snap.Workers[0].Reason)
	_, details := probes.ReadinessOf(snap)
	const words = "codex has answered nothing on the proxy's connection, twice for 500ms"
	assert.Equal(t, "worker a: handshake_lost: "+words+"; its watchdog restarts it", details)
	require.NoError(t, shim.SetReadDeadline(time.Now().Add(bound)))
	lines := bufio.NewScanner(shim)
	for range 2 { // the first line names the purpose of the connection
		require.True(t, lines.Scan())
	}
	assert.Equal(t, annotations.Wedged+" "+words, lines.Text())
	r.awaitLog(t, "worker is wedged: its watchdog restarts it", 1)

	r.report(running("a", "2", 1))
	r.awaitReady(t)
	assert.Empty(t, r.pool.Snapshot().Workers[0].Fault)
	slow := strings.Count(r.log.String(), `level=WARN msg="worker connection ended"`) // a handshake on a busy machine
	assert.Len(t, s.accepted, 2+slow, "the wedged invocation was not dialled again")
}

// A silent model is no fault of codex, which answers.
func TestASilentModelIsNoWedge(t *testing.T) {
	calls, faults := examined(true)
	s := fake(t, &appservertest.Server{Faults: faults})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	defer lease.Release()
	suspectUntil(t, lease, calls, 5)
	assert.NoError(t, lease.Conn.Err())
	assert.True(t, aReady(r.pool.Snapshot()))
}

// Without a shim that can have the worker restarted, the proxy tries another connection.
func TestWedgedWithoutAShim(t *testing.T) {
	calls, faults := examined(false)
	s := fake(t, &appservertest.Server{Faults: faults})
	r := newRig(t, hasty, named{"a", s.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	defer lease.Release()
	r.lose(t, func() { suspectUntil(t, lease, calls, always) })
	<-lease.Conn.Done()
	r.awaitReady(t)
}
