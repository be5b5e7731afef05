package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
)

// A burst after a long silence is not slow.
func TestOnlyIdleConsumersAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBacklog(1 << 20)
		q := NewQueue(nil, Bounds{Events: 16, Bytes: 8 << 20, Backlog: b})
		put := func() {
			words := []byte(`"` + strings.Repeat("x", minWaiting) + `"`)
			m := rpc.Message{Method: TextDelta, At: time.Now()}
			m.Fields[fieldItemID], m.Fields[fieldDelta] = []byte(`"i"`), words
			require.True(t, q.Put(&m))
		}
		<-time.After(time.Minute)
		put()
		put()
		assert.Empty(t, b.slowest(time.Now()))
		<-time.After(maxIdle + time.Millisecond)
		assert.Equal(t, []*Queue{q}, b.slowest(time.Now()))
		_, ok, err := q.Pop()
		require.NoError(t, err)
		require.True(t, ok)
		assert.Empty(t, b.slowest(time.Now()), "it reads again")
		q.Shut(ErrSlowConsumer)
		<-time.After(maxIdle + time.Millisecond)
		assert.Empty(t, b.slowest(time.Now()))
		assert.Zero(t, b.Bytes())
	})
}

// The larger the backlog the sooner a turn counts as slow.
func TestMaxIdle(t *testing.T) {
	b := NewBacklog(1000)
	for waiting, want := range map[int64]time.Duration{
		0: time.Second, 1000: time.Second, 2000: time.Second / 2, 4000: time.Second / 4, 10000: minIdle,
		1 << 40: minIdle,
	} {
		b.bytes.Store(waiting)
		assert.Equal(t, want, b.maxIdle(), waiting)
	}
}

// A clock that is set forward ends no turn.
func TestTicksSurviveASetClock(t *testing.T) {
	now := time.Now()
	for _, hours := range []int{1, -1} {
		set := now
		// The seconds of a time's wall clock begin at bit 30 (package time).
		*(*uint64)(unsafe.Pointer(&set)) += uint64(hours*3600) << 30
		require.NotEqual(t, now.Unix(), set.Unix())
		assert.Equal(t, ticks(now), ticks(set))

		b := NewBacklog(1 << 20)
		q := NewQueue(nil, Bounds{})
		q.idleSince.Store(ticks(now))
		b.changed(q, 0, minWaiting)
		assert.Empty(t, b.slowest(set))
	}
}
