// A chain as a graph: functions with their rates and states, links with their occupancy and drops.

import { html, Keyed, row, setAttributes, setText, show, svg } from "./dom.js";
import { amount, count, duration, NONE, percent, rate, shortened } from "./format.js";
import { BOX, END, graphOf, placed } from "./layout.js";
import { largest, StateBar } from "./states.js";

const LINK_BAR = 64;
const NAME = 19; // letters that fit

/** A chain with what is told of its parts. `parts`: growths and objects by name. */
export class ChainView {
  constructor(chain) {
    const { name } = chain.metadata;
    this.heading = html("h3", { class: "name" }, name);
    this.facts = html("p", { class: "facts" });
    this.alarm = html("p", { class: "bad", hidden: true });
    this.canvas = html("div", { class: "wide canvas", tabindex: 0, role: "group", "aria-label": `Graph of chain ${name}` });
    this.rows = html("tbody");
    this.links = new Keyed(this.rows, () => row(6, (cells) => cells));
    const titles = ["link", "packets/s", "waiting", "room", "full", "dropped/s"];
    const heads = titles.map((title) => html("th", { scope: "col" }, title));
    const caption = html("caption", { class: "unseen" }, `Links of chain ${name}`);
    const table = html("table", {}, caption, html("thead", {}, html("tr", {}, ...heads)), this.rows);
    this.details = html(
      "details",
      {},
      html("summary", {}, "Links as a table"),
      html("div", { class: "wide", tabindex: 0, role: "group", "aria-label": `Links of chain ${name}` }, table),
    );
    this.node = html("article", { class: "chain" }, this.heading, this.facts, this.alarm, this.canvas, this.details);
    this.observer = new ResizeObserver(() => this.#fit());
    this.observer.observe(this.canvas);
    this.details.addEventListener("toggle", () => this.data && this.update(this.data));
  }

  update(data) {
    this.data = data;
    const { chain, growth } = data;
    this.#tellFacts(chain, growth);
    const graph = graphOf(chain);
    if (this.graph?.key !== graph.key) this.#draw(graph);
    for (const node of this.graph.nodes) this.nodes.get(node.id).update(data);
    const told = this.graph.edges.map((edge) => [edge, linkOf(edge, this.graph, data)]);
    for (const [edge, link] of told) this.edges.get(edge.key).update(link);
    if (this.details.open) {
      this.links.update(told.map(([edge, link]) => [edge.key, cellsOf(edge, link)]));
    }
  }

  #tellFacts(chain, growth) {
    const { latency } = chain.status;
    const passed = (outcome) => growth.rate("unis_chain_packets_total", { outcome });
    const dropped = passed("dropped_down");
    const times = ["p50", "p95", "p99"].map((key) => `${key} ${duration(latency?.[key])}`).join(", ");
    const late = latency ? `${times} since the start` : "latency is not measured";
    const offered = growth.rate("unis_chain_offered_packets_total");
    setText(this.facts, `${rate(offered)} offered, ${rate(passed("delivered"))} delivered; ${late}`);
    const up = chain.status.conditions.find((one) => one.type === "Up");
    const down = up?.status === "False";
    const why = up?.message || "a function is missing";
    setText(this.alarm, down ? `▲ The chain is down: ${why}. Dropped meanwhile: ${rate(dropped)}.` : "");
    show(this.alarm, down);
  }

  #draw(graph) {
    this.graph = graph;
    this.nodes = new Map(graph.nodes.map((node) => [node.id, node.end ? new EndView(node) : new FunctionView(node)]));
    this.edges = new Map(graph.edges.map((edge) => [edge.key, new EdgeView()]));
    const names = graph.nodes.map((node) => node.name).join(", ");
    this.picture = svg("svg", { class: "graph", role: "img", "aria-label": `${names}. The tables tell the same.` });
    for (const view of this.edges.values()) this.picture.append(view.line);
    for (const view of this.edges.values()) this.picture.append(view.node);
    for (const view of this.nodes.values()) this.picture.append(view.node);
    this.canvas.replaceChildren(this.picture);
    this.width = 0;
    this.#fit();
  }

  #fit() {
    const width = this.canvas.clientWidth;
    if (!this.graph || !width || width === this.width) return;
    this.width = width;
    const layout = placed(this.graph, width);
    const viewBox = `0 0 ${layout.width} ${layout.height}`;
    setAttributes(this.picture, { width: layout.width, height: layout.height, viewBox });
    for (const [id, { x, y }] of layout.boxes) {
      setAttributes(this.nodes.get(id).node, { transform: `translate(${x} ${y})` });
    }
    for (const [key, line] of layout.lines) this.edges.get(key).place(line);
  }
}

class EndView {
  constructor(node) {
    this.from = node.id === "source:";
    this.rate = svg("text", { x: END.width / 2, y: 37, class: "centre" });
    const name = svg("text", { x: END.width / 2, y: 19, class: "centre strong" }, node.name);
    this.node = svg("g", {}, svg("rect", { ...END, rx: END.height / 2, class: "box end" }), name, this.rate);
  }

  update({ growth }) {
    const passed = this.from
      ? growth.rate("unis_chain_offered_packets_total")
      : growth.rate("unis_chain_packets_total", { outcome: "delivered" });
    setText(this.rate, rate(passed));
  }
}

