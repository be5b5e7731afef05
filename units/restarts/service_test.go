package restarts

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// A reset that systemd refuses is tried again, with one warning.
func TestRestartDelayIsResetInTheEnd(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	systemd.Refuse("org.freedesktop.DBus.Error.NoReply")
	var log bytes.Buffer
	manager := units.NewManager()
	defer manager.Close()
	logger := slog.New(slog.NewTextHandler(&log, nil))
	ended := make(chan error, 1)
	go func() { ended <- Service{manager, logger}.ResetDelay(t.Context(), time.Millisecond) }()
	assert.Eventually(t, func() bool { return systemd.Calls("ResetFailedUnit") > 2 }, time.Minute, time.Millisecond)
	systemd.Refuse("")
	assert.NoError(t, <-ended)
	assert.Equal(t, 1, strings.Count(log.String(), "cannot reset the service's own restart delay"), log.String())
}

// New work waits in the socket for the next start only if the socket stays.
func TestRestarting(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	manager := units.NewManager()
	defer manager.Close()
	restarting := func() bool { return Service{manager, slog.New(slog.DiscardHandler)}.Pending(t.Context()) }
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
