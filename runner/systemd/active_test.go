package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
)

// dropping is a systemd that drops calls.
type dropping struct {
	Units
	left int
}

func (d *dropping) List(context.Context, ...string) ([]units.State, error) {
	if d.left > 0 {
		d.left--
		return nil, fmt.Errorf("cannot list units: %w", units.ErrUnanswered)
	}
	return []units.State{{Unit: "codex-session@a.service", ActiveState: "active"}}, nil
}

func TestCheckOfASystemdThatExecutesItselfAnew(t *testing.T) {
	t.Parallel()
	changes := 0
	c := New(&dropping{left: 1}, slog.New(slog.DiscardHandler), func() { changes++ })
	active, err := c.Check(t.Context())
	require.NoError(t, err)
	assert.True(t, active["codex-session@a.service"])
	assert.Zero(t, changes, "the service stays ready")
}

func TestCheckOfASystemdThatIsAway(t *testing.T) {
	t.Parallel()
	changes := 0
	c := New(&dropping{left: 2}, slog.New(slog.DiscardHandler), func() { changes++ })
	_, err := c.Check(t.Context())
	assert.ErrorIs(t, err, units.ErrUnanswered)
	assert.Equal(t, ErrUnanswered, c.Fault())
	_, err = c.Check(t.Context())
	require.NoError(t, err)
	assert.NoError(t, c.Fault())
	assert.Equal(t, 2, changes)
}