class FunctionView {
  constructor({ name }) {
    this.name = name;
    this.box = svg("rect", { ...BOX, rx: 6, class: "box" });
    this.cpu = svg("text", { x: BOX.width - 10, y: 20, class: "right soft" });
    this.rate = svg("text", { x: 10, y: 39 });
    this.bar = new StateBar(BOX.width - 20, 13);
    this.words = [73, 88].map((y) => svg("text", { x: 10, y, class: "small" }));
    this.life = svg("text", { x: 10, y: 104, class: "small" });
    const bar = svg("g", { transform: "translate(10 46)" }, this.bar.node);
    const short = svg("text", { x: 10, y: 20, class: "strong" }, shortened(name, NAME - 4));
    const texts = [short, this.cpu, this.rate, ...this.words, this.life];
    this.node = svg("g", { class: "function" }, svg("title", {}, name), this.box, bar, ...texts);
  }

  update({ chain, functions }) {
    const found = functions.get(this.name);
    if (!found) return;
    const { object, growth, shares } = found;
    const { restarts } = object.status;
    const dead = isDead(object);
    setText(this.cpu, object.spec.cpu === null ? "" : `CPU ${object.spec.cpu}`);
    const received = growth.rate("unis_function_received_packets_total", { chain: chain.metadata.name });
    const uncounted = received === null && growth.before !== null;
    setText(this.rate, uncounted ? "packets not counted" : `${amount(received)} packets/s`);
    this.bar.update(dead ? null : shares);
    const words = dead ? [] : largest(shares, 2);
    this.words.forEach((node, index) => setText(node, words[index] ?? (index || dead ? "" : NONE)));
    const ended = `▲ ${object.status.ended || "not running"}`;
    const again = restarts === 1 ? "restarted once" : `restarted ${restarts} times`;
    setText(this.life, dead ? shortened(ended, 25) : restarts ? `↻ ${again}` : "");
    setAttributes(this.life, { class: dead ? "small bad" : "small" });
    setAttributes(this.box, { class: dead ? "box dead" : "box" });
  }
}

class EdgeView {
  constructor() {
    this.line = svg("path", { class: "edge", "marker-end": "url(#arrow)" });
    this.title = svg("title");
    this.full = svg("text", { y: -13, class: "centre small" });
    this.fill = svg("rect", { x: -LINK_BAR / 2, y: -8, height: 7, class: "waiting" });
    this.frame = svg("rect", { x: -LINK_BAR / 2, y: -8, width: LINK_BAR, height: 7, class: "frame room" });
    this.drops = svg("text", { y: 17, class: "centre small bad" });
    this.lost = svg("text", { y: 30, class: "centre small bad" });
    this.node = svg("g", { class: "link" }, this.title, this.frame, this.fill, this.full, this.drops, this.lost);
  }

  place({ path, label }) {
    setAttributes(this.line, { d: path });
    setAttributes(this.node, { transform: `translate(${label.x} ${label.y})` });
  }

  update({ waiting, room, share, dropped, name }) {
    const known = share !== null;
    setText(this.full, known ? `${percent(share)} full` : waiting === null ? "not seen" : `${amount(waiting)} wait`);
    const width = Math.round((share ?? 0) * LINK_BAR);
    setAttributes(this.fill, { width, class: share >= 0.9 ? "waiting high" : "waiting" });
    setAttributes(this.frame, { visibility: known ? "visible" : "hidden" });
    const drops = dropped > 0.5;
    setText(this.drops, drops ? `✕ ${rate(dropped)}` : "");
    setText(this.lost, drops ? "dropped" : "");
    setAttributes(this.line, { class: drops ? "edge dropping" : "edge" });
    setText(this.title, `${name}: ${count(waiting)} packets wait, room for ${count(room)}, ${rate(dropped)} dropped`);
  }
}

export function isDead(object) {
  return object.status.conditions.some((one) => one.type === "Running" && one.status === "False");
}

/** What is told of the link, or the links, of an edge. */
function linkOf(edge, graph, { chain, growth, functions, links }) {
  const name = chain.metadata.name;
  const ends = (id) => functions.get(id)?.object.status.links.find((one) => one.chain === name);
  const alone = (side) => graph.edges.filter((other) => other[side] === edge[side]).length === 1;
  const link = (alone("to") && ends(edge.to)?.receives) || (alone("from") && ends(edge.from)?.sends) || "";
  const seen = links.get(link);
  const sent = functions.get(edge.from)?.growth;
  const refused = alone("from") ? sent?.rate("unis_function_refused_packets_total", { chain: name }) ?? null : null;
  const passed = sent?.rate("unis_function_sent_packets_total", { chain: name }) ?? null;
  if (!edge.stated) {
    const first = edge.from === "source:";
    return {
      name: link || "link",
      passed: first ? growth.rate("unis_chain_offered_packets_total") : passed,
      waiting: seen?.value("unis_link_waiting_packets") ?? null,
      room: seen?.value("unis_link_capacity_packets") ?? null,
      share: seen?.value("unis_link_occupancy_ratio") ?? null,
      dropped: first ? growth.rate("unis_chain_packets_total", { outcome: "dropped_ingress_full" }) : refused,
    };
  }
  const waiting = growth.value("unis_edge_waiting_packets", edge.stated);
  const room = seen?.value("unis_link_capacity_packets") ?? null;
  const lost = growth.rate("unis_edge_dropped_packets_total", edge.stated);
  return {
    name: link || "links of the edge",
    passed: growth.rate("unis_edge_offered_packets_total", edge.stated),
    waiting,
    room,
    share: room && waiting !== null ? Math.min(1, waiting / room) : null,
    dropped: lost === null ? refused : lost + (refused ?? 0),
  };
}

function cellsOf(edge, { passed, waiting, room, share, dropped }) {
  const stop = (id) => ({ "source:": "source", ":sink": "sink" })[id] ?? id;
  return [`${stop(edge.from)} → ${stop(edge.to)}`, amount(passed), count(waiting), count(room), percent(share), amount(dropped)];
}
