package queue

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/inflight"
)

// All background responses have a bound in number and in bytes, and one key has half of each.
func TestLanesBounds(t *testing.T) {
	code := func(err error) string {
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		return e.Code
	}
	l := New(8000)
	_, err := l.Admit("ann", 4001)
	assert.Equal(t, "request_too_large", code(err))
	leave, err := l.Admit("ann", 4000)
	require.NoError(t, err)
	_, err = l.Admit("ann", 1)
	assert.Equal(t, "concurrency_exceeded", code(err))
	other, err := l.Admit("bob", 3000)
	require.NoError(t, err)
	_, err = l.Admit("cid", 1001)
	assert.Equal(t, "overloaded", code(err))
	leave()
	other()
	assert.Zero(t, l.Count())
	assert.Empty(t, l.byKey)

	var all []func()
	for _, key := range []string{"ann", "bob"} {
		for range maxBackground / 2 {
			leave, err := l.Admit(key, 0)
			require.NoError(t, err)
			all = append(all, leave)
		}
		_, err = l.Admit(key, 0)
		assert.Equal(t, "concurrency_exceeded", code(err))
	}
	_, err = l.Admit("cid", 0)
	assert.Equal(t, "overloaded", code(err))
	for _, leave := range all {
		leave()
	}
	_, err = l.Admit("cid", 0)
	assert.NoError(t, err)
}

// One response of a lane is let through at a time, in order. Those that leave before their turn keep nobody.
func TestLanesOrder(t *testing.T) {
	l, of := New(1), LaneOf("ann", "m", []string{"a", "b"})
	first, gone, second, third := l.Join(of), l.Join(of), l.Join(of), l.Join(of)
	require.NoError(t, first.Wait(t.Context()))
	beside := l.Join(LaneOf("ann", "m", nil))
	require.NoError(t, beside.Wait(t.Context()))
	beside.Leave()
	ctx, leave := context.WithCancelCause(t.Context())
	leave(inflight.ErrCancelled)
	for _, p := range []*Place{gone, second, third} {
		assert.ErrorIs(t, p.Wait(ctx), inflight.ErrCancelled)
	}
	gone.Leave()
	next := make(chan error)
	go func() { next <- second.Wait(t.Context()) }()
	first.Leave()
	first.Leave()
	require.NoError(t, <-next)
	assert.ErrorIs(t, third.Wait(ctx), inflight.ErrCancelled, "first.leave has let one through")
	second.Leave()
	require.NoError(t, third.Wait(t.Context()))
	third.Leave()
	assert.Empty(t, l.byLane)
}
