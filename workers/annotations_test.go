package workers_test

import (
	"bufio"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers/dispatch"
)

// annotate has a turn of the request run in the thread.
func annotate(lease *dispatch.Lease, thread, request string) {
	var turn appserver.TurnRequest
	lease.Bind(&turn, request)
	defer turn.Ended()
	turn.Starting(thread)
}

func TestAnnotations(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	for _, invocation := range []string{"1", "2"} { // once for each worker process
		r.report(running("a", invocation, 0))
		r.awaitReady(t)
		lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
		annotate(lease, "t1", "r1")
		annotate(lease, "t2", "r2")
		conn := s.awaitAnnotations(t)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
		lines := bufio.NewScanner(conn)
		for _, want := range []string{"codex-proxy annotations", "t1 r1", "t2 r2"} {
			require.True(t, lines.Scan())
			assert.Equal(t, want, lines.Text())
		}
		r.lose(t, func() { s.cut(t) })
		assert.False(t, lines.Scan())
		require.NoError(t, lines.Err())
		require.NoError(t, conn.Close())
		lease.Release()
	}
}

// systemd starts a worker that has ended for every connection to its socket.
func TestAnEndedWorkerGetsNoAnnotation(t *testing.T) {
	for name, shim := range map[string]bool{"with a shim": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			s := fake(t, &appservertest.Server{})
			r := newRig(t, nil, named{"a", s.path})
			r.run(t)
			r.report(running("a", "1", 0))
			r.awaitReady(t)
			lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
			defer lease.Release()
			conn := s.awaitAnnotations(t)
			defer conn.Close()
			if !shim { // codex takes it for a bad request
				require.NoError(t, conn.Close())
				annotate(lease, "thread", "request")
			} else {
				r.lose(t, func() { s.cut(t) }, unit("a", "inactive", "dead", "1", 0))
				<-lease.Conn.Done()
				inactive := func(s probes.Snapshot) bool { return s.Workers[0].ActiveState == "inactive" }
				r.await(t, "a stopped worker", inactive)
				r.settled(t)
			}
			annotate(lease, "thread", "request")
			s.idle(t)
		})
	}
}
