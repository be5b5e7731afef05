// The host of the page in Cockpit: the sockets of both services with administrative access, else the units that every
// user sees. Nothing asks the port of the API, or the socket of a codex-runner that does not run: that would start a
// service that an operator has stopped.
import { t } from "./texts.js";

const { cockpit } = globalThis;
const control = () => cockpit.http("/run/codex-proxy/control/socket", { superuser: "require" });
const runner = () => cockpit.http("/run/codex-runner/api.sock", { superuser: "try" });
let admin = false;

// Cockpit's promises are its own: an error that a handler throws does not reject the next one. body has the answer of a
// server that refuses, and the output of a program that fails.
const native = p => new Promise((resolve, reject) => p.then(resolve, (e, body) => reject(Object.assign(new Error(said(body) || e.message || e.problem), { problem: e.problem, body }))));

// reason is the error of an answer, with its remedy: codex-runner has these apart.
const reason = ({ error }) => !error || typeof error === "string" ? error : [error.message, error.remedy].filter(Boolean).join(": ");

function said(body) {
  try {
    return reason(JSON.parse(body));
  } catch {
    return "";
  }
}

function style() {
  const shell = localStorage.getItem("shell:style") || "auto";
  document.documentElement.style.colorScheme = shell === "auto" ? "light dark" : shell;
}

export async function begin() {
  await new Promise(ready => cockpit.transport.wait(ready));
  addEventListener("storage", style);
  addEventListener("cockpit-style", style);
  style();
  const rights = cockpit.permission({ admin: true });
  admin = await new Promise(known => rights.allowed !== null ? known(rights.allowed) : rights.addEventListener("changed", () => known(rights.allowed)));
  rights.addEventListener("changed", () => { if (rights.allowed !== admin) location.reload(); });
  return { service: "codex-proxy", readOnly: !admin, reason: admin ? "" : t.limited, limited: !admin };
}

// lines calls each with the values of a stream of JSON lines until it ends, and close ends it.
function lines(request, each, signal) {
  let rest = "", why = "";
  request.stream(text => {
    const whole = (rest + text).split("\n");
    rest = whole.pop();
    const values = whole.filter(Boolean).map(line => JSON.parse(line));
    why = why || values.map(reason).find(Boolean); // the body of a refusal
    if (values.length && !why) each(values);
  });
  if (signal) signal.addEventListener("abort", () => request.close("cancelled"));
  return native(request).catch(e => Promise.reject(Object.assign(e, { message: why || said(rest) || e.message })));
}

const run = (args, options) => cockpit.spawn(["codex-proxy", ...args], { superuser: "require", err: "message", ...options });

const manager = "/org/freedesktop/systemd1", managerName = "org.freedesktop.systemd1.Manager";
const systemd = () => cockpit.dbus("org.freedesktop.systemd1", { bus: "system", superuser: null });

// watchSessions follows codex-runner while it runs. Its socket is systemd's, which starts it for whoever connects: so
// systemd is asked first.
async function watchSessions(each) {
  const path = `/v1/watch?follow=true&limit=1000&all=${admin}`;
  const page = ({ whole, status, sessions, removed }) => ({ sessions_whole: whole, runner: status, changed: sessions, removed });
  let bus = systemd();
  for (let pause = 1000; ; pause = Math.min(2 * pause, 5000)) {
    let lost = t.gone;
    try {
      const [units] = await native(bus.call(manager, managerName, "ListUnitsByPatterns", [["active", "reloading"], ["codex-runner.service"]]));
      if (!units.length) lost = t.runnerStopped;
      else await lines(runner().get(path), values => {
        pause = 1000;
        each([{ runner_lost: "" }, ...values.map(page)]);
      });
    } catch (e) {
      if (e.problem === "access-denied") return; // not in the group codex-runner
      lost = e.message;
      bus.close();
      bus = systemd();
    }
    each([{ runner_lost: lost }]);
    await new Promise(again => setTimeout(again, pause));
  }
}

