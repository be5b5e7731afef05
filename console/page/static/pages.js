// The pages: each makes its elements of the state.
import { t } from "./texts.js";
import { el, table, row, badge, act, keep, numberOf, first, rest } from "./dom.js";
import { count, took, length, since, until, clock, exit, unit } from "./words.js";
import { spark, bars } from "./charts.js";
import { talkOf } from "./talk.js";
import { sessions } from "./sessions.js";

const command = text => el("p", { class: "muted" }, t.same, el("code", null, text));
const card = (title, ...children) => el("section", null, el("h2", null, title), children);

function overview({ status, history, keys, lost, seen }) {
  const r = status.health.readiness;
  const points = history ? history.points : [];
  const minute = f => points.map(p => f(p) * 60 / history.period_s);
  const failed = p => Object.values(p.errors || {}).reduce((a, b) => a + b, 0);
  const errors = {};
  for (const p of points) for (const [code, n] of Object.entries(p.errors || {})) errors[code] = (errors[code] || 0) + n;
  const codes = Object.entries(errors).sort((a, b) => b[1] - a[1]);
  return [
    el("section", { class: r.ready && !lost ? "ready" : "not", id: "ready" },
      lost ? el("p", { class: "lead" }, t.lastKnown(length((Date.now() - seen) / 1000))) : null,
      el("p", { class: "lead" }, `${r.ready ? t.ready : t.notReady} (${r.reason}) ${t.forTime(length((Date.now() - Date.parse(r.since)) / 1000))}`),
      r.details ? el("p", { class: "muted" }, r.details) : null,
      el("p", { class: "muted" }, t.queue(status.queue.depth, status.queue.limit)),
      keys && !keys.count ? el("p", { class: "muted" }, `${t.noKeys} ${keys.closed ? t.closed : t.openApi}`) : null,
      command("codex-proxy status --watch")),
    card(t.halfHour, el("div", { class: "sparks" },
      spark(t.sparks.turns, minute(p => p.turns), count), spark(t.sparks.errors, minute(failed), count),
      spark(t.sparks.p50, points.map(p => p.first_text_p50_ms || 0), took), spark(t.sparks.p95, points.map(p => p.first_text_p95_ms || 0), took),
      spark(t.sparks.in_flight, points.map(p => p.in_flight), count), spark(t.sparks.queue, points.map(p => p.queue), count),
      spark(t.sparks.tokens, minute(p => p.input_tokens + p.output_tokens), count), spark(t.sparks.restarts, points.map(p => p.restarts), count))),
    codes.length ? card(t.recentErrors, table(t.recentErrors, [t.outcome, t.requestsCount], codes.map(([code, n]) => row(code, code, String(n))))) : null,
  ];
}

function quota(a) {
  if (!a || !a.limits.length) return "–";
  return a.limits.map(l => {
    const percent = Math.round(l.used_ratio * 100);
    return el("div", { class: "quota", "data-key": l.window }, el("span", null, l.window),
      el("meter", { min: 0, max: 100, low: 60, high: 85, optimum: 0, value: percent, "aria-label": `${a.name}: ${t.used(percent, l.window)}` }),
      el("span", null, `${percent} %${l.resets_at ? `, ${t.resets(until(l.resets_at))}` : ""}`));
  });
}

function accountWords(a, rotation) {
  if (!a) return "–";
  const words = [a.paused ? t.paused : a.state || "", a.in_use && rotation === "ordered" ? t.inUse : "", a.next ? t.nextAccount : "", a.why || ""];
  return words.filter(Boolean).join("; ") || "–";
}

function workers({ status, accounts, off }) {
  const byName = new Map((accounts ? accounts.accounts : []).map(a => [a.name, a]));
  const ordered = accounts && accounts.rotation === "ordered";
  return [
    card(t.pages.workers, table(t.tableOf(t.pages.workers),
      [t.worker, t.why, t.actions, t.turns, t.quota, t.account, t.plan, t.state, t.restarts, t.next, t.lastExit],
      status.workers.map(w => {
        const a = byName.get(w.name), words = { worker: w.name }, account = { account: w.name };
        const order = (verb, words) => act(verb, words, t[verb], t.verb(t[verb], w.name), off);
        const times = [until(w.next_restart_at), w.last_exit && since(w.last_exit.at), ...(a ? a.limits : []).map(l => until(l.resets_at))];
        return keep(w, [off, accounts && accounts.rotation, a && numberOf(a), ...times].join(), () => row(w.name, w.name, [badge(w.ready ? "ok" : "bad", w.reason), w.drained ? ` ${t.drained}` : ""],
          [order(w.drained ? "undrain" : "drain", words), a ? order(a.paused ? "resume" : "pause", account) : null,
            a && ordered && !a.in_use ? order("switch", account) : null], String(w.inflight),
          quota(a), { wide: accountWords(a, accounts && accounts.rotation) }, a && a.plan || "–", unit(w), String(w.restarts_total), until(w.next_restart_at), exit(w.last_exit)));
      })),
      command("codex-proxy status; codex-proxy accounts list; codex-proxy drain NAME; codex-proxy accounts pause NAME"),
      el("p", { class: "muted" }, t.loginHint)),
  ];
}

