package daemon

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// New work waits in the socket for the next start only if the socket stays.
func TestRestarting(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	manager := units.NewManager()
	defer manager.Close()
	restarting := func() bool { return restarting(t.Context(), manager, slog.New(slog.DiscardHandler)) }
	assert.False(t, restarting(), "systemd has no such unit")
	systemd.Unit(paths.ServiceUnit).Queue("restart")
	assert.True(t, restarting(), "the socket is not systemd's")
	for _, tc := range []struct {
		service, socket string
		want            bool
	}{
		{"", "", false}, {"stop", "", false}, {"stop", "stop", false},
		{"restart", "", true}, {"try-restart", "", true}, {"restart", "start", true},
		{"restart", "restart", false}, {"try-restart", "try-restart", false}, {"restart", "stop", false},
	} {
		systemd.Unit(paths.ServiceUnit).Queue(tc.service)
		systemd.Unit(paths.SocketUnit).Queue(tc.socket)
		assert.Equal(t, tc.want, restarting(), "%+v", tc)
	}
}
