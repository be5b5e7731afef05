package daemon

import (
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// browserRoot is a Debian with a browser, and with Cockpit.
func browserRoot(suite string) machine.Root {
	return machine.Debian(suite, "chromium", "chromium-driver", "fonts-dejavu-core", "cockpit-ws", "cockpit-bridge",
		"cockpit-system", "sudo")
}

// noFaults asserts that the browser has reported no error of files below an address, and nothing against the policy of
// the page.
func (d *driver) noFaults(of string) {
	d.b.T.Helper()
	var logs []struct{ Level, Message string }
	d.call(http.MethodPost, "/se/log", map[string]string{"type": "browser"}, &logs)
	for _, l := range logs {
		assert.False(d.b.T, l.Level == "SEVERE" && strings.Contains(l.Message, of), l.Message)
	}
}

// remote has a person work with the remote "build" by the keyboard alone.
func (d *driver) remote() {
	t := d.b.T
	t.Helper()
	answer := func(word string, steps ...string) {
		require.NoError(t, d.b.Models.Add(modelserver.Script{Word: word, Times: 1, Steps: steps}))
	}
	d.click(`nav a[href="#remotes"]`)
	d.until(`document.querySelector("button[data-talk=build]")`)
	assert.Equal(t, "H1", d.script("return document.activeElement.tagName"), "the change of the page is read out")
	d.keys("button[data-talk=build]", "\ue007")
	d.until(`document.querySelector("#send textarea")`)
	answer("a-wish", `call exec_command {"cmd":"touch /srv/build/made","sandbox_permissions":"require_escalated","justification":"MAY-I"}`)
	d.keys("#send textarea", "a-wish")
	d.keys("#send button", "\ue007")
	d.until(`document.querySelector(".question button[data-verb=approve]")`)
	assert.Contains(t, d.script(`return document.querySelector(".question pre").textContent`), "touch /srv/build/made")
	answer("a-wish", "text it has run")
	bed.Pause(t.Context(), 600*time.Millisecond) // before, a click is taken for one on what was there before the question
	d.keys(`.question button[data-verb=approve]`, "\ue007")
	d.until(`[...document.querySelectorAll("#talk li")].some(li => li.textContent.includes("it has run"))`)
	d.until(`!document.querySelector(".question")`)
	d.b.MustRun(t, "test", "-e", "/srv/build/made")
	answer("long", "text a beginning", "gate never", "text an end")
	d.keys("#send textarea", "long")
	d.keys("#send button", "\ue007")
	d.until(`[...document.querySelectorAll("#talk li")].some(li => li.textContent.includes("a beginning"))`)
	d.keys("button[data-verb=interrupt]", "\ue007")
	d.until(`document.querySelector("button[data-verb=interrupt]:disabled")`)
}

// looks are the ways in which a page is shown.
var looks = map[string]func(d *driver){
	"light": func(d *driver) { d.emulate("light", 1280) },
	"dark":  func(d *driver) { d.emulate("dark", 1280) },
	"phone": func(d *driver) { d.emulate("light", 390) },
}

func (d *driver) emulate(scheme string, width int) {
	d.b.T.Helper()
	d.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []any{
		map[string]string{"name": "prefers-color-scheme", "value": scheme},
		map[string]string{"name": "prefers-reduced-motion", "value": "reduce"}}})
	d.cdp("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1,
		"mobile": width < 500})
}

// cdp gives an order of the DevTools protocol.
func (d *driver) cdp(order string, parameters map[string]any) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": order, "params": parameters}, nil)
}

// judge has axe-core judge pages, in each look, and checks that they fit, and that all of their actions are reached by
// the keyboard.
func (d *driver) judge(pages ...string) {
	t := d.b.T
	t.Helper()
	d.loadAxe()
	for _, page := range pages {
		d.click(`nav a[href="#` + page + `"]`)
		d.until(`document.querySelector('nav a[aria-current]').hash === "#` + page + `" && document.querySelector("h1")`)
		if page == "doctor" {
			d.until(`document.querySelector("tbody tr")`)
		}
		for look, set := range looks {
			set(d)
			assert.Equal(t, true, d.script("return document.documentElement.scrollWidth <= innerWidth"), "%s fits, %s", page, look)
			assert.Empty(t, d.violations(), "%s, %s", page, look)
		}
		assert.Equal(t, "", d.script(`return [...document.querySelectorAll("[data-verb], [data-talk], [data-log], [data-find], nav a, summary")]
			.filter(e => e.tabIndex < 0 || !["BUTTON", "A", "SUMMARY"].includes(e.tagName)).map(e => e.outerHTML).join(" ")`), "the keyboard reaches all actions")
	}
	looks["light"](d)
}

