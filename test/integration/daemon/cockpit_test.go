package daemon

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

const cockpitURL = "https://127.0.0.1:9090"

// The page in the real Cockpit: administrative access has all of the console, limited access the states of the units
// and the reason. It shows the death of a worker and of codex-runner, drains, makes and revokes keys, and starts no
// service that was stopped.
func TestCockpit(t *testing.T) {
	t.Parallel()
	suites := []string{"trixie"}
	if nightly.Is() {
		suites = append(suites, "bookworm")
	}
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) { testCockpit(t, suite) })
	}
}

func testCockpit(t *testing.T, suite string) {
	b := bed.NewOn(t, browserRoot(suite), bed.RealWorker, "")
	b.Start()
	// A machine of the tests has no session bus, without which the bridge of Cockpit 337 ends.
	b.MustRun(t, "sh", "-ec", `rm -f /run/nologin
echo DBUS_SESSION_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket >>/etc/environment
sed -i /^root/d /etc/cockpit/disallowed-users
useradd -m -s /bin/sh guest
printf 'root:secret\nguest:secret\n' | chpasswd
systemctl start cockpit.socket`)
	// A codex-runner that does not run: a connection to its socket starts it.
	b.MustRun(t, "sh", "-ec", `printf '[Socket]\nListenStream=/run/codex-runner/api.sock\n' >/run/systemd/system/codex-runner.socket
printf '[Service]\nExecStart=python3 /run/runner.py\n' >/run/systemd/system/codex-runner.service
cat >/run/runner.py <<'E'
import socket
listener, kept = socket.socket(fileno=3), []
while True:
    kept.append(listener.accept()[0])
    kept[-1].recv(65536)
    kept[-1].sendall(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"whole":true,"status":{"ready":true,'
        b'"running":0,"max_sessions":1,"queued":0,"max_queued":1,"disk_free":1}}\n')
E
systemctl daemon-reload
systemctl start codex-runner.socket`)
	d := startDriver(b)

	d.logIn("guest")
	d.until(`document.querySelector("#notice").textContent.includes("administrative access") && [...document.querySelectorAll("tbody th")].some(th => th.textContent === "codex-proxy.service")`)
	assert.Equal(t, float64(0), d.script(`return document.querySelectorAll("[data-verb]").length`))
	b.MustRun(t, "systemctl", "stop", "codex-worker@default")
	d.until(`[...document.querySelectorAll("tbody tr")].some(tr => tr.dataset.key === "codex-worker@default.service" && tr.textContent.includes("inactive"))`)
	b.MustRun(t, "systemctl", "start", "codex-worker@default")
	d.judge("overview")
	d.noFaults("/codex-proxy/")

	d.frame(false)
	d.call(http.MethodDelete, "/cookie", nil, nil)
	d.logIn("root")
	d.until(`document.querySelector("#ready.ready")`)
	b.Signal(b.Codex(), unix.SIGKILL)
	d.until(`document.querySelector("#ready.not")`)
	d.until(`document.querySelector("#ready.ready")`)
	d.click(`nav a[href="#workers"]`)
	d.until(`document.querySelector("button[data-verb=drain]")`)
	d.click("button[data-verb=drain]")
	d.until(`document.querySelector("button[data-verb=undrain]")`)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status", "--json"), `"drained":true`)
	d.keys("button[data-verb=undrain]", "\ue007")
	d.until(`document.querySelector("button[data-verb=drain]")`)
	d.click(`nav a[href="#keys"]`)
	d.until(`document.querySelector("#add")`)
	d.keys("#add input[name=key]", "alice")
	d.keys("#add button", "\ue007")
	d.until(`document.querySelector("dialog[open] input[readonly]")`)
	assert.Contains(t, d.script(`return document.querySelector("dialog input").value`), "sk-")
	assert.Contains(t, d.script(`return document.querySelector("dialog").textContent`), "has taken it over")
	d.keys("dialog [data-close]", "\ue007")
	d.until(`[...document.querySelectorAll("tbody th")].some(th => th.textContent === "alice")`)
	d.keys("button[data-verb=revoke]", "\ue007")
	d.keys("dialog button[data-sure]", "\ue007")
	d.until(`document.querySelector("#notice").textContent.includes("has taken it over")`)
	d.click(`nav a[href="#doctor"]`)
	d.until(`document.querySelector("tbody tr")`)
	d.judge("overview", "workers")
	if suite == "trixie" { // its Cockpit has Python
		b.MustRun(t, "systemctl", "start", "codex-runner")
		d.click(`nav a[href="#sessions"]`)
		d.until(`document.querySelector("#ready.ready")`)
		b.MustRun(t, "systemctl", "stop", "codex-runner")
		d.until(`document.querySelector("#ready.not") && document.querySelector("#ready").textContent.includes("not run")`)
	}

	// A service that was stopped stays so, and the page says it.
	b.MustRun(t, "systemctl", "stop", "codex-proxy")
	d.until(`document.querySelector("#lost").textContent !== ""`)
	d.until(`document.querySelector("#lost").textContent.includes("does not run")`)
	bed.Pause(t.Context(), 3*time.Second) // several tries of the page
	for _, unit := range []string{"codex-proxy.service", "codex-runner.service"} {
		assert.Equal(t, "inactive", b.Properties(unit, "ActiveState")["ActiveState"], unit)
	}
	b.MustRun(t, "systemctl", "start", "codex-proxy")
	d.until(`document.querySelector("#lost").textContent === ""`)
}

// logIn opens the page in Cockpit as a user.
func (d *driver) logIn(user string) {
	t := d.b.T
	t.Helper()
	d.open(cockpitURL + "/codex-proxy")
	d.until(`document.querySelector("#login-user-input") && document.querySelector("#login-user-input").offsetParent`)
	d.keys("#login-user-input", user)
	d.keys("#login-password-input", "secret")
	d.click("#login-button")
	d.frame(true)
	require.NotEmpty(t, d.script("return document.title"))
}

// frame has the driver look at the page within Cockpit, or at Cockpit itself.
func (d *driver) frame(page bool) {
	d.b.T.Helper()
	if !page {
		d.call(http.MethodPost, "/frame", map[string]any{"id": nil}, nil)
		return
	}
	const selector = `iframe[name="cockpit1:localhost/codex-proxy"]`
	d.call(http.MethodPost, "/frame", map[string]any{"id": map[string]string{elementKey: d.element(selector)}}, nil)
	d.element("#nav a")
}

// elementKey names an element in WebDriver.
const elementKey = "element-6066-11e4-a52e-4f735466cecf"
