// The state of the page, and how the lines of streams change it.

/** @typedef {import("../../../daemon/operators/contract.js").Event} Event */

const maxRequests = 500, maxOutside = 50, maxPoints = 180, maxItems = 200;

export const state = {
  service: "", readOnly: false, reason: "", lost: "", seen: 0, notice: "", show: "all", find: "", usageBy: "hour",
  more: false, // a long table has all of its rows
  off: false, // no order can be given
  keyed: false, asks: false, // the page is for other machines, and asks for a key
};

// newest keeps the last requests, and few of those that were not let in.
function newest(requests) {
  const known = requests.filter(r => !r.outside).slice(-maxRequests), outside = requests.filter(r => r.outside).slice(-maxOutside);
  return known.concat(outside).sort((a, b) => a.number - b.number);
}

// takeSessions takes over the sessions that are new or have changed.
function takeSessions({ sessions_whole, changed, removed }) {
  const all = new Map(sessions_whole ? [] : (state.sessions || []).map(s => [s.id, s]));
  const added = (changed || []).filter(s => !all.has(s.id)).length > 0; // else they stay in their order
  for (const s of changed || []) all.set(s.id, s);
  for (const id of removed || []) all.delete(id);
  state.sessions = [...all.values()];
  if (added) state.sessions.sort((a, b) => a.created < b.created ? 1 : a.created > b.created ? -1 : 0);
}

// shared is the new list, with the known objects in place of those that say the same, so that their rows stay.
function shared(known, list) {
  const texts = new Map((known || []).map(o => [o.name, [JSON.stringify(o), o]]));
  return list.map(o => {
    const [text, same] = texts.get(o.name) || [];
    return text === JSON.stringify(o) ? same : o;
  });
}

/** @param {Event} event */
export function take(event) {
  if (event.status) event.status.workers = shared(state.status && state.status.workers, event.status.workers);
  if (event.accounts) event.accounts.accounts = shared(state.accounts && state.accounts.accounts, event.accounts.accounts);
  if (event.sessions_whole || event.changed || event.removed) takeSessions(event);
  for (const part of ["status", "accounts", "keys", "remotes", "dependencies", "runner", "runner_lost", "units"]) if (event[part] !== undefined) state[part] = event[part];
  if (event.whole) Object.assign(state, { requests: [], history: undefined }); // of another process
  if (event.requests) state.requests = newest((state.requests || []).concat(event.requests));
  if (event.history) {
    const points = new Map((!state.history ? [] : state.history.points).map(p => [p.at, p]));
    for (const p of event.history.points) points.set(p.at, p);
    state.history = { period_s: event.history.period_s, points: [...points.values()].slice(-maxPoints) };
  }
}

// takeTalk takes over an update of the thread of a remote.
export function takeTalk(talk, update) {
  const items = new Map(talk.items.map(i => [i.id, i]));
  for (const i of update.items || []) items.set(i.id, i);
  Object.assign(talk, { name: "", turn: "", waits: false, ...update, items: [...items.values()].slice(-maxItems), error: "" });
}
