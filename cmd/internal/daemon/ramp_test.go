package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/notify"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// What systemd did not do once, it is asked for again, with one warning.
func TestRampIsResetInTheEnd(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	systemd.Refuse("org.freedesktop.DBus.Error.NoReply")
	var log bytes.Buffer
	d := &Daemon{
		cfg: &config.Config{ResetAfter: time.Millisecond}, notifier: &notify.Notifier{}, manager: units.NewManager(),
		logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	defer d.manager.Close()
	ended := make(chan error, 1)
	go func() { ended <- d.resetRamp(t.Context()) }()
	assert.Eventually(t, func() bool { return systemd.Calls("ResetFailedUnit") > 2 }, bound, time.Millisecond)
	systemd.Refuse("")
	assert.NoError(t, received(t, ended))
	assert.Equal(t, 1, strings.Count(log.String(), "cannot reset the service's own restart delay"), log.String())
}
