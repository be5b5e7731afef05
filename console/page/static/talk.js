// The thread of a remote: what was said and done, what waits for a person, and a message.
import { t } from "./texts.js";
import { el, act } from "./dom.js";

// visible shows signs that have no form, or that change the order of the text, by their numbers.
const visible = text => text.replace(/[\p{Cc}\p{Cf}\p{Z}\p{Variation_Selector}\u034f\u115f\u1160\u2800\u3164\uffa0]/gu, c => "\n\t ".includes(c) ? c : `\\u{${c.codePointAt(0).toString(16)}}`);

function questionOf(q, { remote, thread }, off) {
  const answer = decision => act("approve", { remote, thread, question: q.id, decision }, t[decision], t.verb(t[decision], visible(q.text || q.id).split("\n")[0]), off);
  return el("div", { class: "question", "data-key": q.id }, el("p", { class: "muted" }, t.question[q.kind]),
    q.text ? el("pre", null, visible(q.text)) : null, q.directory ? el("p", { class: "muted" }, t.in(visible(q.directory))) : null,
    q.reason ? el("p", null, visible(q.reason)) : null,
    q.decisions.includes("decline") && !q.decisions.includes("accept") ? el("p", null, t.hidden) : null, q.decisions.map(answer));
}

function itemOf(i) {
  const said = ["user", "agent", "plan", "reasoning"].includes(i.kind);
  return el("li", { "data-key": i.id }, el("b", null, t.kinds[i.kind] || i.kind),
    said ? el("div", { class: "text" }, i.text) : el("pre", null, i.text),
    i.exit ? el("span", { class: "badge bad" }, t.exitStatus(i.exit)) : null,
    i.output ? el("details", null, el("summary", null, t.output), el("pre", null, i.output)) : null);
}

export function talkOf(talk, off) {
  const name = talk.remote, done = talk.error || (talk.ended ? t.talkEnded : "");
  return el("section", { "aria-label": t.talk(name) }, el("h2", null, talk.name ? `${t.talk(name)}: ${talk.name}` : t.talk(name)),
    el("p", { class: "muted" }, done || (talk.waits ? t.waitsForYou : talk.turn ? t.runs : t.idle)),
    el("ol", { class: "talk", id: "talk", tabindex: 0, "aria-label": t.messages }, talk.items.length ? talk.items.map(itemOf) : el("li", null, t.noMessages)),
    el("div", { role: "alert" }, done ? null : talk.questions.map(q => questionOf(q, talk, off))),
    el("form", { id: "send", "aria-label": t.message },
      el("label", null, t.message, el("textarea", { name: "text", rows: 3, maxlength: 6000, required: true })),
      el("button", { type: "submit", disabled: off }, t.send)),
    el("p", null, act("interrupt", { remote: name, thread: talk.thread }, t.interrupt, t.verb(t.interrupt, name), off || Boolean(done) || !talk.turn),
      el("button", { type: "button", id: "close" }, t.close)),
    el("p", { class: "muted" }, t.same, el("code", null, `codex-proxy remotes transcript ${name} --watch; codex-proxy remotes send ${name} TEXT; codex-proxy remotes approve ${name} QUESTION; codex-proxy remotes interrupt ${name}`)));
}
