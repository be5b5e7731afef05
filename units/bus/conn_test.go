package bus

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A listener that never answers must not block a connection attempt.
func TestConnectIsBounded(t *testing.T) {
	silentBus(t)
	_, err := Connect(t.Context(), 20*time.Millisecond, func(*dbus.Signal) {})
	require.Error(t, err)

	silent := silentBus(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		conn, err := silent.Accept()
		if assert.NoError(t, err) {
			_, _ = conn.Read(make([]byte, 1))  // the greeting
			t.Cleanup(func() { conn.Close() }) // it would be another error than the end of ctx
		}
	}()
	_, err = Connect(ctx, time.Minute, func(*dbus.Signal) {})
	assert.EqualError(t, err, "cannot greet the system bus: "+errMute.Error())
}

// silentBus is a system bus to which one can connect, and which says nothing.
func silentBus(t *testing.T) net.Listener {
	t.Helper()
	path := t.TempDir() + "/bus"
	silent, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	return silent
}

func TestUnitPath(t *testing.T) {
	const root = "/org/freedesktop/systemd1/unit/"
	assert.EqualValues(t, root+"codex_2dworker_40default_2eservice", UnitPath("codex-worker@default.service"))
	assert.EqualValues(t, root+"_31a_5fb2_2etarget", UnitPath("1a_b2.target"))
}
