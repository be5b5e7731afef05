package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "codex-proxy/workers/accounts"
)

// Time counts as blocked while an account is exhausted and none that is not paused serves.
func TestBlocked(t *testing.T) {
	b := NewStore(policy, []string{"a", "b", "c"}, func() {})
	step := func(n int, want bool, total time.Duration, do func(at time.Time)) {
		t.Helper()
		at := noon.Add(time.Duration(n) * time.Minute)
		do(at)
		blocked, elapsed := b.Blocked(at)
		assert.Equal(t, want, blocked)
		assert.Equal(t, total, elapsed)
	}
	read := func(name string, used float64) func(time.Time) {
		return func(at time.Time) { b.Read(name, "", readAt(used, at)) }
	}
	step(0, false, 0, read("a", 1))
	step(1, false, 0, read("b", 0.5))
	step(2, false, 0, func(time.Time) { require.NoError(t, b.Pause("c", true)) })
	step(3, true, 0, read("b", 1))
	step(5, true, 2*time.Minute, func(at time.Time) { b.Invalidate("b", at) })
	step(6, false, 3*time.Minute, read("a", 0.99))
	step(9, false, 3*time.Minute, read("b", 0.5))
	step(10, true, 3*time.Minute, func(at time.Time) { b.Refuse("a", time.Time{}, at); b.Refuse("b", time.Time{}, at) })
	step(11, true, 4*time.Minute, func(time.Time) {})

	b = NewStore(policy, []string{"a"}, func() {})
	step(0, false, 0, func(at time.Time) { b.Invalidate("a", at) }) // it is not for want of quota
	step(1, false, 0, func(time.Time) {})
}
