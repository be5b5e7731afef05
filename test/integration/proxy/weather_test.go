package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// afterWeather is how soon after a fact has changed, behind the return of the bus, the report must have it.
const afterWeather = 5 * time.Second // half of the wait for a bus that was never there

// A connected worker needs no bus: in every failure of the bus requests are served and
// readiness holds, and soon after its return the report is current.
func TestBusWeather(t *testing.T) {
	bed.BothSuites(t, testBusWeather)
}

func testBusWeather(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	proxy, worker := b.OnlyProcess(bed.ProxyUnit), b.Codex()
	b.Warm()
	memory := []int{bed.ProxyMemory(b, proxy.Host, "RssAnon")}
	for _, weather := range []struct {
		name  string
		storm func()
		calm  func()
	}{
		{"dbus-daemon killed", func() { killBus(b) }, func() {}},
		{"dbus restarted", func() { b.MustRun(t, "systemctl", "restart", "dbus.service") }, func() {}},
		{"dbus stopped", func() { stopBus(b) }, func() { b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service") }},
		{"dbus-daemon frozen", func() { b.MustRun(t, "systemctl", "kill", "--signal=STOP", "dbus.service") },
			func() { b.MustRun(t, "systemctl", "kill", "--signal=CONT", "dbus.service") }},
		{"bus refuses us", func() { refuse(b) }, func() { admit(b) }},
		{"daemon-reload", func() { b.MustRun(t, "systemctl", "daemon-reload") }, func() {}},
		{"daemon-reexec", func() { b.MustRun(t, "systemctl", "daemon-reexec") }, func() {}},
	} {
		flips := countFlips(b)
		weather.storm()
		bed.AssertServes(b, "storm: "+weather.name)
		weather.calm()
		bed.AssertServes(b, "calm: "+weather.name)
		right := untilReportChanges(b)
		t.Logf("%s: the report is current %s after", weather.name, right.Round(time.Millisecond))
		assert.Less(t, right, afterWeather, weather.name)
		assert.Equal(t, flips, countFlips(b), "%s: readiness depends on the bus", weather.name)
		memory = append(memory, bed.ProxyMemory(b, proxy.Host, "RssAnon"))
	}
	t.Logf("private memory, KiB: %v", memory)
	assert.Less(t, memory[len(memory)-1]-memory[0], 6144, "memory grows")
	assert.Equal(t, proxy, b.OnlyProcess(bed.ProxyUnit))
	assert.Equal(t, worker, b.Codex())
}

// A proxy that starts while the bus refuses it is soon ready with a running worker, and
// starts no stopped one.
func TestProxyRestartWithoutBus(t *testing.T) {
	bed.BothSuites(t, proxyRestartWithoutBus)
}

func proxyRestartWithoutBus(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "start_timeout = \"5s\"\n")
	startShort(b)
	refuse(b)
	began := time.Now()
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	_, back := b.Until("ready", bed.Ready)
	t.Logf("ready %s after the beginning of the restart", back.Sub(began).Round(time.Millisecond))
	bed.AssertServes(b, "refused")

	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit) // it waits for start_timeout
	status, r := b.Readyz()
	assert.Equal(t, http.StatusServiceUnavailable, status, "%+v", r)
	assert.Equal(t, "inactive", b.Properties(bed.WorkerUnit, "ActiveState")["ActiveState"])
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	b.Until("ready again", bed.Ready)
	bed.AssertServes(b, "started")
	admit(b)
	untilReportChanges(b)
}

// A worker that restarts while the bus is away is ready soon after the bus returns.
func TestRestartWithoutBus(t *testing.T) {
	bed.BothSuites(t, testRestartWithoutBus)
}

