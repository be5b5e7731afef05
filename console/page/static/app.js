// The frame: the streams, the orders, and what is drawn.
import { t } from "./texts.js";
import { el, morph } from "./dom.js";
import { pagesOf } from "./pages.js";
import { state, take, takeTalk } from "./state.js";

const host = await import(globalThis.cockpit ? "./cockpit.js" : "./http.js");
const maxLog = 65536;
const $ = id => document.getElementById(id);

function taken(events) {
  events.forEach(take);
  draw();
}

// The stream of everything. What comes of another service, in Cockpit, is no sign of life of this one.
async function followAlways() {
  for (let fails = 0; ;) {
    const began = Date.now();
    try {
      await host.watch(events => {
        if (Date.now() - began > 5000) fails = 0; // pages that take the place of one another wait longer each time
        Object.assign(state, { lost: "", seen: Date.now() });
        taken(events);
      }, taken);
      state.lost = t.gone;
    } catch (e) {
      // Nobody listens at the console's port; other errors have the reason, such as a service that is down.
      state.lost = e.final ? e.message : e instanceof TypeError && fails > 20 && !state.keyed ? t.ended(state.service) : `${t.gone} ${e.message || ""}`;
      if (e.over && state.keyed) Object.assign(state, { asks: true, lost: "", notice: e.message });
      if (e.final) return draw();
    }
    draw();
    await new Promise(again => setTimeout(again, Math.min(200 * 2 ** fails++, 5000)));
  }
}

// What is shown.
const pages = () => pagesOf(state);
const current = () => {
  const all = Object.keys(pages()), named = location.hash.slice(1);
  return all.includes(named) ? named : all[0];
};
let drawn = false, arrived = false;

function draw() {
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => {
    drawn = false;
    show();
  });
}

// appeared is when each question came onto the page.
const appeared = new WeakMap();

function show() {
  const page = current();
  state.off = state.readOnly || Boolean(state.lost);
  document.title = `${t.pages[page]} – ${state.service || "codex"}`;
  $("name").textContent = state.service;
  for (const [id, text] of [["lost", state.lost], ["notice", state.notice || state.reason]]) if ($(id).textContent !== text) $(id).textContent = text;
  const links = Object.keys(pages()).map(p => el("a", { href: `#${p}`, "aria-current": p === page ? "page" : null, "data-key": p }, t.pages[p]));
  if (state.keyed) links.push(el("button", { type: "button", id: "leave", "data-key": "leave" }, t.leave));
  morph($("nav"), state.asks ? [] : links);
  const scroll = $("talk") || $("log"), atEnd = !scroll || scroll.scrollTop + scroll.clientHeight >= scroll.scrollHeight - 8;
  if (state.asks) return morph($("main"), [enterForm()]);
  const known = state.status || state.units || page === "sessions" && (state.runner || state.runner_lost);
  const content = known ? pages()[page](state) : [el("p", null, t.loading)];
  morph($("main"), [el("h1", { tabindex: -1 }, t.pages[page]), ...content.filter(Boolean).map((c, i) => { c.dataset.key = `${page}${i}`; return c; })]);
  for (const q of document.querySelectorAll(".question")) if (!appeared.has(q)) appeared.set(q, Date.now());
  const shown = $("talk") || $("log");
  if (shown && atEnd) shown.scrollTop = shown.scrollHeight;
  if (arrived) $("main").querySelector("h1").focus(); // so that the change of the page is read out
  arrived = false;
}

// enterForm asks for a key. A page keeps what was typed.
const enterForm = () => el("section", { "data-key": "enter" }, el("h1", null, t.enterTitle), el("p", null, t.enterText),
  el("form", { id: "enter", "aria-label": t.enterTitle }, el("label", null, t.apiKey, el("input", { name: "key", type: "password", autocomplete: "current-password", required: true })),
    el("button", { type: "submit" }, t.enter)));

async function enter(form) {
  try {
    await host.enter(form.elements.key.value.trim());
    location.reload();
  } catch (e) {
    state.notice = e.message;
    draw();
  }
}

async function loadUsage() {
  if (current() !== "keys" || state.lost || !state.status) return;
  const by = state.usageBy;
  const usage = await host.order("usage", { since: by === "hour" ? "7d" : "30d", by: `${by},key` }).catch(e => ({ error: e.message }));
  if (by === state.usageBy) state.usage = usage;
  draw();
}

async function examine() {
  if (state.report === "running") return;
  state.report = "running";
  draw();
  state.report = await host.order("doctor", {}).catch(e => ({ error: e.message }));
  draw();
}

function arrive() {
  draw();
  loadUsage();
  if (current() === "doctor" && !state.report) examine();
}

// One stream more: the thread of a remote, or the output of a command.
let reading;

