package workers_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers"
)

func quickHandshake(s *workers.Settings) { s.HandshakeTimeout = 200 * time.Millisecond }

// An active unit whose socket refuses the proxy is a fault of the proxy, but only in a
// process that was once connected: a new one could not do better.
func TestUnreachableIsOurFault(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, quickHandshake, named{"a", s.path}, named{"never", s.path + "none"})
	r.run(t)
	r.report(running("a", "1", 0), running("never", "1", 0))
	r.await(t, "a ready", aReady)
	require.NoError(t, os.Rename(s.path, s.path+"away"))
	s.cut(t)
	r.awaitLog(t, "cannot connect to codex app-server at "+s.path+":", 1)
	err := r.untilFault(t)
	assert.ErrorContains(t, err, "worker a cannot be reached: its unit is active")
	assert.NotContains(t, err.Error(), "never")

	r.report(unit("a", "activating", "auto-restart", "1", 0))
	assert.NoError(t, r.pool.Reachable(), "a worker that is down is no fault of the proxy")
	require.NoError(t, os.Rename(s.path+"away", s.path))
	r.report(running("a", "2", 1))
	r.await(t, "a ready", aReady)
	assert.NoError(t, r.pool.Reachable())
}

// untilFault checks after each failed dial until there is a fault.
func (r *rig) untilFault(t *testing.T) error {
	t.Helper()
	limit := time.After(bound)
	for {
		if err := r.pool.Reachable(); err != nil {
			return err
		}
		select {
		case <-r.changed:
		case <-limit:
			require.FailNow(t, "no fault", r.log.String())
		}
	}
}

// A worker that accepts and is silent hangs; its own watchdog handles that.
func TestSilentWorkerIsNotOurFault(t *testing.T) {
	silent := func(ctx context.Context) { <-ctx.Done() }
	s := fake(t, &appservertest.Server{Faults: faults("model/list", silent)})
	r := newRig(t, quickHandshake, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitLog(t, "worker connection ended", 2)
	assert.NoError(t, r.pool.Reachable())
}

// Only the loop that is stuck is named.
func TestAliveNamesTheStuckLoop(t *testing.T) {
	stuck, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	var r *rig
	var once sync.Once
	r = newRig(t, func(s *workers.Settings) {
		signal := s.OnChange
		s.OnChange = func() {
			signal()
			if r.pool.Snapshot().Workers[0].Ready { // reported by the loop of a, which has just connected
				once.Do(func() {
					close(stuck)
					<-release
				})
			}
		}
	}, named{"a", fake(t, &appservertest.Server{}).path}, named{"b", "/nowhere"})
	r.run(t)
	go r.report(running("a", "1", 0)) // if a connects before this returns, this call is stuck, too
	<-stuck
	var err error
	for span := 100 * time.Millisecond; span < bound; span *= 2 { // b has to answer in it
		ctx, cancel := context.WithTimeout(context.Background(), span)
		err = r.pool.Alive(ctx)
		cancel()
		require.ErrorContains(t, err, "the loop of worker a does not answer")
		if !strings.Contains(err.Error(), "worker b") {
			break
		}
	}
	assert.NotContains(t, err.Error(), "worker b")
}
