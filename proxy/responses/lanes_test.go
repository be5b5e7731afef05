package responses

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
)

// All background responses have a bound in number and in bytes, and one key has half of each.
func TestLanesBounds(t *testing.T) {
	code := func(err error) string {
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		return e.Code
	}
	l := newLanes(8000)
	_, err := l.admit("ann", 4001)
	assert.Equal(t, "request_too_large", code(err))
	leave, err := l.admit("ann", 4000)
	require.NoError(t, err)
	_, err = l.admit("ann", 1)
	assert.Equal(t, "concurrency_exceeded", code(err))
	other, err := l.admit("bob", 3000)
	require.NoError(t, err)
	_, err = l.admit("cid", 1001)
	assert.Equal(t, "overloaded", code(err))
	leave()
	other()
	assert.Zero(t, l.count())
	assert.Empty(t, l.byKey)

	var all []func()
	for _, key := range []string{"ann", "bob"} {
		for range maxBackground / 2 {
			leave, err := l.admit(key, 0)
			require.NoError(t, err)
			all = append(all, leave)
		}
		_, err = l.admit(key, 0)
		assert.Equal(t, "concurrency_exceeded", code(err))
	}
	_, err = l.admit("cid", 0)
	assert.Equal(t, "overloaded", code(err))
	for _, leave := range all {
		leave()
	}
	_, err = l.admit("cid", 0)
	assert.NoError(t, err)
}

// One response of a lane is let through at a time, in order. Those that leave before their turn keep nobody.
func TestLanesOrder(t *testing.T) {
	l, of := newLanes(1), laneOf("ann", "m", []string{"a", "b"})
	first, gone, second, third := l.join(of), l.join(of), l.join(of), l.join(of)
	require.NoError(t, first.wait(t.Context()))
	beside := l.join(laneOf("ann", "m", nil))
	require.NoError(t, beside.wait(t.Context()))
	beside.leave()
	ctx, leave := context.WithCancelCause(t.Context())
	leave(errCancelled)
	for _, p := range []*place{gone, second, third} {
		assert.ErrorIs(t, p.wait(ctx), errCancelled)
	}
	gone.leave()
	next := make(chan error)
	go func() { next <- second.wait(t.Context()) }()
	first.leave()
	first.leave()
	require.NoError(t, <-next)
	assert.ErrorIs(t, third.wait(ctx), errCancelled, "first.leave has let one through")
	second.leave()
	require.NoError(t, third.wait(t.Context()))
	third.leave()
	assert.Empty(t, l.byLane)
}
