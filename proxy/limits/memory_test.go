package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
)

// refusedBy is the code of an error for the client.
func refusedBy(t *testing.T, err error) string {
	t.Helper()
	var refusal *openai.Error
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, time.Second, refusal.RetryAfter)
	return refusal.Code
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(160, time.Minute) // 10 of which are for small requests, of no bytes
		ann, again, bob, eve := m.Hold("ann"), m.Hold("ann"), m.Hold("bob"), m.Hold("eve")
		ctx := t.Context()
		require.NoError(t, ann.Acquire(ctx, 40))
		began := time.Now()
		assert.Equal(t, "concurrency_exceeded", refusedBy(t, again.Acquire(ctx, 50)), "half is for one key")
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, bob.Acquire(ctx, 200), "no part is too large for an idle service")
		assert.Equal(t, int64(80), bob.bytes)
		assert.Equal(t, "overloaded", refusedBy(t, eve.Acquire(ctx, 40)))
		require.NoError(t, eve.Acquire(ctx, 30), "what was refused is not counted")
		assert.Equal(t, int64(150), m.bytes.Load())

		waited := make(chan error, 2)
		go func() { waited <- eve.Acquire(ctx, 30) }()
		synctest.Wait()
		assert.False(t, again.TryAcquire(1))
		bob.Shrink(60)
		bob.Shrink(70)
		synctest.Wait()
		assert.Empty(t, waited, "20 bytes are not 30")
		assert.False(t, again.TryAcquire(1), "nobody overtakes who waits")
		ann.Shrink(30)
		require.NoError(t, <-waited)
		assert.True(t, again.TryAcquire(0))

		left, leave := context.WithCancelCause(ctx)
		leave(errors.New("gone"))
		assert.EqualError(t, again.Acquire(left, 80), "gone")
		for _, h := range []*Held{&ann, &again, &bob, &eve} {
			h.Release()
		}
		assert.Zero(t, m.bytes.Load())
		for _, key := range []string{"ann", "bob", "eve"} {
			h := m.Hold(key)
			require.True(t, h.TryAcquire(80), key)
			h.Release()
		}
	})
}

// The error of a wait that is too short for anything names the limit that is met.
func TestMemoryWithoutAWait(t *testing.T) {
	m := NewMemory(160, 1)
	ann, bob, eve := m.Hold("ann"), m.Hold("bob"), m.Hold("eve")
	require.NoError(t, ann.Acquire(t.Context(), 80))
	require.NoError(t, bob.Acquire(t.Context(), 70))
	assert.Equal(t, "overloaded", refusedBy(t, eve.Acquire(t.Context(), 40)))
}

// Small requests wait neither behind a large one nor for it, and have the room of all
// others when their own is full.
func TestMemoryOfSmallRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(64<<10, time.Minute)
		full, large, late := m.Hold(""), m.Hold(""), m.Hold("")
		require.NoError(t, full.Acquire(t.Context(), 32<<10))
		require.NoError(t, large.Acquire(t.Context(), 28<<10))
		waited := make(chan error, 1)
		go func() { waited <- late.Acquire(t.Context(), 1000) }()
		synctest.Wait()
		var small [17]Held
		began := time.Now()
		for i := range 16 {
			small[i] = m.Hold("")
			require.NoError(t, small[i].Acquire(t.Context(), 100))
			require.NoError(t, small[i].Acquire(t.Context(), 156))
		}
		assert.Zero(t, time.Since(began))
		small[16] = m.Hold("")
		assert.False(t, small[16].TryAcquire(1), "that is all of theirs")
		small[0].Shrink(200)
		assert.False(t, small[1].TryAcquire(1), "it would be small no more")
		full.Release()
		require.NoError(t, <-waited)
		assert.True(t, small[16].TryAcquire(57), "one more than there is for small ones")
		assert.True(t, small[1].TryAcquire(1000))
		large.Shrink(100)
		for _, h := range append(small[:], large, late) {
			h.Release()
		}
		assert.Zero(t, m.bytes.Load())
		require.True(t, m.all.TryAcquire(60<<10))
		require.True(t, m.small.TryAcquire(4<<10))
	})
}

// What holds something already waits for none of those that hold the rest, nor for one
// that waits.
func TestMemoryIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(1600, time.Minute)
		ann, bob, eve := m.Hold("ann"), m.Hold("bob"), m.Hold("eve")
		require.NoError(t, ann.Acquire(t.Context(), 800))
		require.NoError(t, bob.Acquire(t.Context(), 700))
		require.NoError(t, bob.extend(t.Context(), 60))
		mary := m.Hold("mary")
		assert.Equal(t, "overloaded", refusedBy(t, mary.extend(t.Context(), 150)), "an eighth is for all of them")
		waited := make(chan error, 1)
		go func() { waited <- eve.Acquire(t.Context(), 700) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, bob.extend(t.Context(), 20))
		require.NoError(t, ann.extend(t.Context(), 80), "it has its share, and counts as that")
		assert.Zero(t, time.Since(began))
		assert.Equal(t, int64(1580), m.bytes.Load())
		bob.Shrink(710)
		bob.Shrink(600)
		ann.Release()
		require.NoError(t, <-waited)
		bob.Release()
		eve.Release()
		assert.Zero(t, m.bytes.Load())
		require.True(t, m.all.TryAcquire(1500))
		require.True(t, m.more.TryAcquire(200))
	})
}

// Requests that wait for a place may hold all memory that requests can have: the key with
// too many waits and is refused, and the answers of turns in flight, which make places
// free, go on.
func TestMemoryInALongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(3200, 5*time.Minute)
		var waiting [3]Held
		for i, key := range []string{"ann", "ann", "bob"} {
			waiting[i] = m.Hold(key)
			require.NoError(t, waiting[i].Acquire(t.Context(), []int64{800, 800, 1400}[i]))
		}
		require.NoError(t, waiting[2].extend(t.Context(), 400))
		began := time.Now()
		answer := Output{held: m.holdAnswer("ann"), bytes: freeOutput}
		require.NoError(t, answer.held.extend(t.Context(), 100))
		assert.Zero(t, time.Since(began))
		late, eve := m.Hold("ann"), m.Hold("eve")
		assert.Equal(t, "overloaded", refusedBy(t, eve.Acquire(t.Context(), 100)))
		assert.Equal(t, 5*time.Minute, time.Since(began))
		waiting[2].Release()
		require.NoError(t, eve.Acquire(t.Context(), 100), "the other key")
		assert.Equal(t, "concurrency_exceeded", refusedBy(t, late.Acquire(t.Context(), 100)), "the key's own load")
		began = time.Now()
		assert.Equal(t, "overloaded", refusedBy(t, answer.held.extend(t.Context(), 150)))
		assert.Equal(t, 30*time.Second, time.Since(began), "a request that holds memory does not keep it for long")
	})
}

// An answer that has no room beside the limit waits for the memory of others.
func TestAnswerLargerThanItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(3200, 5*time.Minute)
		waiting := [2]Held{m.Hold("bob"), m.Hold("eve")}
		for i := range waiting {
			require.NoError(t, waiting[i].Acquire(t.Context(), 1500))
		}
		time.AfterFunc(time.Second, waiting[0].Release)
		answer := m.holdAnswer("ann")
		assert.NoError(t, answer.extend(t.Context(), 300))
	})
}