const limitWords = l => Object.entries(l).map(([k, v]) => v === true ? t.limit[k] : `${t.limit[k]}: ${Array.isArray(v) ? v.join(", ") : v}`).join("; ") || t.none;

function useWords(k) {
  if (!k.used) return "–";
  return Object.entries(k.used).filter(([name, n]) => name !== "refused" && (n || k.limits[name])).map(([name, n]) =>
    `${t.limit[name]}: ${count(n)}${k.limits[name] ? ` / ${count(k.limits[name])}` : ""}`).join("; ") || "–";
}

function keys({ keys, usage, usageBy, readOnly, off, keyed }) {
  const field = (name, text, attributes) => el("label", null, text, el("input", { name, autocomplete: "off", ...attributes }));
  const number = name => field(name, t.limit[name.replaceAll("-", "_")], { inputmode: "numeric", pattern: "[1-9][0-9]{0,11}", size: 8 });
  return [
    card(t.keys,
      keys && keys.keys.length ? table(t.tableOf(t.keys), [t.key, t.limits, t.usedNow, t.refused, t.actions], keys.keys.map(k =>
        row(k.name, k.name, { wide: limitWords(k.limits) }, { wide: useWords(k) }, String(Object.values(k.used && k.used.refused || {}).reduce((a, b) => a + b, 0)),
          keyed ? "–" : act("revoke", { key: k.name }, t.revoke, t.verb(t.revoke, k.name), off)))) : el("p", null, t.noKeys),
      readOnly || keyed ? null : el("form", { id: "add", "aria-label": t.add }, field("key", t.name, { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 64 }),
        number("requests-per-minute"), number("tokens-per-minute"), number("tokens-per-day"), number("concurrent"), el("button", { type: "submit", disabled: off }, t.add)),
      command("codex-proxy keys list; codex-proxy keys add NAME --tokens-per-day=N; codex-proxy keys revoke NAME")),
    card(t.usage,
      el("form", null, el("label", null, t.by, el("select", { id: "by" }, ["hour", "day"].map(by => el("option", { value: by, selected: by === usageBy }, t[by]))))),
      usage && usage.error ? el("p", null, usage.error) : usage && usage.usage.length ? usageOf(usage, usageBy) : el("p", null, usage ? t.noUsage : t.loading),
      command(`codex-proxy usage --by ${usageBy},key --since ${usageBy === "hour" ? "7d" : "30d"}`)),
  ];
}

function usageOf(usage, by) {
  const sums = new Map(times(usage.since, by).map(name => [name, 0]));
  for (const u of usage.sums) sums.set(u[by], (sums.get(u[by]) || 0) + u.input_tokens + u.output_tokens);
  return [
    bars(t.tokensChart, [...sums].map(([name, value]) => ({ name, value }))),
    table(t.tableOf(t.usage), [t.time, t.key, t.requestsCount, t.input, t.cached, t.outputTokens, t.reasoning], [...usage.usage].reverse().map(u =>
      row(`${u[by]} ${u.key || ""}`, u[by].replace("T", " "), u.key || t.noKey, String(u.requests), count(u.input_tokens), count(u.cached_tokens), count(u.output_tokens), count(u.reasoning_tokens)))),
    usage.rows > usage.usage.length ? el("p", { class: "muted" }, t.newest(usage.usage.length, usage.rows)) : null,
  ];
}

function times(since, by) {
  const step = by === "hour" ? 3600e3 : 86400e3, names = [];
  for (let at = Date.parse(`${since}T00:00:00Z`); at <= Date.now() && names.length < 1000; at += step)
    names.push(new Date(at).toISOString().slice(0, by === "hour" ? 13 : 10));
  return names;
}

function requests({ requests, show, find, more }) {
  const all = [...(requests || [])].reverse();
  const wanted = find ? all.filter(r => r.request_id === find) : show === "failed" ? all.filter(r => r.outcome !== "ok") :
    [...all.filter(r => r.outcome !== "ok"), ...all.filter(r => r.outcome === "ok")];
  const shown = first(wanted, more);
  return [
    card(t.pages.requests,
      el("form", { id: "find" }, el("label", null, t.show, el("select", { id: "show" }, ["all", "failed"].map(s => el("option", { value: s, selected: s === show }, t[s])))),
        el("label", null, t.find, el("input", { name: "id", autocomplete: "off", size: 30 })), el("button", { type: "submit" }, t.show)),
      wanted.length ? table(t.tableOf(t.pages.requests), [t.ended_, t.status, t.outcome, t.route, t.key, t.model, t.worker, t.took, t.firstText, t.tokens, t.id],
        shown.map(r => keep(r, r.request_id === find, () => row(String(r.number), clock(r.at), String(r.status), badge(r.outcome === "ok" ? "ok" : "bad", r.outcome), r.route, r.key || "–", r.model || "–", r.worker || "–",
          took(r.duration_ms), took(r.first_text_ms), r.input_tokens || r.output_tokens ? `${count(r.input_tokens || 0)} + ${count(r.output_tokens || 0)}` : "–",
          el("button", { type: "button", "data-find": r.request_id, "aria-pressed": String(r.request_id === find) }, r.request_id))))) : el("p", null, find ? t.notFound : t.noRequests),
      rest(wanted, shown, t.allRows),
      command("codex-proxy requests --watch")),
    find && wanted.length ? card(t.story, table(t.story, [t.subject, t.finding], Object.entries(wanted[0]).map(([k, v]) => row(k, k, { wide: String(v) }))),
      el("p", { class: "muted" }, t.detail, el("code", null, t.journal(find)))) : null,
  ];
}

