// Elements, and the change of a page into its next state: what stays equal is not touched, so focus and selection stay.
const ownKey = Symbol("key"); // a form has a property for the name of each of its fields
const svgNames = new Set(["svg", "path", "rect", "title"]);

export function el(name, attributes, ...children) {
  const e = svgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== false && value !== undefined && value !== null) e.setAttribute(key, value === true ? "" : value);
  if (attributes && attributes["data-key"]) e[ownKey] = attributes["data-key"];
  e.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
  return e;
}

// keyOf is the key of an element; dataset alone is slow for the rows of a long table.
const keyOf = node => node[ownKey] || node.dataset?.key;
const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// kept has the element of an object that does not change, and entries the same by their elements.
const kept = new WeakMap(), entries = new WeakMap();

// keep makes the element of an object once, and again for another variant.
export function keep(object, variant, make) {
  const known = kept.get(object);
  if (known && known.variant === variant) return known.node;
  const entry = { variant, node: make() };
  kept.set(object, entry);
  entries.set(entry.node, entry);
  return entry.node;
}

// numberOf is a number of an object, which tells it from all others.
const numbers = new WeakMap();
let last = 0;
export const numberOf = object => numbers.get(object) || (numbers.set(object, ++last), last);

function change(old, next) {
  if (old === next) return;
  if (entries.has(next)) { // old shows the object from now on
    const entry = entries.get(next);
    entry.node = old;
    entries.set(old, entry);
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.nodeName !== "SELECT") morph(old, next.list || [...next.childNodes]);
}

// fill puts the rows of tables into a new element. Until then they are where they were, in the page that is shown.
function fill(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  for (const body of node.querySelectorAll("tbody")) if (body.list) body.append(...body.list);
}

// morph changes the children of an element into nodes. Most rows of a long table stay: only what lies between the first
// and the last one that changes is looked at further.
export function morph(parent, nodes) {
  let from = 0, to = nodes.length, at = parent.firstChild, end = null;
  for (; at && nodes[from] === at; at = at.nextSibling) from++;
  for (let last = parent.lastChild; at !== end && to > from && nodes[to - 1] === last; last = last.previousSibling, to--) end = last;
  between(parent, nodes.slice(from, to), at, end);
}

// between does that for the children from at to end.
function between(parent, nodes, at, end) {
  const wanted = new Set(nodes.map(keyOf).filter(Boolean)), keyed = new Map();
  for (let c = at, next; c !== end; c = next) {
    next = c.nextSibling;
    const key = keyOf(c);
    if (key && !wanted.has(key)) { // so that the others stay in place, with the focus
      if (c === at) at = next;
      c.remove();
    } else if (key) keyed.set(key, c);
  }
  for (const node of nodes) {
    if (node === at) { // a kept row that stays where it is
      at = at.nextSibling;
      continue;
    }
    const key = keyOf(node);
    const old = key ? keyed.get(key) : at !== end && !keyOf(at) ? at : null;
    if (old && same(old, node)) {
      if (old === at) at = at.nextSibling;
      else parent.insertBefore(old, at);
      change(old, node);
    } else {
      fill(node);
      parent.insertBefore(node, at);
    }
  }
  while (at !== end) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export function table(label, heads, rows) {
  const body = el("tbody");
  body.list = rows.flat(Infinity);
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 },
    el("table", null, el("thead", null, el("tr", null, heads.map(h => el("th", { scope: "col" }, h)))), body));
}

// A long table has its first rows until a person asks for all: a browser lays all rows out anew when one has changed.
const firstRows = 100;
export const first = (list, all, always = () => false) => all ? list : list.filter((one, i) => i < firstRows || always(one));
export const rest = (list, shown, text) => shown.length < list.length ? el("p", null, el("button", { type: "button", id: "more" }, text(list.length))) : null;

// row has a key, its first cell as its head, and cells: texts, elements, or { wide }.
export function row(key, head, ...cells) {
  return el("tr", { "data-key": key }, el("th", { scope: "row" }, head),
    cells.map(c => c && c.wide !== undefined ? el("td", { class: "wide" }, c.wide) : el("td", null, c)));
}

export const badge = (kind, text) => el("span", { class: `badge ${kind}` }, text);

export function act(verb, words, text, label, disabled) {
  return el("button", { type: "button", "data-verb": verb, "data-words": JSON.stringify(words), "aria-label": label, disabled }, text);
}
