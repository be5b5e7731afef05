package runner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
)

// A session with the network has a unit of its own kind, which the next daemon finds, too.
func TestNetwork(t *testing.T) {
	b := newBed(t)
	n := wire.NewSession{Network: true, Commands: []wire.NewCommand{{Args: []string{"a"}}, {Args: []string{"b"}}}}
	plan, err := b.Plan(t.Context(), alice, n)
	require.NoError(t, err)
	assert.Equal(t, "codex-session-online@.service", plan.Unit)
	s, err := b.Create(t.Context(), alice, n)
	require.NoError(t, err)
	assert.True(t, s.Network)
	u := b.started()
	assert.True(t, u.Online)
	b.until(s.ID, running(1))
	b.stop()
	b.start()
	u.End(exit(0))
	assert.Equal(t, outcome.Succeeded, b.until(s.ID, ended(1)).Commands[0].Outcome.Word)
	assert.True(t, b.started().Online)

	b = newBed(t, func(s *runner.Settings) { s.Network = false })
	_, err = b.Create(t.Context(), alice, n)
	var refused *wire.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, wire.Forbidden, refused.Code)
}
