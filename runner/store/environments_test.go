package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
)

func TestEnvironments(t *testing.T) {
	s, ctx := open(t), t.Context()
	create(t, s, 1, 1000, command("a"))
	state, err := s.Environments.Lease(ctx, id(1), 1, "k1", t0)
	require.NoError(t, err)
	assert.Empty(t, state)
	require.NoError(t, s.Environments.Begin(ctx, "k1", "venv", t0))
	require.NoError(t, s.Environments.Ready(ctx, "k1", 5))
	require.NoError(t, s.Environments.Begin(ctx, "k2", "node", t0.Add(1)))
	state, err = s.Environments.Lease(ctx, id(1), 1, "k1", t0.Add(2))
	require.NoError(t, err)
	assert.Equal(t, EnvironmentReady, state)
	all, err := s.Environments.List(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Environment{
		{Key: "k2", Provider: "node", State: EnvironmentBuilding, Used: t0.Add(1)},
		{Key: "k1", Provider: "venv", State: EnvironmentReady, Bytes: 5, Used: t0.Add(2), Leased: true},
	}, all)
	assert.ErrorIs(t, s.Environments.Remove(ctx, "k1"), ErrState, "it is leased")
	require.NoError(t, s.Commands.End(ctx, id(1), 1, succeeded, succeeded.Ended))
	_, err = s.Environments.Lease(ctx, id(1), 1, "k2", t0)
	assert.ErrorIs(t, err, ErrState, "the command has ended")
	all, err = s.Environments.List(ctx)
	require.NoError(t, err)
	assert.Equal(t, Environment{Key: "k1", Provider: "venv", State: EnvironmentReady, Bytes: 5, Used: t0.Add(time.Minute)}, all[1])
	for commit, want := range map[string]string{"": "k1", "c": ""} {
		key, err := s.Environments.Last(ctx, New{Session: wire.Session{
			Owner: wire.Owner{UID: 1000}, Commit: commit, Environment: "none",
		}})
		require.NoError(t, err)
		assert.Equal(t, want, key)
	}
	require.NoError(t, s.Environments.Remove(ctx, "k1"))
	require.NoError(t, s.Environments.Forget(ctx, "k2"))
	all, err = s.Environments.List(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, EnvironmentRemoving, all[0].State)
}

// What a set-up has left is in use as long as the session is open.
func TestSnapshotOfAnOpenSession(t *testing.T) {
	s, ctx := open(t), t.Context()
	create(t, s, 1, 1000, command("a"))
	require.NoError(t, s.Environments.Begin(ctx, "k", "setup", t0))
	require.NoError(t, s.Environments.Ready(ctx, "k", 5))
	require.NoError(t, s.Environments.Begin(ctx, "e", "uv", t0))
	require.NoError(t, s.Environments.Ready(ctx, "e", 7))
	tally, err := s.Tally(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 7, 1, 5}, []int64{int64(tally.Environments), tally.EnvironmentBytes, int64(tally.Snapshots), tally.SnapshotBytes})
	require.NoError(t, s.Environments.Forget(ctx, "e"))
	_, err = s.Environments.Lease(ctx, id(1), 1, "k", t0)
	require.NoError(t, err)
	require.NoError(t, s.Commands.End(ctx, id(1), 1, succeeded, succeeded.Ended))
	require.ErrorIs(t, s.Environments.Remove(ctx, "k"), ErrState)
	require.NoError(t, s.Sessions.Close(ctx, id(1), 0, t0))
	all, err := s.Environments.List(ctx)
	require.NoError(t, err)
	assert.False(t, all[0].Leased)
	require.NoError(t, s.Environments.Remove(ctx, "k"))
}

func TestFacts(t *testing.T) {
	s, ctx := open(t), t.Context()
	for _, want := range []string{"", `{"a":1}`, `{"b":2}`} {
		if want != "" {
			require.NoError(t, s.Environments.KeepFacts(ctx, 1000, []byte(want)))
		}
		got, err := s.Environments.Facts(ctx, 1000)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	got, err := s.Environments.Facts(ctx, 1001)
	require.NoError(t, err)
	assert.Empty(t, got, "of another user")
}
