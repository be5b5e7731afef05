package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// ownUnit is a unit as an operator writes it, for a server that does not speak sd_notify(3).
const ownUnit = `[Service]
Type=notify
ExecStart=/usr/bin/codex-proxy notify-exec --probe grpc:` + temporalAddr + ` -- \
    ` + temporalPath + ` server start-dev --ip 127.0.0.1 --headless
KillMode=mixed
Restart=always
WatchdogSec=10s
WatchdogSignal=SIGKILL
`

// In a unit of one's own notify-exec asks a server for its health by gRPC: the unit is
// ready when it serves, and a hang ends, although the server's port accepts connections.
func TestNotifyExecGRPC(t *testing.T) { bothSuites(t, testNotifyExecGRPC) }

func testNotifyExecGRPC(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "",
		machine.Bind{Source: requireTemporal(t), Target: temporalPath, ReadOnly: true})
	require.NoError(t, b.WriteFile("/etc/systemd/system/own.service", []byte(ownUnit), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	own := dependency{bed: b, name: "own", unit: "own.service"}
	own.start()
	assert.Contains(t, b.show(own.unit, "StatusText")["StatusText"], "SERVING")
	b.MustRun(t, temporalPath, "operator", "cluster", "health", "--address", temporalAddr)
	for range 2 {
		run, at := own.run(), clock()
		own.stopServer(own.server(), temporalAddr)
		t.Logf("hang to ready: %s", own.readyAgain(run)-at)
		b.MustRun(t, temporalPath, "operator", "cluster", "health", "--address", temporalAddr)
	}
	assert.Contains(t, b.journal(own.unit), "Watchdog timeout")
	own.stop()
}
