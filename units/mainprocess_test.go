package units_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

func TestMainProcessOf(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	name := units.Remote("build")
	unit := bus.Systemd.Unit(name)
	unit.Start("Ready")
	unit.SetSilently(unitstest.Properties{
		"Id": name, "MainPID": uint32(77), "ExecMainStartTimestampMonotonic": uint64(5), "InvocationID": []byte{1, 2},
	})
	bus.Systemd.Own(name)
	p, err := m.MainProcessOf(bounded(t), 77)
	require.NoError(t, err)
	assert.Equal(t, units.MainProcess{Unit: name, Run: "0102 5"}, p)

	_, err = m.MainProcessOf(bounded(t), 78)
	require.ErrorIs(t, err, units.ErrNotMain, "another process of the unit, such as a tool")

	bus.Systemd.Own("session-1.scope")
	_, err = m.MainProcessOf(bounded(t), 77)
	require.ErrorIs(t, err, units.ErrNotMain)
}