// loadAxe puts axe-core into the page.
func (d *driver) loadAxe() {
	d.b.T.Helper()
	axe, err := os.ReadFile(bed.Made(d.b.T, "CODEX_PROXY_TEST_AXE"))
	require.NoError(d.b.T, err)
	d.script(string(axe) + "\nreturn true")
}

// violations are what axe-core finds on the page.
func (d *driver) violations() (faults []string) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/execute/async", map[string]any{"args": []any{}, "script": `
const done = arguments[0];
axe.run(document, { preload: false }).then(r => done(r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" "))), e => done([String(e)]));`},
		&faults)
	return faults
}

// afar enters a key on the page for other machines.
func (d *driver) afar() {
	t, b := d.b.T, d.b
	t.Helper()
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "phone", "--console=operate", "--remotes=build"))
	b.MustRun(t, "sh", "-ec", `printf '\n[console]\norigins = ["`+afarURL+`"]\n' >>`+bed.ConfigFile+`; systemctl start codex-console.socket`)
	d.open(afarURL)
	d.until(`document.querySelector("#enter input")`)
	d.loadAxe()
	for look, set := range looks {
		set(d)
		assert.Empty(t, d.violations(), "the form, %s", look)
	}
	d.keys("#enter input", "sk-codex-wrong")
	d.keys("#enter button", "\ue007")
	d.until(`document.querySelector("#notice").textContent.includes("no API key")`)
	d.script(`document.querySelector("#enter input").value = ""`)
	d.keys("#enter input", key)
	d.keys("#enter button", "\ue007")
	d.element("#ready.ready") // not a script: the page loads again, which would cut it
	assert.Nil(t, d.script(`return document.querySelector('nav a[href="#doctor"]')`), "orders of root are not offered")
	d.click(`nav a[href="#remotes"]`)
	d.until(`document.querySelector("button[data-talk=build]")`)
	d.keys("button[data-talk=build]", "\ue007")
	d.until(`[...document.querySelectorAll("#talk li")].some(li => li.textContent.includes("it has run"))`)
	d.judge("overview", "keys", "remotes")
	d.notifications()
}

// notifications turns them on, as far as a browser without a push service can, and has the service worker show one.
func (d *driver) notifications() {
	t := d.b.T
	t.Helper()
	var manifest struct {
		URL    string
		Errors []any
	}
	d.call(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": "Page.getAppManifest", "params": map[string]any{}}, &manifest)
	assert.Equal(t, afarURL+"/app.webmanifest", manifest.URL)
	assert.Empty(t, manifest.Errors)
	assert.Equal(t, "default", d.script("return Notification.permission"), "nobody is asked before a click")
	d.cdp("Browser.setPermission", map[string]any{"permission": map[string]string{"name": "notifications"}, "setting": "denied", "origin": afarURL})
	d.keys("button[data-push=on]", "\ue007")
	d.until(`document.querySelector("#push").textContent.includes("forbids notifications")`)
	d.cdp("Browser.setPermission", map[string]any{"permission": map[string]string{"name": "notifications"}, "setting": "granted", "origin": afarURL})
	d.call(http.MethodPost, "/refresh", map[string]any{}, nil)
	d.element("button[data-push=on]")
	d.script("const late = setTimeout; globalThis.setTimeout = (f, ms) => late(f, Math.min(ms, 2000))") // this browser never ends to try
	d.keys("button[data-push=on]", "\ue007")
	d.until(`document.querySelector("#notice").textContent`)
	assert.Contains(t, d.script(`return document.querySelector("#notice").textContent`), "cannot reach its own push service")
	assert.Equal(t, afarURL+"/sw.js", d.async("navigator.serviceWorker.ready.then(r => r.active.scriptURL)"))
	assert.Equal(t, `[["build asks","ls",1],["build asks","this was answered before, or is more than an hour old: open the page",0]]`, d.async(worker))
}

// worker runs the service worker in the page: a push comes, and a person presses a button of a notification that is too old.
const worker = `(async () => {
  const shown = [];
  Object.assign(globalThis, { skipWaiting() {}, registration: { showNotification: async (title, o) => { shown.push([title, o.body, (o.actions || []).length]); } } });
  await import("./sw.js");
  const happens = (type, more) => {
    const event = new Event(type), work = [];
    Object.assign(event, { waitUntil: w => work.push(w) }, more);
    dispatchEvent(event);
    return Promise.all(work);
  };
  const data = { title: "build asks", body: "ls", tag: "build q", token: "x", actions: [{ action: "accept", title: "Approve" }] };
  await happens("push", { data: { json: () => data } });
  await happens("notificationclick", { action: "accept", notification: { close() {}, data } });
  return JSON.stringify(shown);
})()`

// async is the value of a promise.
func (d *driver) async(promise string) (value any) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/execute/async", map[string]any{"args": []any{}, "script": "const done = arguments[0]; (" + promise + ").then(done, e => done(String(e)));"}, &value)
	return value
}

// crowd measures an update of the page of 500 requests, and of 50 workers with their accounts.
func (d *driver) crowd() {
	t := d.b.T
	t.Helper()
	var took map[string]float64
	d.call(http.MethodPost, "/execute/async", map[string]any{"args": []any{}, "script": strings.TrimSpace(crowd)}, &took)
	t.Logf("an update of the page takes, in ms: %v", took)
}

const crowd = `
const done = arguments[0];
(async () => {
  const { pagesOf } = await import("./pages.js"), { morph } = await import("./dom.js");
  const request = n => ({ number: n, at: new Date().toISOString(), request_id: "req_" + n, method: "POST", route: "/v1/responses", status: 200, outcome: n % 9 ? "ok" : "rate_limit_exceeded",
    key: "alice", model: "gpt-5", worker: "default", duration_ms: 1234, first_text_ms: 321, input_tokens: 1000, output_tokens: 200 });
  const worker = n => ({ name: "w" + n, ready: true, reason: "ready", drained: false, active_state: "active", sub_state: "running", inflight: 1, restarts_total: n });
  const account = n => ({ name: "w" + n, limits: [{ window: "5h", used_ratio: 0.4 }, { window: "7d", used_ratio: 0.7 }], state: "available" });
  const session = n => ({ id: "s" + n, state: "closed", created: new Date().toISOString(), owner: { uid: 0, name: "root" }, commands: [{ number: 1, state: "ended", args: ["make", "test"], outcome: { outcome: "succeeded", text: "It succeeded." } }] });
  const many = (n, make) => Array.from({ length: n }, (_, i) => make(i + 1));
  const state = { service: "codex-proxy", show: "all", find: "", usageBy: "hour", off: false, requests: many(500, request), sessions: many(1000, session), runner: { ready: true },
    status: { health: { readiness: { ready: true, reason: "ready", since: new Date().toISOString() } }, queue: { depth: 0, limit: 1 }, workers: many(50, worker) },
    accounts: { rotation: "ordered", accounts: many(50, account) } };
  const main = document.getElementById("main"), pages = pagesOf(state), took = {}, parts = [];
  const show = page => {
    const began = performance.now();
    morph(main, pages[page](state).filter(Boolean).map((c, i) => { c.dataset.key = page + i; return c; }));
    parts.push(performance.now() - began);
    main.getBoundingClientRect();
    return performance.now() - began;
  };
  const change = {
    requests: i => { state.requests = state.requests.slice(1).concat(request(501 + i)); },
    workers: i => { state.status = { ...state.status, workers: state.status.workers.map((w, n) => n === 7 ? { ...w, inflight: i } : w) }; },
    sessions: i => { state.sessions = state.sessions.map((s, n) => n === 7 ? { ...s, state: i % 2 ? "idle" : "active" } : s); },
  };
  for (const name of [...Object.keys(change), "sessions, all rows"]) {
    const [page, all] = name.split(", ");
    state.more = Boolean(all);
    show(page);
    const times = many(9, i => { change[page](i); return show(page); }).sort((a, b) => a - b);
    took[name] = Math.round(times[4] * 10) / 10;
    took[name + " without layout"] = Math.round(parts.splice(0).slice(1).sort((a, b) => a - b)[4] * 10) / 10;
  }
  return took;
})().then(done, e => done({ [String(e)]: 0 }));`
