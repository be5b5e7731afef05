// The host of the page: the server of the console, which is of no use without its link.
import { t } from "./texts.js";

const headers = () => ({ Authorization: `Bearer ${sessionStorage.getItem("session") || ""}`, "Content-Type": "application/json" });

const json = r => r.json().catch(() => ({ error: t.noAnswer(r.status) }));

// access reports whether the page is one of API keys.
async function access() {
  const { keyed, error } = await json(await fetch("/api/access"));
  if (error) throw Object.assign(new Error(error), { again: true });
  return keyed;
}

// begin uses the link, where there is one: at a page of API keys another page may have made it. It is valid once; the session
// that it gives stays in this tab alone.
export async function begin() {
  const token = location.hash.slice(1);
  if (token.length > 20 && !await access()) {
    history.replaceState(null, "", "#");
    sessionStorage.removeItem("session");
    await enter(token);
  }
  if (!sessionStorage.getItem("session")) return without();
  const readOnly = sessionStorage.getItem("read-only") === "yes", keyed = sessionStorage.getItem("keyed") === "yes";
  return { service: sessionStorage.getItem("service"), keyed, readOnly, reason: readOnly ? keyed ? t.keyLooks : t.readOnly : "" };
}

// without is a page without a session: it asks for a key, or has a text about links.
async function without() {
  const keyed = await access();
  if (!keyed) throw Object.assign(new Error(t.open), { final: true });
  return { service: "codex-proxy", keyed, asks: true };
}

// enter exchanges a key for a session.
export async function enter(key) {
  const given = await call("/api/session", { token: key });
  for (const [name, value] of Object.entries({ session: given.session, "read-only": given.read_only ? "yes" : "", keyed: given.key ? "yes" : "", service: given.service }))
    sessionStorage.setItem(name, value);
}

// leave forgets the session: the next person at this browser has to enter a key.
export const leave = () => sessionStorage.clear();

async function call(path, body) {
  const r = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body) });
  const answer = await json(r);
  if (!r.ok) throw new Error(answer.error);
  return answer;
}

export const order = (verb, words) => call("/api/do", { verb, words });

async function lines(path, options, each) {
  const r = await fetch(path, { headers: headers(), ...options });
  if (!r.ok) throw Object.assign(new Error((await json(r)).error), { final: r.status === 401, over: r.status === 401 });
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n");
    rest = whole.pop();
    const values = whole.filter(Boolean).map(line => JSON.parse(line));
    if (values.length) each(values);
  }
}

// watch calls each with the values of the stream of everything, until it ends.
export const watch = each => lines("/api/watch", {}, each);

// follow calls each with the values of an order, until it ends or signal does.
export const follow = (verb, words, each, signal) =>
  lines("/api/follow", { method: "POST", body: JSON.stringify({ verb, words }), signal }, each);
