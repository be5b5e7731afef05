// Draws one page of a service that stands still, in place of the page's own state.
const [page, done] = arguments;
(async () => {
  const now = Date.parse("2026-03-02T12:00:00Z"), ago = s => new Date(now - s * 1000).toISOString();
  Date.now = () => now;
  for (let i = setInterval(() => undefined, 1e6); i > 0; i--) clearInterval(i);
  const { pagesOf } = await import("./pages.js"), { morph, el } = await import("./dom.js"), { t } = await import("./texts.js");
  const wave = (i, n) => Math.round(n * (1 + Math.sin(i / 9) / 2 + Math.sin(i / 3) / 4));
  const points = Array.from({ length: 180 }, (_, i) => ({ at: ago((180 - i) * 10), turns: wave(i, 6), errors: i % 40 ? {} : { rate_limit_exceeded: 2 }, first_text_p50_ms: wave(i, 700), first_text_p95_ms: wave(i, 1800),
    in_flight: wave(i, 12), queue: i > 90 && i < 110 ? 4 : 0, input_tokens: wave(i, 9000), output_tokens: wave(i, 1200), restarts: i === 60 ? 1 : 0 }));
  const worker = (name, more) => ({ name, ready: true, reason: "ready", drained: false, active_state: "active", sub_state: "running", inflight: 3, restarts_total: 0, ...more });
  const account = (name, five, seven, more) => ({ name, plan: "pro", state: "available", limits: [{ window: "5h", used_ratio: five, resets_at: ago(-7200) }, { window: "7d", used_ratio: seven, resets_at: ago(-259200) }], ...more });
  const request = n => ({ number: n, at: ago(900 - n * 30), request_id: `req_${1000 + n}`, method: "POST", route: n % 3 ? "/v1/responses" : "/v1/messages", status: n % 7 ? 200 : 429, outcome: n % 7 ? "ok" : "rate_limit_exceeded",
    key: n % 2 ? "alice" : "ci", model: "gpt-5", worker: n % 2 ? "first" : "second", duration_ms: 900 + n * 210, first_text_ms: 300 + n * 11, input_tokens: 1200 * n, output_tokens: 90 * n });
  const state = {
    service: "codex-proxy", show: "all", find: "", usageBy: "day", off: false, notice: "", seen: now,
    status: { health: { readiness: { ready: true, reason: "ready", since: ago(93600) } }, queue: { depth: 0, limit: 10000 },
      workers: [worker("first"), worker("second", { inflight: 1, drained: true }), worker("third", { ready: false, reason: "backing_off", active_state: "activating", sub_state: "auto-restart", inflight: 0, restarts_total: 4, next_restart_at: ago(-12), last_exit: { result: "exit-code", code: "exited", status: "1", at: ago(20) } })] },
    accounts: { rotation: "ordered", accounts: [account("first", 0.42, 0.31, { in_use: true }), account("second", 0.71, 0.88, { next: true }), account("third", 1, 0.64, { state: "exhausted", why: "until its reset" })] },
    keys: { count: 2, keys: [{ name: "alice", limits: { tokens_per_day: 2000000 }, used: { tokens_per_day: 412000, concurrent: 1 } }, { name: "ci", limits: { concurrent: 4, models: ["gpt-5"] }, used: { tokens_per_day: 98000, concurrent: 2 } }] },
    usage: { since: "2026-02-22", rows: 4, sums: Array.from({ length: 9 }, (_, i) => ({ day: new Date(now - i * 86400e3).toISOString().slice(0, 10), input_tokens: wave(i, 300000), output_tokens: wave(i, 40000) })),
      usage: ["alice", "ci"].flatMap(key => ["2026-03-01", "2026-03-02"].map(day => ({ day, key, requests: 214, input_tokens: 310000, cached_tokens: 190000, output_tokens: 42000, reasoning_tokens: 18000 }))) },
    history: { period_s: 10, points }, requests: Array.from({ length: 14 }, (_, i) => request(i + 1)),
    remotes: [{ name: "build", active_state: "active", sub_state: "running", ready: true, reason: "ready", since: ago(7200), restarts_total: 0, use: { owners: 1, viewers: 0, turns: 1, turn_since: ago(95), alone_since: ago(40), continued: 0, account: "first" } },
      { name: "docs", active_state: "inactive", sub_state: "dead", ready: false, reason: "asleep", since: ago(90000), restarts_total: 0 }],
    talk: { remote: "build", thread: "t", turn: "u", waits: true, name: "", items: [
      { id: "1", kind: "user", text: "Have the tests pass with the new compiler, please." },
      { id: "2", kind: "agent", text: "Two tests fail. One needs the new header, which I have to fetch first." },
      { id: "3", kind: "command", text: "make test", exit: 2, output: "FAIL parser_test" }],
    questions: [{ id: "q", kind: "command", text: "apt-get install --yes libfoo-dev", directory: "/srv/build", reason: "The header is in this package.", decisions: ["accept", "acceptForSession", "decline"] }] },
  };
  const all = pagesOf(state);
  document.getElementById("lost").textContent = "";
  document.getElementById("name").textContent = state.service;
  morph(document.getElementById("nav"), Object.keys(all).map(p => el("a", { href: `#${p}`, "aria-current": p === page ? "page" : null, "data-key": p }, t.pages[p])));
  morph(document.getElementById("main"), [el("h1", { tabindex: -1 }, t.pages[page]), ...all[page](state).filter(Boolean).map((c, i) => { c.dataset.key = `${page}${i}`; return c; })]);
  document.activeElement.blur();
  scrollTo(0, 0);
  await document.fonts.ready;
  await new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)));
})().then(() => done(""), e => done(String(e)));
