package workers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/workers"
)

// asked makes a fake tell of each call by which it is examined, and answer it or not.
func asked(answers bool) (calls chan struct{}, faults map[string]appservertest.Fault) {
	calls = make(chan struct{}, 100)
	return calls, map[string]appservertest.Fault{
		"thread/loaded/list": func(context.Context, *appservertest.Peer, json.RawMessage) bool {
			calls <- struct{}{}
			return !answers
		},
	}
}

func hasty(s *workers.Settings) { s.HandshakeTimeout = 500 * time.Millisecond }

// always is more calls than there are before a test gives up.
const always = 1000

// suspectUntil suspects the worker again and again, as turn after turn without a
// message would, until n calls have reached it or its connection has ended.
func suspectUntil(t *testing.T, lease *workers.Lease, calls <-chan struct{}, n int) {
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
			require.FailNow(t, "it is not asked")
		}
	}
}

// A codex that answers nothing on our connection, although it takes new ones, is found
// out by the second call, and is dialled again only as another invocation.
func TestWedgedWorker(t *testing.T) {
	calls, faults := asked(false)
	s := fake(t, &appservertest.Server{Faults: faults})
	r := newRig(t, hasty, named{"a", s.path})
	r.run(t)
	r.heard(running("a", "1", 0))
	r.awaitReady(t)
	lease := r.admittedTo(t, r.admit(t, workers.Ask{Model: "demo"}))
	defer lease.Release()
	shim := s.awaitAnnotations(t)
	defer shim.Close()
	s.awaitDial(t)

	suspectUntil(t, lease, calls, 1)
	assert.True(t, aReady(r.pool.Snapshot()), "once is no proof")
	suspectUntil(t, lease, calls, always) // a message that came in between, such as the account, begins anew
	<-lease.Conn.Done()
	snap := r.await(t, "wedged", func(s probes.Snapshot) bool { return !aReady(s) })
	assert.Equal(t, probes.HandshakeLost, snap.Workers[0].Reason)
	_, details := probes.ReadinessOf(snap)
	const words = "codex has answered nothing on the proxy's connection, twice for 500ms"
	assert.Equal(t, "worker a: handshake_lost: "+words+"; its watchdog restarts it", details)
	require.NoError(t, shim.SetReadDeadline(time.Now().Add(bound)))
	lines := bufio.NewScanner(shim)
	for range 2 { // the first one says what the connection is for
		require.True(t, lines.Scan())
	}
	assert.Equal(t, workers.Wedged+" "+words, lines.Text())
	r.awaitLog(t, "worker is wedged: its watchdog restarts it", 1)

	r.heard(running("a", "2", 1))
	r.awaitReady(t)
	assert.Empty(t, r.pool.Snapshot().Workers[0].Fault)
	assert.Len(t, s.accepted, 1, "the wedged one was left alone")
}

// A model that is silent is no fault of codex: it answers.
func TestASilentModelIsNoWedge(t *testing.T) {
	calls, faults := asked(true)
	s := fake(t, &appservertest.Server{Faults: faults})
	r := newRig(t, hasty, named{"a", s.path})
	r.run(t)
	r.heard(running("a", "1", 0))
	r.awaitReady(t)
	lease := r.admittedTo(t, r.admit(t, workers.Ask{Model: "demo"}))
	defer lease.Release()
	suspectUntil(t, lease, calls, 5)
	assert.NoError(t, lease.Conn.Err())
	assert.True(t, aReady(r.pool.Snapshot()))
}

// Where no shim can have it restarted, another connection is what is left to try.
func TestWedgedWithoutAShim(t *testing.T) {
	calls, faults := asked(false)
	s := fake(t, &appservertest.Server{Faults: faults})
	r := newRig(t, hasty, named{"a", s.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	lease := r.admittedTo(t, r.admit(t, workers.Ask{Model: "demo"}))
	defer lease.Release()
	suspectUntil(t, lease, calls, always)
	<-lease.Conn.Done()
	r.awaitLoss(t)
	r.awaitReady(t)
}