const reason = u => badge(u.ready ? "ok" : ["asleep", "stopped", "starting", "stopping"].includes(u.reason) ? "warn" : "bad", u.reason);

function remotes({ remotes, talk, off, push }) {
  const button = name => el("button", { type: "button", "data-talk": name, "aria-label": t.verb(t.openTalk, name), "aria-pressed": String(Boolean(talk) && talk.remote === name) }, t.openTalk);
  return [card(t.pages.remotes, remotes && remotes.length ? table(t.tableOf(t.pages.remotes),
    [t.remote, t.state, t.why, t.actions, t.since, t.account, t.attached, t.turns, t.turnSince, t.continued, t.restarts, t.lastExit], remotes.map(r => {
      const u = r.use || {};
      return row(r.name, r.name, unit(r), reason(r), button(r.name), since(r.since), u.account || "–", r.use ? t.people(u.owners, u.viewers) : "–", r.use ? String(u.turns) : "–",
        [since(u.turn_since), u.alone_since ? ` ${t.waits}` : ""], r.use ? String(u.continued) : "–", String(r.restarts_total), exit(r.last_exit));
    })) : el("p", null, t.noRemotes), command("codex-proxy remotes list --watch; codex-proxy attach NAME"), el("p", { class: "muted" }, t.talkHint)),
  talk ? talkOf(talk, off) : null, push ? notifications(push) : null];
}

function notifications({ text, button }) {
  return card(t.push.title, el("p", { id: "push" }, text), button ? el("p", null, el("button", { type: "button", "data-push": button }, t.push[button])) : null);
}

function dependencies({ dependencies }) {
  return [card(t.pages.dependencies, dependencies && dependencies.length ? table(t.tableOf(t.pages.dependencies),
    [t.dependency, t.state, t.why, t.since, t.restarts, t.next, t.requiredBy, t.lastExit, t.status], dependencies.map(d =>
      row(d.name, d.name, unit(d), reason(d), since(d.since), String(d.restarts_total), until(d.next_restart_at),
        (d.required_by || []).join(", ") || "–", exit(d.last_exit), { wide: d.status_text || "–" }))) : el("p", null, t.noDependencies),
  command("codex-proxy dependencies list --watch; codex-proxy dependencies check NAME"))];
}

function doctor({ report, service }) {
  const order = { fail: 0, warn: 1, ok: 2 }, kind = { fail: "bad", warn: "warn", ok: "ok" };
  const findings = report && report.findings ? [...report.findings].sort((a, b) => order[a.level] - order[b.level]) : [];
  return [card(t.pages.doctor, el("p", null, el("button", { type: "button", id: "examine", "aria-disabled": String(report === "running") }, t.examine)),
    report === "running" ? el("p", { role: "status" }, t.examining) : report && report.error ? el("p", null, report.error) : null,
    findings.length ? table(t.tableOf(t.pages.doctor), [t.check, t.level, t.subject, t.finding, t.remedy], findings.map((f, i) =>
      row(String(i), f.check, badge(kind[f.level] || "", f.level), f.subject || "–", { wide: f.detail || "–" }, { wide: f.remedy || "–" }))) : null,
    command(`${service} doctor`))];
}

// limitedTo is what every user of a machine may see.
function limitedTo({ units }) {
  return [card(t.units, units && units.length ? table(t.tableOf(t.units), [t.unit, t.state, t.description], units.map(u =>
    row(u.unit, u.unit, badge(u.active_state === "active" ? "ok" : u.active_state === "failed" ? "bad" : "warn", unit(u)), { wide: u.description }))) : el("p", null, t.noUnits),
  command("systemctl list-units 'codex*'"))];
}

// pagesOf are the pages of a service, and what its user may see.
export function pagesOf({ service, limited, runner, runner_lost, keyed }) {
  if (service === "codex-runner") return { sessions, doctor };
  const more = runner || runner_lost && runner_lost !== t.runnerStopped ? { sessions } : {};
  if (keyed) return { overview, workers, keys, requests, remotes, dependencies }; // the others need root
  return limited ? { overview: limitedTo, ...more } : { overview, workers, keys, requests, remotes, dependencies, ...more, doctor };
}
