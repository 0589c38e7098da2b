// Elements that are made once and changed in place. Data gets into the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** An element of HTML. An attribute that is a function listens to the event of that name. */
export function html(tag, attributes = {}, ...children) {
  return made(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

/** The element of this id, which index.html has. */
export function byId(id) {
  return document.getElementById(id);
}

export function setText(node, value) {
  const text = node.firstChild;
  if (!text) node.append(value);
  else if (text.data !== value) text.data = value;
}

export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/** Children of `parent`, one for each key; a view is `{node, update(data)}`. */
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.views = new Map();
  }

  /** `items`: pairs of key and data, in their order. */
  update(items) {
    const wanted = new Set(items.map(([key]) => key));
    for (const [key, view] of this.views) {
      if (wanted.has(key)) continue;
      view.node.remove();
      this.views.delete(key);
    }
    items.forEach(([key, data], index) => {
      let view = this.views.get(key);
      if (!view) this.views.set(key, (view = this.make(data, key)));
      const there = this.parent.children[index] ?? null;
      if (there !== view.node) this.parent.insertBefore(view.node, there);
      view.update(data);
    });
  }
}

/** A row of a table for `Keyed`; `cells(data)` are its texts, the first one heads the row. */
export function row(count, cells) {
  const all = Array.from({ length: count }, (_, index) => html(index ? "td" : "th", index ? {} : { scope: "row" }));
  return {
    node: html("tr", {}, ...all),
    update: (data) => cells(data).forEach((value, index) => setText(all[index], value)),
  };
}

/** A table of texts that does not change. */
export function table(caption, heads, rows) {
  const head = html("tr", {}, ...heads.map((name) => html("th", { scope: "col" }, name)));
  const body = rows.map((cells) =>
    html("tr", {}, ...cells.map((cell, index) => html(index ? "td" : "th", index ? {} : { scope: "row" }, cell))),
  );
  return html(
    "div",
    { class: "wide", tabindex: 0, role: "group", "aria-label": caption },
    html("table", {}, html("caption", {}, caption), html("thead", {}, head), html("tbody", {}, ...body)),
  );
}