// watchUnits has the states of the units as every user may see them, at each change.
function watchUnits(each) {
  const bus = systemd();
  let asked = false;
  const look = () => {
    if (asked) return;
    asked = true;
    setTimeout(async () => {
      asked = false;
      const [units] = await bus.call(manager, managerName, "ListUnitsByPatterns", [[], ["codex*"]]);
      each([{ units: units.map(([unit, description, , active_state, sub_state]) => ({ unit, description, active_state, sub_state })).sort((a, b) => a.unit < b.unit ? -1 : 1) }]);
    }, 100);
  };
  const ours = path => path.startsWith(`${manager}/unit/codex`);
  bus.subscribe({ interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged", path_namespace: `${manager}/unit` }, path => { if (ours(path)) look(); });
  for (const member of ["UnitNew", "UnitRemoved"])
    bus.subscribe({ path: manager, interface: managerName, member }, (_path, _interface, _member, [unit]) => { if (unit.startsWith("codex")) look(); });
  bus.call(manager, managerName, "Subscribe").catch(() => undefined); // another program of this bridge has done it
  look();
  return new Promise((_, reject) => bus.addEventListener("close", (_event, e) => reject(new Error(e && (e.message || e.problem)))));
}

let sessions = false;

export async function watch(each, other) {
  if (!sessions) watchSessions(other);
  sessions = true;
  if (!admin) return watchUnits(each);
  return lines(control().get("/v1/watch"), each).catch(e => { throw new Error(e.problem === "not-found" ? t.notRunning : e.message); });
}

// The orders: those of the console.
const post = (http, path, body) => native(http.post(path, JSON.stringify(body), { "Content-Type": "application/json" })).then(text => text ? JSON.parse(text) : {});
const account = verb => ({ account: name }) => post(control(), "/v1/accounts", { account: name, do: verb });
const drain = verb => ({ worker }) => post(control(), `/v1/${verb}`, { worker });
const get = async (http, path) => JSON.parse(await native(http.get(path)));
const thread = words => words.thread ? [`--thread=${words.thread}`] : [];

async function usage({ since, by }) {
  const table = columns => get(control(), `/v1/usage?since=${since}&by=${columns}`);
  const [all, sums] = await Promise.all([table(by), table(by.split(",")[0])]);
  return { ...all, usage: all.usage.slice(-500), rows: all.usage.length, sums: sums.usage };
}

// tell is all that a command says. A new key is in it even if the command fails then; nobody could show it again.
const tell = args => native(run(args, { err: "out" })).then(text => text.trim(), e => { throw new Error((e.body || e.message).trim()); });
const isKey = text => /^sk-\S+$/m.test(text);

const orders = {
  usage, drain: drain("drain"), undrain: drain("undrain"), pause: account("pause"), resume: account("resume"), switch: account("switch"),
  doctor: async () => JSON.parse(await native(run(["doctor", "--json"], { superuser: "try" })).catch(e => e.body || Promise.reject(e))), // it exits with 1 after a fault
  add: async ({ key, ...limits }) => {
    const text = await tell(["keys", "add", ...Object.entries(limits).map(([k, v]) => `--${k}=${v}`), "--", key]).catch(e => isKey(e.message) ? e.message : Promise.reject(e));
    const said = text.split("\n");
    return { key: said.find(isKey), outcome: said.filter(line => !isKey(line)).join("\n") };
  },
  revoke: async ({ key }) => ({ outcome: await tell(["keys", "revoke", "--", key]) }),
  send: async words => {
    const sent = run(["remotes", "send", ...thread(words), "--", words.remote, "-"]); // every user sees the words of a command line
    sent.input(words.text);
    return { thread: (await native(sent)).trim() };
  },
  approve: words => native(run(["remotes", "approve", ...thread(words), `--decision=${words.decision}`, "--", words.remote, words.question])).then(() => ({})),
  interrupt: words => native(run(["remotes", "interrupt", ...thread(words), words.remote])).then(() => ({})),
  cancel: ({ session, command }) => post(runner(), `/v1/sessions/${session}/cancel`, command ? { command: Number(command) } : {}),
  release: ({ session }) => native(runner().post(`/v1/sessions/${session}/release`, "")).then(() => ({})),
};

export const order = (verb, words) => orders[verb](words);

export function follow(verb, words, each, signal) {
  if (verb === "transcript") return lines(run(["remotes", "transcript", words.remote, "--json", "--watch"]), each, signal);
  const request = runner().get(`/v1/sessions/${words.session}/commands/${words.command}/logs?follow=true`);
  request.stream(text => each([{ text }]));
  signal.addEventListener("abort", () => request.close("cancelled"));
  return native(request);
}
