// Numbers and times as people read them.
import { t } from "./texts.js";

export const count = n => n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : n >= 1e4 ? `${Math.round(n / 1e3)} k` : String(Math.round(n * 10) / 10);

export const took = ms => !ms ? "–" : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

export function length(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d`;
}

const zero = at => !at || at.startsWith("0001-");
export const since = at => zero(at) ? "–" : t.ago(length((Date.now() - Date.parse(at)) / 1000));

// lately is since, which changes once a minute: a long table does not change all of its rows every second.
export const lately = at => zero(at) ? "–" : Date.now() - Date.parse(at) < 60e3 ? t.now : since(at);
export const until = at => zero(at) ? "–" : t.inTime(length((Date.parse(at) - Date.now()) / 1000));
export const clock = at => new Date(at).toLocaleTimeString();

export const exit = e => !e ? "–" : `${e.result} (${e.code} ${e.status}), ${since(e.at)}`;
export const unit = u => u.active_state ? `${u.active_state} (${u.sub_state})` : t.unknown;

export const size = n => n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(1)} GiB` : `${Math.round(n / 2 ** 20)} MiB`;
