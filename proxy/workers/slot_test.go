package workers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/workers"
)

const mib = 1 << 20

// take asks for a place, which is there.
func (r *rig) take(t *testing.T, a workers.Ask) *workers.Lease {
	t.Helper()
	lease := r.admittedTo(t, r.admit(t, a))
	t.Cleanup(lease.Release)
	return lease
}

func (r *rig) awaitTaken(t *testing.T, from <-chan admitted) *workers.Lease {
	t.Helper()
	lease := r.admittedTo(t, from)
	t.Cleanup(lease.Release)
	return lease
}

// A place whose request has ended is taken until codex has ended, too.
func TestPlaceIsFreeWhenCodexIs(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	one := r.take(t, workers.Ask{Model: "m"})
	first, second := one.Hold(), one.Hold()
	for range 3 {
		r.take(t, workers.Ask{Model: "m"})
	}
	one.Release()
	assert.Equal(t, 3, r.pool.Inflight(), "a stop does not wait for what nobody wants any more")
	assert.Equal(t, 4, r.pool.Snapshot().Workers[0].Inflight)
	waiting := r.admit(t, workers.Ask{Model: "m"})
	first()
	first()
	_, err := r.pool.Pick("m")
	require.ErrorIs(t, err, workers.ErrBusy)
	idle, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, r.pool.AwaitIdle(idle, "a"))
	second()
	r.awaitTaken(t, waiting)
}

// A hold that ends before its request leaves the place to it.
func TestHoldThatEndsFirst(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	lease := r.take(t, workers.Ask{Model: "m", Decoding: 600 * mib})
	let := lease.Hold()
	lease.Decoded()
	other := r.take(t, workers.Ask{Model: "m", Decoding: 600 * mib}) // there is room again
	let()
	assert.Equal(t, 2, r.pool.Inflight())
	lease.Release()
	assert.Equal(t, 1, r.pool.Snapshot().Workers[0].Inflight)
	other.Release()
	assert.Zero(t, r.pool.Snapshot().Workers[0].Inflight)
	r.take(t, workers.Ask{Model: "m", Decoding: 600 * mib})
}

// The images of requests are decoded as far as there is room, the others wait in
// turn; who has none passes them.
func TestRoomForImages(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	images := func(key string, bytes int64) workers.Ask { return workers.Ask{Model: "m", Key: key, Decoding: bytes} }
	first := r.take(t, images("a", 300*mib))
	second := r.take(t, images("a", 200*mib))
	large := r.admit(t, images("a", 3000*mib))
	small := r.admit(t, images("b", 10*mib))
	third := r.take(t, workers.Ask{Model: "m", Key: "a"}) // has no images
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth)

	let := first.Hold()
	first.Release()
	assert.Empty(t, small, "codex decodes still, and the large one is first")
	let()
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth, "the small one would fit, and keep the large one waiting")
	third.Release()
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth, "a place is not room")
	second.Decoded()
	r.awaitTaken(t, large).Decoded()
	r.awaitTaken(t, small)
}

// A request that needs more than all the room gets it when it is alone, and who
// comes after it waits until its images are decoded.
func TestImagesBeyondTheRoomAreAlone(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	ask := workers.Ask{Model: "m", Decoding: 3000 * mib}
	first := r.take(t, ask)
	second := r.admit(t, ask)
	small := r.admit(t, workers.Ask{Model: "m", Decoding: 1})
	first.Decoded()
	next := r.awaitTaken(t, second)
	assert.Empty(t, small)
	next.Decoded()
	r.awaitTaken(t, small)
	assert.Equal(t, 3, r.pool.Inflight(), "they have their places")
}

// Images on a connection that is gone take no room on the next.
func TestRoomForImagesAfterALoss(t *testing.T) {
	socket := fake(t, models("m"))
	r := newRig(t, nil, named{"a", socket.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	lease := r.take(t, workers.Ask{Model: "m", Decoding: 600 * mib})
	let := lease.Hold()
	socket.awaitDial(t)
	socket.cut(t)
	r.await(t, "the loss", func(probes.Snapshot) bool { return lease.Conn.Err() != nil })
	lease.Release()
	let()
	r.awaitReady(t)
	r.take(t, workers.Ask{Model: "m", Decoding: 600 * mib})
}

// Whoever waits with large images is not passed by smaller ones for ever, although
// others with its key are served meanwhile; when it goes, they have their turn.
func TestSmallImagesDoNotPassLargeOnes(t *testing.T) {
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 8 }, named{"a", fake(t, models("m")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.take(t, workers.Ask{Model: "m", Decoding: 100 * mib})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.pool.Acquire(ctx, workers.Ask{Model: "m", Key: "a", Decoding: 600 * mib})
		left <- err
	}()
	require.Eventually(t, func() bool { return r.pool.Waiting() == 1 }, bound, time.Millisecond)
	r.take(t, workers.Ask{Model: "m", Key: "a"}) // and it is the turn of others
	small := r.admit(t, workers.Ask{Model: "m", Key: "b", Decoding: 1})
	assert.Equal(t, 2, r.pool.Snapshot().Queue.Depth)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	r.awaitTaken(t, small)
}

// The images of turns in other processes count, too.
func TestImagesElsewhere(t *testing.T) {
	var r *rig
	there := map[string]workers.Load{"a": {Turns: 1, Decoding: 600 * mib}}
	claims := 0
	r = newRig(t, func(s *workers.Settings) {
		s.Claim = func() bool {
			if claims++; claims == 1 {
				r.pool.SetPeerLoads(there)
			}
			return true
		}
	}, named{"a", fake(t, models("m")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	waiting := r.admit(t, workers.Ask{Model: "m", Decoding: 1})
	assert.Equal(t, 1, r.pool.Waiting())
	assert.Empty(t, r.pool.Loads(), "it was given back")
	r.pool.SetPeerLoads(nil)
	r.pool.Wake()
	r.awaitTaken(t, waiting)
	assert.Equal(t, map[string]workers.Load{"a": {Turns: 1, Decoding: 1}}, r.pool.Loads())
}

// Why there is no place.
func TestRefusedForImages(t *testing.T) {
	socket := fake(t, models("m"))
	r := newRig(t, nil, named{"a", socket.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.take(t, workers.Ask{Model: "m", Decoding: 1})
	r.pool.SetQueueTimeout(time.Millisecond)
	_, err := r.pool.Acquire(t.Context(), workers.Ask{Model: "m", Decoding: 600 * mib})
	require.ErrorIs(t, err, workers.ErrDecoding)
	require.ErrorIs(t, err, workers.ErrBusy, "of what else there is no difference")
}
