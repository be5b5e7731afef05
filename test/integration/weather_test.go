package integration

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// afterWeather is how soon after a fact has changed, behind the return of the bus, the report must have it.
const afterWeather = 5 * time.Second // half of the wait for a bus that was never there

// A connected worker needs no bus: in every failure of the bus requests are served and
// readiness holds, and soon after its return the report is current.
func TestBusWeather(t *testing.T) {
	bothSuites(t, testBusWeather)
}

func testBusWeather(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	proxy, worker := b.onlyProcess(proxyUnit), b.codex()
	b.warm()
	memory := []int{b.rss(proxy.Host)}
	for _, weather := range []struct {
		name  string
		storm func()
		calm  func()
	}{
		{"dbus-daemon killed", b.killBus, func() {}},
		{"dbus restarted", func() { b.MustRun(t, "systemctl", "restart", "dbus.service") }, func() {}},
		{"dbus stopped", b.stopBus, func() { b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service") }},
		{"dbus-daemon frozen", func() { b.MustRun(t, "systemctl", "kill", "--signal=STOP", "dbus.service") },
			func() { b.MustRun(t, "systemctl", "kill", "--signal=CONT", "dbus.service") }},
		{"bus refuses us", b.refuse, b.admit},
		{"daemon-reload", func() { b.MustRun(t, "systemctl", "daemon-reload") }, func() {}},
		{"daemon-reexec", func() { b.MustRun(t, "systemctl", "daemon-reexec") }, func() {}},
	} {
		flips := b.flips()
		weather.storm()
		b.assertServes("storm: " + weather.name)
		weather.calm()
		b.assertServes("calm: " + weather.name)
		right := b.untilReportChanges()
		t.Logf("%s: the report is current %s after", weather.name, right.Round(time.Millisecond))
		assert.Less(t, right, afterWeather, weather.name)
		assert.Equal(t, flips, b.flips(), "%s: readiness depends on the bus", weather.name)
		memory = append(memory, b.rss(proxy.Host))
	}
	t.Logf("resident memory, KiB: %v", memory)
	assert.Less(t, memory[len(memory)-1]-memory[0], 6144, "memory grows")
	assert.Equal(t, proxy, b.onlyProcess(proxyUnit))
	assert.Equal(t, worker, b.codex())
}

// A proxy that starts while the bus refuses it is soon ready with a running worker, and
// starts no stopped one.
func TestProxyRestartWithoutBus(t *testing.T) {
	bothSuites(t, proxyRestartWithoutBus)
}

func proxyRestartWithoutBus(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "start_timeout = \"5s\"\n")
	b.startShort()
	b.refuse()
	began := time.Now()
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	_, back := b.until("ready", ready)
	t.Logf("ready %s after the beginning of the restart", back.Sub(began).Round(time.Millisecond))
	b.assertServes("refused")

	b.MustRun(t, "systemctl", "stop", workerUnit)
	b.MustRun(t, "systemctl", "restart", proxyUnit) // it waits for start_timeout
	status, r := b.readyz()
	assert.Equal(t, http.StatusServiceUnavailable, status, "%+v", r)
	assert.Equal(t, "inactive", b.show(workerUnit, "ActiveState")["ActiveState"])
	b.MustRun(t, "systemctl", "start", workerUnit)
	b.until("ready again", ready)
	b.assertServes("started")
	b.admit()
	b.untilReportChanges()
}

// A worker that restarts while the bus is away is ready soon after the bus returns.
func TestRestartWithoutBus(t *testing.T) {
	bothSuites(t, testRestartWithoutBus)
}

func testRestartWithoutBus(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	b.stopBus()
	b.signal(b.codex(), unix.SIGKILL)
	b.until("not ready", func(status int, _ report) bool { return status == http.StatusServiceUnavailable })
	b.untilShow(workerUnit, "NRestarts", "1")
	b.untilShow(workerUnit, "ActiveState", "active")
	status, r := b.readyz()
	assert.Equal(t, http.StatusServiceUnavailable, status, "still not ready: %+v", r)
	assert.True(t, r.Health.Liveness.Live)
	b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service")
	calm := time.Now()
	r, back := b.until("ready", ready)
	t.Logf("ready %s after the bus is back", back.Sub(calm).Round(time.Millisecond))
	assert.Less(t, back.Sub(calm), afterWeather)
	assert.Equal(t, uint64(1), r.Workers[0].RestartsTotal)
	assert.Equal(t, "0", b.show(proxyUnit, "NRestarts")["NRestarts"])
}

// A thousand foreign units flap; the proxy receives none of their changes.
func TestThousandUnits(t *testing.T) {
	bothSuites(t, testThousandUnits)
}

func testThousandUnits(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	require.NoError(t, b.WriteFile("/etc/systemd/system/flap@.target", []byte("[Unit]\nDescription=Flap %i\n"), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.start()
	b.warm()
	proxy := b.onlyProcess(proxyUnit)
	before, flips := b.rss(proxy.Host), b.flips()
	flap := func(verb string) string { return "seq -f flap@%g.target 1000 | xargs systemctl " + verb }
	cpu, began := b.cpu(proxyUnit), time.Now()
	b.MustRun(t, "sh", "-c", flap("start"))
	b.MustRun(t, "sh", "-c", flap("stop"))
	used, window := b.cpu(proxyUnit)-cpu, time.Since(began)
	assert.Less(t, used.Seconds(), 0.05*window.Seconds())

	flapped := make(chan error, 1)
	go func() {
		_, _, err := b.Run(t.Context(), "sh", "-c", "for round in 1 2 3; do "+flap("start")+"; "+flap("stop")+"; done")
		flapped <- err
	}()
	for n := range 10 {
		b.assertServes(fmt.Sprintf("flap %d", n))
		assert.Less(t, b.untilReportChanges(), afterWeather)
	}
	require.NoError(t, <-flapped)
	after := b.rss(proxy.Host)
	t.Logf("1000 units up and down in %s: %s of the proxy's CPU; resident memory %d, then %d KiB",
		window.Round(time.Millisecond), used, before, after)
	assert.Less(t, after-before, 4096)
	assert.Equal(t, flips, b.flips())
}

// warm lets the heap grow to the size that requests need.
func (b *bed) warm() {
	b.t.Helper()
	for n := range 30 {
		b.assertServes(fmt.Sprintf("warm-up %d", n))
	}
}

// killBus is the death of dbus-daemon; its socket unit starts another one.
func (b *bed) killBus() {
	b.t.Helper()
	require.NoError(b.t, b.Kill(b.t.Context(), "dbus.service", unix.SIGKILL))
}

// stopBus stops the bus and its socket.
func (b *bed) stopBus() {
	b.t.Helper()
	b.MustRun(b.t, "systemctl", "stop", "dbus.socket", "dbus.service")
}

const refusal = "/etc/dbus-1/system.d/refuse.conf"

// refuse makes the bus refuse the proxy's user, from its next connection on.
func (b *bed) refuse() {
	b.t.Helper()
	policy := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><policy user="codex-proxy"><deny send_destination="*"/><deny receive_sender="*"/></policy></busconfig>`
	require.NoError(b.t, b.WriteFile(refusal, []byte(policy), 0o644))
	b.MustRun(b.t, "systemctl", "restart", "dbus.service")
}

func (b *bed) admit() {
	b.t.Helper()
	b.MustRun(b.t, "rm", refusal)
	b.MustRun(b.t, "systemctl", "reload", "dbus.service")
}

// assertServes asserts that the proxy is ready and answers at once.
func (b *bed) assertServes(when string) {
	b.t.Helper()
	status, r := b.readyz()
	assert.Equal(b.t, http.StatusOK, status, "%s: %s", when, r.Health.Readiness.Details)
	require.NoError(b.t, b.models.Script("text fair enough"))
	status, _, body := b.chat(false, when)
	assert.Equal(b.t, http.StatusOK, status, "%s: %s", when, body)
}

// untilReportChanges changes a fact that only the bus reports, the status text of the
// worker, and returns how long after that the proxy publishes it.
func (b *bed) untilReportChanges() time.Duration {
	b.t.Helper()
	text := "weather " + strconv.FormatInt(time.Now().UnixNano(), 10)
	b.MustRun(b.t, "env", "NOTIFY_SOCKET=/run/systemd/notify", "systemd-notify",
		"--pid="+b.show(workerUnit, "MainPID")["MainPID"], "--status="+text) // returns when systemd has it
	since := time.Now()
	_, at := b.until("the status text "+text, func(_ int, r report) bool { return r.Workers[0].StatusText == text })
	return at.Sub(since)
}

// flips counts the changes of readiness so far.
func (b *bed) flips() int {
	b.t.Helper()
	return strings.Count(b.ownLines(), `readiness changed`)
}

// rss is the resident memory of a process, in KiB.
func (b *bed) rss(pid int) int { return b.memory(pid, "VmRSS") }

// memory is a figure of /proc/PID/status, in KiB.
func (b *bed) memory(pid int, name string) int {
	b.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b.t, err)
	_, rest, ok := strings.Cut(string(data), name+":")
	require.True(b.t, ok)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(b.t, err)
	return n
}
