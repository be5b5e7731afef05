package workers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

const mib = 1 << 20

// acquire is for a slot that is free.
func (r *rig) acquire(t *testing.T, a dispatch.Ask) *dispatch.Lease {
	t.Helper()
	lease := r.awaitLease(t, r.ask(t, a))
	t.Cleanup(lease.Release)
	return lease
}

// hold has a turn hold the slot of the lease until end is called.
func hold(lease *dispatch.Lease) (end func()) {
	var turn appserver.TurnRequest
	lease.Bind(&turn, "request")
	return turn.Ended
}

func (r *rig) awaitAcquired(t *testing.T, from <-chan acquired) *dispatch.Lease {
	t.Helper()
	lease := r.awaitLease(t, from)
	t.Cleanup(lease.Release)
	return lease
}

// A slot whose request has ended is held until codex has ended its work, too.
func TestSlotIsFreeWhenCodexIs(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	one := r.acquire(t, dispatch.Ask{Model: "m"})
	first, second := hold(one), hold(one)
	for range 3 {
		r.acquire(t, dispatch.Ask{Model: "m"})
	}
	one.Release()
	assert.Equal(t, 3, r.pool.Inflight(), "a stop does not wait for a turn without a request")
	assert.Equal(t, 4, r.pool.Snapshot().Workers[0].Inflight)
	waiting := r.ask(t, dispatch.Ask{Model: "m"})
	first()
	first()
	_, err := r.pool.Pick("m")
	require.ErrorIs(t, err, dispatch.ErrBusy)
	idle, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, r.pool.AwaitIdle(idle, "a"))
	second()
	r.awaitAcquired(t, waiting)
}

// A hold that ends before its request leaves the slot to the request.
func TestHoldThatEndsFirst(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	lease := r.acquire(t, dispatch.Ask{Model: "m", Decoding: 600 * mib})
	hold(lease)() // codex refuses a thread, and has the images again in the next one
	waiting := r.ask(t, dispatch.Ask{Model: "m", Decoding: 600 * mib})
	r.waits(t, 1)
	release := hold(lease)
	lease.Decoded()
	other := r.awaitAcquired(t, waiting) // there is room again
	release()
	assert.Equal(t, 2, r.pool.Inflight())
	lease.Release()
	assert.Equal(t, 1, r.pool.Snapshot().Workers[0].Inflight)
	other.Release()
	assert.Zero(t, r.pool.Snapshot().Workers[0].Inflight)
	r.acquire(t, dispatch.Ask{Model: "m", Decoding: 600 * mib})
}

// The images of requests are decoded as far as there is room, and the others wait in
// turn; a request without images passes them.
func TestRoomForImages(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	images := func(key string, bytes int64) dispatch.Ask { return dispatch.Ask{Model: "m", Key: key, Decoding: bytes} }
	first := r.acquire(t, images("a", 300*mib))
	second := r.acquire(t, images("a", 200*mib))
	large := r.ask(t, images("a", 3000*mib))
	small := r.ask(t, images("b", 10*mib))
	third := r.acquire(t, dispatch.Ask{Model: "m", Key: "a"}) // has no images
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth)

	release := hold(first)
	first.Release()
	assert.Empty(t, small, "codex still decodes, and the large one is first")
	release()
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth, "the small one would fit, and keep the large one waiting")
	third.Release()
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth, "a free slot is no room for images")
	second.Decoded()
	r.awaitAcquired(t, large).Decoded()
	r.awaitAcquired(t, small)
}

// A request that needs more than all the room gets it when it is alone, and the
// requests after it wait until its images are decoded.
func TestImagesBeyondTheRoomAreAlone(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	ask := dispatch.Ask{Model: "m", Decoding: 3000 * mib}
	first := r.acquire(t, ask)
	second := r.ask(t, ask)
	small := r.ask(t, dispatch.Ask{Model: "m", Decoding: 1})
	first.Decoded()
	next := r.awaitAcquired(t, second)
	assert.Empty(t, small)
	next.Decoded()
	r.awaitAcquired(t, small)
	assert.Equal(t, 3, r.pool.Inflight(), "all three have their slots")
}

// Images on a lost connection take up no room on the next one.
func TestRoomForImagesAfterALoss(t *testing.T) {
	socket := fake(t, models("m"))
	r := newRig(t, nil, named{"a", socket.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	lease := r.acquire(t, dispatch.Ask{Model: "m", Decoding: 600 * mib})
	release := hold(lease)
	socket.awaitDial(t)
	socket.cut(t)
	r.await(t, "the loss", func(probes.Snapshot) bool { return lease.Conn.Err() != nil })
	lease.Release()
	release()
	r.awaitReady(t)
	r.acquire(t, dispatch.Ask{Model: "m", Decoding: 600 * mib})
}

// A request that waits with large images is not passed by smaller ones for ever,
// although others with its key are served meanwhile; when it ends, they are served.
func TestSmallImagesDoNotPassLargeOnes(t *testing.T) {
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 8 }, named{"a", fake(t, models("m")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.acquire(t, dispatch.Ask{Model: "m", Decoding: 100 * mib})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.pool.Acquire(ctx, dispatch.Ask{Model: "m", Key: "a", Decoding: 600 * mib})
		left <- err
	}()
	require.Eventually(t, func() bool { return r.pool.Waiting() == 1 }, bound, time.Millisecond)
	r.acquire(t, dispatch.Ask{Model: "m", Key: "a"}) // and other keys are next
	small := r.ask(t, dispatch.Ask{Model: "m", Key: "b", Decoding: 1})
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	r.awaitAcquired(t, small)
}

// The images of turns in other processes count, too.
func TestImagesOfPeers(t *testing.T) {
	var r *rig
	peers := map[string]workers.Load{"a": {Turns: 1, Decoding: 600 * mib}}
	claims := 0
	r = newRig(t, func(s *workers.Settings) {
		s.Claim = func() bool {
			if claims++; claims == 1 {
				r.pool.SetPeerLoads(peers)
			}
			return true
		}
	}, named{"a", fake(t, models("m")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	waiting := r.ask(t, dispatch.Ask{Model: "m", Decoding: 1})
	assert.Equal(t, 1, r.pool.Waiting())
	assert.Empty(t, r.pool.Loads(), "the slot was released")
	r.pool.SetPeerLoads(nil)
	r.pool.Wake()
	r.awaitAcquired(t, waiting)
	assert.Equal(t, map[string]workers.Load{"a": {Turns: 1, Decoding: 1}}, r.pool.Loads())
}

// The error is the reason why there is no slot.
func TestRefusedForImages(t *testing.T) {
	socket := fake(t, models("m"))
	r := newRigWithQueue(t, dispatch.Queue{Limit: 64, Timeout: time.Millisecond, ReadyTimeout: bound}, nil,
		named{"a", socket.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.acquire(t, dispatch.Ask{Model: "m", Decoding: 1})
	_, err := r.pool.Acquire(t.Context(), dispatch.Ask{Model: "m", Decoding: 600 * mib})
	require.ErrorIs(t, err, dispatch.ErrDecoding)
	require.ErrorIs(t, err, dispatch.ErrBusy, "a caller may treat it like any other busy worker")
}
