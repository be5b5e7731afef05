package workers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/dispatch"
)

// The connection to a worker that is being stopped ends when its last turn has ended.
// The shim of the worker may wait for that.
func TestClosesTheConnectionToAStoppedWorker(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	r.report(unit("a", "deactivating", "stop", "1", 0), unit("a", "deactivating", "stop-sigterm", "1", 0))
	r.settled(t)
	assert.NoError(t, lease.Conn.Err())
	lease.Release()
	<-lease.Conn.Done()
	assert.NotContains(t, r.log.String(), "level=WARN")
}
