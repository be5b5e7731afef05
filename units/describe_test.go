package units_test

import (
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

func TestDescribe(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	version, err := m.Version(bounded(t))
	require.NoError(t, err)
	assert.Equal(t, "257.13-1~deb13u1", version)

	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	service := bus.Systemd.Unit(worker)
	service.Start("Ready: yes")
	service.SetSilently(unitstest.Properties{
		"UnitFileState": "disabled", "NeedDaemonReload": true,
		"WantedBy": []string{"codex.target"}, "RequiredBy": []string{"mine.target"},
		"User": "codex-worker", "Environment": []string{"A=b c"}, "WatchdogUSec": uint64(10_000_000),
		"InactiveExitTimestampMonotonic": uint64(1), "ActiveExitTimestampMonotonic": uint64(2),
		"InactiveEnterTimestampMonotonic": uint64(3),
		"WatchdogTimestampMonotonic":      uint64(now.Nano()/1000) - 3_000_000,
	})
	d, err := m.Describe(bounded(t), worker)
	require.NoError(t, err)
	assert.True(t, d.Active())
	assert.Equal(t, "Ready: yes", d.StatusText)
	assert.Equal(t, "disabled", d.FileState)
	assert.True(t, d.NeedReload)
	assert.Equal(t, []string{"codex.target", "mine.target"}, d.WantedBy)
	assert.Equal(t, "codex-worker", d.User)
	assert.Equal(t, []string{"A=b c"}, d.Environment)
	assert.Equal(t, 10*time.Second, d.Watchdog)
	assert.GreaterOrEqual(t, d.WatchdogAge, 3*time.Second)
	assert.Empty(t, d.Listen)
	assert.Equal(t, []time.Duration{time.Microsecond, 2 * time.Microsecond, 3 * time.Microsecond},
		[]time.Duration{d.LeftInactive, d.LeftActive, d.BecameInactive})

	service.SetSilently(unitstest.Properties{"WatchdogUSec": uint64(1<<64 - 1)})
	d, err = m.Describe(bounded(t), worker)
	require.NoError(t, err)
	assert.Zero(t, d.Watchdog, "WatchdogSec=infinity is none")

	type listen struct{ Kind, Address string }
	bus.Systemd.Unit("codex-proxy.socket").SetSilently(unitstest.Properties{
		"Listen": []listen{{"Stream", "127.0.0.1:8787"}, {"Datagram", "/run/x"}, {"Stream", "/run/y"}},
	})
	d, err = m.Describe(bounded(t), "codex-proxy.socket")
	require.NoError(t, err)
	assert.Equal(t, []string{"127.0.0.1:8787", "/run/y"}, d.Listen)
	assert.Zero(t, d.WatchdogAge)

	d, err = m.Describe(bounded(t), "nowhere.service")
	require.NoError(t, err)
	assert.Equal(t, "not-found", d.LoadState)

	bus.Kill()
	_, err = m.Describe(bounded(t), worker)
	assert.ErrorContains(t, err, "cannot ask systemd about "+worker)
	_, err = m.Version(bounded(t))
	assert.ErrorContains(t, err, "cannot ask systemd for its version")
}

// authority answers as polkitd does.
type authority struct{}

func (authority) CheckAuthorization(who struct {
	Kind    string
	Details map[string]dbus.Variant
}, action string, details map[string]string, flags uint32, _ string) (result struct {
	Authorized, Challenge bool
	Details               map[string]string
}, err *dbus.Error) {
	if action != "org.freedesktop.systemd1.manage-units" || flags != 0 || who.Kind != "unix-process" {
		return result, dbus.NewError("org.freedesktop.PolicyKit1.Error.Failed", nil)
	}
	mayStart := details["unit"] == worker && details["verb"] == "start"
	result.Authorized = mayStart && who.Details["uid"].Value() == int32(995)
	return result, nil
}

func TestMayManage(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	_, err := m.MayManage(bounded(t), 995, worker, "start")
	require.ErrorIs(t, err, units.ErrNoPolkit)

	conn, err := dbus.Connect(bus.Address())
	require.NoError(t, err)
	defer conn.Close()
	const path, iface = "/org/freedesktop/PolicyKit1/Authority", "org.freedesktop.PolicyKit1.Authority"
	require.NoError(t, conn.Export(authority{}, path, iface))
	_, err = conn.RequestName("org.freedesktop.PolicyKit1", dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	for _, c := range []struct {
		uid        uint32
		unit, verb string
		may        bool
	}{
		{995, worker, "start", true}, {995, worker, "kill", false},
		{995, "dbus.service", "start", false}, {996, worker, "start", false},
	} {
		may, err := m.MayManage(bounded(t), c.uid, c.unit, c.verb)
		require.NoError(t, err)
		assert.Equal(t, c.may, may, "%+v", c)
	}
}
