package bus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSystemBusSockets(t *testing.T) {
	for env, want := range map[string][]string{
		"":                              {"/run/dbus/system_bus_socket"},
		"unix:path=/a":                  {"/a"},
		"unix:path=/a%20b,guid=1f":      {"/a b"},
		"unix:abstract=/x;unix:path=/y": {"@/x", "/y"},
	} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", env)
		got, err := systemBusSockets()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, env := range []string{"tcp:host=localhost", "/run/bus", "unix:guid=1", "unix:path=%zz"} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", env)
		_, err := systemBusSockets()
		assert.ErrorContains(t, err, "cannot use DBUS_SYSTEM_BUS_ADDRESS: ", env)
	}
}
