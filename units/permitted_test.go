package units_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// A denial is final, and a systemd that does not answer is asked again.
func TestManagerPermitted(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	m := units.NewManager()
	defer m.Close()
	require.NoError(t, m.Permitted(bounded(t), worker))
	assert.Empty(t, unit.Control(), "it sets nothing")

	bus.Systemd.Refuse("org.freedesktop.DBus.Error.AccessDenied", "SetUnitProperties")
	assert.ErrorIs(t, m.Permitted(bounded(t), worker), units.ErrDenied)

	bus.Systemd.Refuse("org.freedesktop.DBus.Error.NoReply", "SetUnitProperties")
	ctx, cancel := context.WithCancel(bounded(t))
	asked := make(chan error, 1)
	before := bus.Systemd.Calls("SetUnitProperties")
	go func() { asked <- m.Permitted(ctx, worker) }()
	require.Eventually(t, func() bool { return bus.Systemd.Calls("SetUnitProperties") >= before+2 }, patience, time.Millisecond)
	cancel()
	err := <-asked
	assert.Error(t, err)
	assert.NotErrorIs(t, err, units.ErrDenied)
}
