package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
	go func() { ended <- resetRestartDelay(t.Context(), time.Millisecond, manager, logger) }()
	assert.Eventually(t, func() bool { return systemd.Calls("ResetFailedUnit") > 2 }, bound, time.Millisecond)
	systemd.Refuse("")
	assert.NoError(t, received(t, ended))
	assert.Equal(t, 1, strings.Count(log.String(), "cannot reset the service's own restart delay"), log.String())
}