async function open(kind, verb, words, begin, each) {
  if (reading) reading.abort();
  const mine = reading = new AbortController();
  const shown = state[kind] = { ...words, ...begin };
  draw();
  const still = () => reading === mine;
  try {
    await host.follow(verb, words, values => {
      if (!still()) return;
      values.forEach(v => each(shown, v));
      draw();
    }, mine.signal);
    if (still()) shown.ended = true;
  } catch (e) {
    if (still()) shown.error = e.message;
  }
  draw();
}

function close() {
  if (reading) reading.abort();
  reading = state.talk = state.log = undefined;
  draw();
}

const openTalk = remote => open("talk", "transcript", { remote }, { items: [], questions: [] }, takeTalk);
const openLog = words => open("log", "log", words, { text: "" }, (log, v) => {
  if (v.cut) log.text = "…\n";
  if (v.text) log.text = (log.text + v.text).slice(-maxLog);
  if (v.end) log.end = v.end;
});

// Orders.
async function carryOut(verb, words, what) {
  try {
    const answer = await host.order(verb, words);
    state.notice = answer.outcome ? `${what}: ${answer.outcome}` : t.done(what);
    return answer;
  } catch (e) {
    state.notice = `${what}: ${e.message}`;
    return null;
  } finally {
    draw();
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
  ask(t.newKey(words.key), t.newKeyText, el("p", null, made.outcome), el("input", { readonly: true, value: made.key, "aria-label": t.newKey(words.key) }), closer(t.close));
  $("dialog").querySelector("input").select();
}

async function send(form) {
  const text = form.elements.text.value, { remote, thread } = state.talk;
  if (!text.trim()) return;
  const sent = await carryOut("send", { remote, text, ...thread && { thread } }, t.verb(t.send, remote));
  if (!sent) return;
  form.reset();
  if (!thread || state.talk && (state.talk.error || state.talk.ended)) openTalk(remote);
}

// Notifications, at the page for other machines.
async function lookPush(change) {
  const push = await import("./push.js");
  if (change) state.notice = await push[change](host.order).then(() => "", e => e.message);
  state.push = await push.look(host.order).catch(e => ({ text: e.message }));
  draw();
}

addEventListener("click", async event => {
  const b = event.target.closest("button");
  if (!b || b.getAttribute("aria-disabled") === "true") return;
  if (b.dataset.close !== undefined) {
    $("dialog").close();
    $("dialog").replaceChildren(); // a new key must not stay on the page
  }
  if (b.id === "examine") examine();
  if (b.id === "close") close();
  if (b.dataset.push) lookPush(b.dataset.push);
  if (b.id === "more") {
    state.more = true;
    draw();
  }
  if (b.id === "leave") {
    host.leave();
    location.reload();
  }
  if (b.dataset.talk) openTalk(b.dataset.talk);
  if (b.dataset.log) openLog(JSON.parse(b.dataset.log));
  if (b.dataset.find) {
    state.find = state.find === b.dataset.find ? "" : b.dataset.find;
    $("find").elements.id.value = state.find;
    draw();
  }
  if (!b.dataset.verb) return;
  if (b.dataset.verb === "approve" && Date.now() - appeared.get(b.closest("[data-key]")) < 500) return; // nobody has read it yet: the click was for what was here before
  const verb = b.dataset.verb, words = JSON.parse(b.dataset.words), sure = b.dataset.sure;
  if (["revoke", "cancel"].includes(verb) && !sure) {
    const yes = el("button", { type: "button", "data-verb": verb, "data-words": b.dataset.words, "data-sure": "yes", "data-close": true }, t[verb]);
    return ask(t[`${verb}Ask`](words.key || words.session), t[`${verb}Text`], yes, closer(t.back));
  }
  await carryOut(verb, words, b.dataset.sure ? t.verb(t[verb], words.key || words.session) : b.getAttribute("aria-label"));
});

addEventListener("submit", event => {
  event.preventDefault();
  if (event.target.id === "add") addKey(event.target);
  if (event.target.id === "send") send(event.target);
  if (event.target.id === "enter") enter(event.target);
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
$("nav").setAttribute("aria-label", t.nav);
$("skip").addEventListener("click", event => { event.preventDefault(); $("main").focus(); });
addEventListener("hashchange", () => {
  if (location.hash.length > 21 && !globalThis.cockpit && !state.keyed) return location.reload(); // another link
  Object.assign(state, { more: false });
  arrived = true;
  arrive();
});
setInterval(draw, 10_000); // times go on
setInterval(loadUsage, 60_000);

draw();
host.begin().then(given => {
  Object.assign(state, given);
  arrive();
  if (state.asks) return undefined;
  if (state.keyed) lookPush();
  return followAlways();
}).catch(e => {
  state.lost = e.message;
  draw();
  if (e.again) setTimeout(() => location.reload(), 5000);
});