func testRestartWithoutBus(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	stopBus(b)
	b.Signal(b.Codex(), unix.SIGKILL)
	b.Until("not ready", func(status int, _ bed.Report) bool { return status == http.StatusServiceUnavailable })
	b.UntilShow(bed.WorkerUnit, "NRestarts", "1")
	b.UntilShow(bed.WorkerUnit, "ActiveState", "active")
	status, r := b.Readyz()
	assert.Equal(t, http.StatusServiceUnavailable, status, "still not ready: %+v", r)
	assert.True(t, r.Health.Liveness.Live)
	b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service")
	calm := time.Now()
	r, back := b.Until("ready", bed.Ready)
	t.Logf("ready %s after the bus is back", back.Sub(calm).Round(time.Millisecond))
	assert.Less(t, back.Sub(calm), afterWeather)
	assert.Equal(t, uint64(1), r.Workers[0].RestartsTotal)
	assert.Equal(t, "0", b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"])
}

// A thousand foreign units flap; the proxy receives none of their changes.
func TestThousandUnits(t *testing.T) {
	bed.EitherSuite(t, testThousandUnits)
}

func testThousandUnits(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	require.NoError(t, b.WriteFile("/etc/systemd/system/flap@.target", []byte("[Unit]\nDescription=Flap %i\n"), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	b.Warm()
	proxy := b.OnlyProcess(bed.ProxyUnit)
	before, flips := bed.ProxyMemory(b, proxy.Host, "RssAnon"), countFlips(b)
	flap := func(verb string) string { return "seq -f flap@%g.target 1000 | xargs systemctl " + verb }
	cpu, began := bed.UnitCPU(b, bed.ProxyUnit), time.Now()
	b.MustRun(t, "sh", "-c", flap("start"))
	b.MustRun(t, "sh", "-c", flap("stop"))
	used, window := bed.UnitCPU(b, bed.ProxyUnit)-cpu, time.Since(began)
	assert.Less(t, used.Seconds(), 0.05*window.Seconds())

	flapped := make(chan error, 1)
	go func() {
		_, _, err := b.Run(t.Context(), "sh", "-c", fmt.Sprintf("for round in $(seq %d); do ", nightly.Or(3, 1))+flap("start")+"; "+flap("stop")+"; done")
		flapped <- err
	}()
	for n := range 10 {
		bed.AssertServes(b, fmt.Sprintf("flap %d", n))
		assert.Less(t, untilReportChanges(b), afterWeather)
	}
	require.NoError(t, <-flapped)
	after := bed.ProxyMemory(b, proxy.Host, "RssAnon")
	t.Logf("1000 units up and down in %s: %s of the proxy's CPU; private memory %d, then %d KiB",
		window.Round(time.Millisecond), used, before, after)
	assert.Less(t, after-before, 4096)
	assert.Equal(t, flips, countFlips(b))
}

// killBus is the death of dbus-daemon; its socket unit starts another one.
func killBus(b *bed.Bed) {
	b.T.Helper()
	require.NoError(b.T, b.Kill(b.T.Context(), "dbus.service", unix.SIGKILL))
}

// stopBus stops the bus and its socket.
func stopBus(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "systemctl", "stop", "dbus.socket", "dbus.service")
}

const refusal = "/etc/dbus-1/system.d/refuse.conf"

// refuse makes the bus refuse the proxy's user, from its next connection on.
func refuse(b *bed.Bed) {
	b.T.Helper()
	policy := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><policy user="codex-proxy"><deny send_destination="*"/><deny receive_sender="*"/></policy></busconfig>`
	require.NoError(b.T, b.WriteFile(refusal, []byte(policy), 0o644))
	b.MustRun(b.T, "systemctl", "restart", "dbus.service")
}

func admit(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "rm", refusal)
	b.MustRun(b.T, "systemctl", "reload", "dbus.service")
}

// untilReportChanges changes a fact that only the bus reports, the status text of the
// worker, and returns how long after that the proxy publishes it.
func untilReportChanges(b *bed.Bed) time.Duration {
	b.T.Helper()
	text := "weather " + strconv.FormatInt(time.Now().UnixNano(), 10)
	b.MustRun(b.T, "env", "NOTIFY_SOCKET=/run/systemd/notify", "systemd-notify",
		"--pid="+b.Properties(bed.WorkerUnit, "MainPID")["MainPID"], "--status="+text) // returns when systemd has it
	since := time.Now()
	_, at := b.Until("the status text "+text, func(_ int, r bed.Report) bool { return r.Workers[0].StatusText == text })
	return at.Sub(since)
}

// countFlips counts the changes of readiness so far.
func countFlips(b *bed.Bed) int {
	b.T.Helper()
	return strings.Count(b.OwnLines(), `readiness changed`)
}
