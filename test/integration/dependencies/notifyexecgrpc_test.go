package dependencies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
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
func TestNotifyExecGRPC(t *testing.T) { bed.EitherSuite(t, testNotifyExecGRPC) }

func testNotifyExecGRPC(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "",
		machine.Bind{Source: requireTemporal(t), Target: temporalPath, ReadOnly: true})
	require.NoError(t, b.WriteFile("/etc/systemd/system/own.service", []byte(ownUnit), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	own := bed.Dependency{Bed: b, Name: "own", Unit: "own.service"}
	own.Start()
	assert.Contains(t, b.Properties(own.Unit, "StatusText")["StatusText"], "SERVING")
	b.MustRun(t, temporalPath, "operator", "cluster", "health", "--address", temporalAddr)
	for range 2 {
		run, at := own.RunID(), clock()
		stopServer(own, serverProcess(own), temporalAddr)
		t.Logf("hang to ready: %s", own.ReadyAgain(run)-at)
		b.MustRun(t, temporalPath, "operator", "cluster", "health", "--address", temporalAddr)
	}
	assert.Contains(t, b.UnitJournal(own.Unit), "Watchdog timeout")
	stopDependency(own)
}
