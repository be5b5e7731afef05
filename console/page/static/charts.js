// Charts as SVG. Each has a text or a table with the same numbers beside it.
import { el } from "./dom.js";
import { t } from "./texts.js";

export function spark(name, values, show) {
  const most = Math.max(...values, 0), scale = most || 1, width = Math.max(values.length - 1, 1);
  const line = values.map((v, i) => `${i ? "L" : "M"}${i} ${(38 - v / scale * 36).toFixed(1)}`).join("");
  const last = values.length ? values[values.length - 1] : 0;
  return el("figure", { class: "spark", "data-key": name },
    el("figcaption", null, el("span", null, name), el("b", null, show(last))),
    el("svg", { class: "line", viewBox: `0 0 ${width} 40`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${show(last)}, ${t.most(show(most))}` },
      el("path", { d: line })));
}

export function bars(label, values) {
  const most = Math.max(...values.map(v => v.value), 1);
  return el("svg", { class: "bars", viewBox: `0 0 ${Math.max(values.length, 1)} 100`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    values.map((v, i) => el("rect", { x: i + 0.1, width: 0.8, y: (100 - v.value / most * 100).toFixed(2), height: (v.value / most * 100).toFixed(2) },
      el("title", null, `${v.name}: ${v.value}`))));
}
