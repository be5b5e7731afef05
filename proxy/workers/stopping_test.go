package workers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/workers"
)

// A worker that is being stopped keeps its connection until its last turn has ended,
// and no longer. Its shim may wait for that.
func TestLeavesAWorkerThatIsStopped(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.heard(running("a", "1", 0))
	r.awaitReady(t)
	lease := r.admittedTo(t, r.admit(t, workers.Ask{Model: "demo"}))
	r.heard(unit("a", "deactivating", "stop", "1", 0), unit("a", "deactivating", "stop-sigterm", "1", 0))
	r.settled(t)
	assert.NoError(t, lease.Conn.Err())
	lease.Release()
	<-lease.Conn.Done()
	assert.NotContains(t, r.log.String(), "level=WARN")
}
