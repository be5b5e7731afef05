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
	state, err := s.LeaseEnvironment(ctx, id(1), 1, "k1", t0)
	require.NoError(t, err)
	assert.Empty(t, state)
	require.NoError(t, s.BeginEnvironment(ctx, "k1", "venv", t0))
	require.NoError(t, s.EndEnvironment(ctx, "k1", 5))
	require.NoError(t, s.BeginEnvironment(ctx, "k2", "node", t0.Add(1)))
	state, err = s.LeaseEnvironment(ctx, id(1), 1, "k1", t0.Add(2))
	require.NoError(t, err)
	assert.Equal(t, EnvironmentReady, state)
	all, err := s.Environments(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Environment{
		{Key: "k2", Provider: "node", State: EnvironmentBuilding, Used: t0.Add(1)},
		{Key: "k1", Provider: "venv", State: EnvironmentReady, Bytes: 5, Used: t0.Add(2), Leased: true},
	}, all)
	assert.ErrorIs(t, s.RemoveEnvironment(ctx, "k1"), ErrState, "it is leased")
	require.NoError(t, s.End(ctx, id(1), 1, succeeded, succeeded.Ended))
	_, err = s.LeaseEnvironment(ctx, id(1), 1, "k2", t0)
	assert.ErrorIs(t, err, ErrState, "the command has ended")
	all, err = s.Environments(ctx)
	require.NoError(t, err)
	assert.Equal(t, Environment{Key: "k1", Provider: "venv", State: EnvironmentReady, Bytes: 5, Used: t0.Add(time.Minute)}, all[1])
	for commit, want := range map[string]string{"": "k1", "c": ""} {
		key, err := s.LastEnvironment(ctx, New{Session: wire.Session{
			Owner: wire.Owner{UID: 1000}, Commit: commit, Environment: "none",
		}})
		require.NoError(t, err)
		assert.Equal(t, want, key)
	}
	require.NoError(t, s.RemoveEnvironment(ctx, "k1"))
	require.NoError(t, s.ForgetEnvironment(ctx, "k2"))
	all, err = s.Environments(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, EnvironmentRemoving, all[0].State)
}

func TestFacts(t *testing.T) {
	s, ctx := open(t), t.Context()
	for _, want := range []string{"", `{"a":1}`, `{"b":2}`} {
		if want != "" {
			require.NoError(t, s.KeepFacts(ctx, 1000, []byte(want)))
		}
		got, err := s.Facts(ctx, 1000)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	got, err := s.Facts(ctx, 1001)
	require.NoError(t, err)
	assert.Empty(t, got, "of another user")
}
