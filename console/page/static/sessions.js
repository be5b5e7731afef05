// The sessions of codex-runner: what each does, its output as it is written, and how it ended.
import { t } from "./texts.js";
import { el, table, row, badge, act, keep, first, rest } from "./dom.js";
import { lately, size } from "./words.js";

const good = ["succeeded", "running", "starting"], soon = ["queued", "awaiting_stdin", "held", "cancelled"];
const kind = word => good.includes(word) ? "ok" : soon.includes(word) ? "warn" : "bad";

function sessionOf(s, log, off, gone) {
  const c = s.commands[s.commands.length - 1], word = c.outcome ? c.outcome.outcome : c.state, words = { session: s.id, command: String(c.number) };
  const shown = Boolean(log) && log.session === s.id && log.command === words.command;
  return keep(s, `${off} ${Boolean(gone)} ${shown} ${lately(s.created)}`, () => row(s.id, s.id, badge(kind(word), word),
    [el("button", { type: "button", "data-log": JSON.stringify(words), "aria-label": t.verb(t.log, s.id), "aria-pressed": String(shown), disabled: Boolean(gone) }, t.log),
      c.state === "held" ? act("release", { session: s.id }, t.release, t.verb(t.release, s.id), off) : null,
      s.state !== "closed" ? act("cancel", { session: s.id }, t.cancel, t.verb(t.cancel, s.id), off) : null],
    { wide: c.args.join(" ").slice(0, 200) }, { wide: c.outcome ? c.outcome.text : "–" }, lately(s.created), s.owner.name || String(s.owner.uid)));
}

function logOf(log) {
  const end = log.end && log.end.command.outcome;
  return el("section", { "aria-label": t.logOf(log.session, log.command) }, el("h2", null, t.logOf(log.session, log.command)),
    el("pre", { class: "talk", id: "log", tabindex: 0, role: "region", "aria-label": t.log }, log.text || t.noOutput),
    el("p", { role: "status" }, log.error || (end ? end.text : log.ended ? t.logEnded : "")),
    el("p", null, el("button", { type: "button", id: "close" }, t.close)),
    el("p", { class: "muted" }, t.same, el("code", null, `codex-runner logs ${log.session} --follow; codex-runner show ${log.session}; codex-runner cancel ${log.session}`)));
}

export function sessions({ runner, runner_lost, sessions, log, readOnly, lost, service, more }) {
  const all = sessions || [], shown = first(all, more, s => s.state === "active"), gone = service === "codex-runner" ? lost && t.gone : runner_lost, off = readOnly || Boolean(gone);
  return [
    el("section", { class: runner && runner.ready && !gone ? "ready" : "not", id: "ready" },
      el("p", { class: "lead" }, gone || (runner ? runner.ready ? t.ready : `${t.notReady}: ${runner.reason}` : t.loading)),
      runner ? el("p", { class: "muted" }, [t.running(runner.running, runner.max_sessions), t.waiting(runner.queued, runner.max_queued), t.disk(size(runner.disk_free))].join("; ")) : null),
    log ? logOf(log) : null,
    el("section", null, el("h2", null, t.pages.sessions),
      all.length ? table(t.tableOf(t.pages.sessions), [t.session, t.state, t.actions, t.command, t.how, t.created, t.owner], shown.map(s => sessionOf(s, log, off, gone))) : el("p", null, t.noSessions),
      rest(all, shown, t.allRows),
      el("p", { class: "muted" }, t.same, el("code", null, "codex-runner sessions; codex-runner status"))),
  ];
}
