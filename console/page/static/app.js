// The frame: the session, the stream of changes, and the orders.
import { t } from "./texts.js";
import { el, morph } from "./dom.js";
import { pages } from "./pages.js";

/** @typedef {import("../../../daemon/operators/contract.js").Event} Event */

const $ = id => document.getElementById(id);
const state = { show: "all", find: "", usageBy: "hour", readOnly: false };
const maxRequests = 500, maxPoints = 180;

// The session. A link is valid once; what it gives stays in this tab alone.
async function begin() {
  const token = location.hash.slice(1);
  if (token.length > 20) {
    history.replaceState(null, "", "#overview");
    sessionStorage.removeItem("session");
    const given = await call("/api/session", { token });
    sessionStorage.setItem("session", given.session);
    sessionStorage.setItem("read-only", given.read_only ? "yes" : "");
  }
  state.readOnly = sessionStorage.getItem("read-only") === "yes";
  if (!sessionStorage.getItem("session")) throw new Error(t.open);
}

const headers = () => ({ Authorization: `Bearer ${sessionStorage.getItem("session") || ""}` });

async function call(path, body) {
  const r = await fetch(path, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const answer = await r.json();
  if (!r.ok) throw new Error(answer.error);
  return answer;
}

const order = (verb, words) => call("/api/do", { verb, words });

/** @param {Event} event */
function take(event) {
  for (const part of ["status", "accounts", "keys", "remotes", "dependencies"]) if (event[part] !== undefined) state[part] = event[part];
  if (event.whole) Object.assign(state, { requests: [], history: undefined }); // of another process
  if (event.requests) state.requests = (state.requests || []).concat(event.requests).slice(-maxRequests);
  if (event.history) {
    const points = new Map((!state.history ? [] : state.history.points).map(p => [p.at, p]));
    for (const p of event.history.points) points.set(p.at, p);
    state.history = { period_s: event.history.period_s, points: [...points.values()].slice(-maxPoints) };
  }
}

async function follow() {
  const r = await fetch("/api/watch", { headers: headers() });
  if (!r.ok) throw Object.assign(new Error((await r.json()).error), { lost: r.status === 401 });
  notice(state.readOnly ? t.readOnly : "");
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) take(JSON.parse(line));
    draw();
  }
}

async function followAlways() {
  for (let fails = 0; ;) {
    try {
      await follow();
      fails = 0;
    } catch (e) {
      if (e.lost) return notice(t.open);
      notice(++fails > 20 ? t.ended : t.gone + e.message);
    }
    await new Promise(again => setTimeout(again, Math.min(200 * 2 ** fails, 5000)));
  }
}

function notice(text) {
  if ($("notice").textContent !== text) $("notice").textContent = text;
}

// What is shown.
const current = () => Object.hasOwn(pages, location.hash.slice(1)) ? location.hash.slice(1) : "overview";
let drawn = false;

function draw() {
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => {
    drawn = false;
    const page = current();
    document.title = `${t.pages[page]} – codex-proxy`;
    morph($("nav"), Object.keys(pages).map(p => el("a", { href: `#${p}`, "aria-current": p === page ? "page" : null, "data-key": p }, t.pages[p])));
    const content = state.status ? pages[page](state) : [el("p", null, t.loading)];
    morph($("main"), [el("h1", null, t.pages[page]), ...content.filter(Boolean).map((c, i) => { c.dataset.key = `${page}${i}`; return c; })]);
  });
}

async function loadUsage() {
  if (current() !== "keys" || !sessionStorage.getItem("session")) return;
  const by = state.usageBy;
  const usage = await order("usage", { since: by === "hour" ? "7d" : "30d", by: `${by},key` }).catch(e => ({ error: e.message }));
  if (by === state.usageBy) state.usage = usage;
  draw();
}

async function examine() {
  if (state.report === "running") return;
  state.report = "running";
  draw();
  state.report = await order("doctor", {}).catch(e => ({ error: e.message }));
  draw();
}

function arrive() {
  draw();
  loadUsage();
  if (current() === "doctor" && !state.report) examine();
}

// Orders.
async function carryOut(verb, words, what) {
  try {
    const answer = await order(verb, words);
    notice(answer.outcome ? `${what}: ${answer.outcome}` : t.done(what));
    return answer;
  } catch (e) {
    notice(`${what}: ${e.message}`);
    return null;
  }
}

function ask(title, text, ...more) {
  const dialog = $("dialog");
  dialog.replaceChildren(el("h2", { id: "dialog-title" }, title), el("p", null, text), ...more);
  dialog.showModal();
}

const closer = text => el("button", { type: "button", "data-close": true }, text);

async function addKey(form) {
  const words = Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, v.trim()]).filter(([, v]) => v));
  const made = await carryOut("add", words, t.verb(t.add, words.key));
  if (!made) return;
  form.reset();
  ask(t.newKey(words.key), t.newKeyText, el("input", { readonly: true, value: made.key, "aria-label": t.newKey(words.key) }), closer(t.close));
  $("dialog").querySelector("input").select();
}

addEventListener("click", async event => {
  const b = event.target.closest("button");
  if (!b) return;
  if (b.dataset.close !== undefined) {
    $("dialog").close();
    $("dialog").replaceChildren(); // a new key must not stay on the page
  }
  if (b.id === "examine") examine();
  if (b.dataset.find) {
    state.find = state.find === b.dataset.find ? "" : b.dataset.find;
    draw();
  }
  if (!b.dataset.verb) return;
  const verb = b.dataset.verb, words = JSON.parse(b.dataset.words), sure = b.dataset.sure;
  if (verb === "revoke" && !sure) {
    const yes = el("button", { type: "button", "data-verb": verb, "data-words": b.dataset.words, "data-sure": "yes", "data-close": true }, t.revoke);
    return ask(t.revokeAsk(words.key), t.revokeText, yes, closer(t.cancel));
  }
  await carryOut(verb, words, t.verb(t[verb], words.worker || words.account || words.key));
});

addEventListener("submit", event => {
  event.preventDefault();
  if (event.target.id === "add") addKey(event.target);
  if (event.target.id === "find") {
    state.find = event.target.elements.id.value.trim();
    draw();
  }
});

addEventListener("change", event => {
  if (event.target.id === "show") state.show = event.target.value;
  if (event.target.id === "by") {
    state.usageBy = event.target.value;
    state.usage = undefined;
    loadUsage();
  }
  draw();
});

$("dialog").addEventListener("close", () => $("dialog").replaceChildren());
$("skip").textContent = t.skip;
$("skip").addEventListener("click", event => { event.preventDefault(); $("main").focus(); });
addEventListener("hashchange", () => location.hash.length > 21 ? location.reload() : arrive());
setInterval(draw, 10_000); // times go on
setInterval(loadUsage, 60_000);

draw();
begin().then(() => { arrive(); return followAlways(); }).catch(e => notice(e.message));
