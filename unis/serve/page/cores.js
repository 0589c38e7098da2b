// CPUs with the states of their time, and the functions on them as a table.

import { html, Keyed, setAttributes, setText } from "./dom.js";
import { amount, count, duration, NONE, percent, rate } from "./format.js";
import { isDead } from "./graph.js";
import { inWords, sharesOfCpu, StateBar } from "./states.js";

// Why a function is left for another one.
const REASONS = {
  start: "first turn",
  self: "passed the CPU on by itself",
  "slice expired": "time slice over",
  "ingress low": "too few packets before it",
  "egress high": "link behind it nearly full",
  still: "moved no packet",
  between: "between the turns of others",
};

export function reasonInWords(reason) {
  return REASONS[reason] ?? reason;
}

/** A CPU: how its time was used, and why it was handed over. */
export class CoreView {
  constructor(core) {
    this.bar = new StateBar(320, 18, true);
    this.words = html("p", { class: "facts" });
    this.switches = html("p", { class: "facts soft" });
    const heading = html("h3", {}, `CPU ${core.object.metadata.name}`);
    this.node = html("article", { class: "core" }, heading, this.bar.node, this.words, this.switches);
  }

  update({ object, growth, on }) {
    const shares = sharesOfCpu(on);
    this.bar.update(shares);
    const resting = growth.value("unis_cpu_resting") === 1 ? "; at the moment all its functions sleep" : "";
    setText(this.words, `${inWords(shares)}${resting}`);
    const reasons = growth.rates("unis_switches_total", "reason");
    const why = reasons.map(([reason, times]) => `${reasonInWords(reason)} ${rate(times)}`).join(", ");
    const all = growth.rate("unis_switches_total");
    const functions = object.status.functions.length;
    const told = `${functions} ${functions === 1 ? "function" : "functions"}; switches: ${rate(all)}`;
    setText(this.switches, `${told}${why ? ` (${why})` : ""}`);
    setAttributes(this.switches, { title: object.status.functions.join(", ") });
  }
}

/** The table of functions. */
export class FunctionRows {
  constructor(body) {
    this.rows = new Keyed(body, () => new FunctionRow());
  }

  update(functions) {
    this.rows.update([...functions]);
  }
}

class FunctionRow {
  constructor() {
    this.name = html("th", { scope: "row", class: "name" });
    this.bar = new StateBar(150, 13, true);
    this.states = html("span", { class: "states" });
    const keys = ["cpu", "received", "sent", "refused", "cost", "life"];
    this.texts = keys.map((key) => [key, html("td", { class: key === "life" ? "words" : "" })]);
    const [cpu, ...others] = this.texts.map(([, cell]) => cell);
    const states = html("td", { class: "words" }, this.bar.node, this.states);
    this.node = html("tr", {}, this.name, cpu, states, ...others);
  }

  update({ object, growth, shares }) {
    const { restarts, pid, ended } = object.status;
    const dead = isDead(object);
    const texts = {
      cpu: count(object.spec.cpu),
      received: amount(growth.rate("unis_function_received_packets_total")),
      sent: amount(growth.rate("unis_function_sent_packets_total")),
      refused: amount(growth.rate("unis_function_refused_packets_total")),
      cost: duration(growth.value("unis_function_packet_cost_seconds")),
      life: dead ? `▲ ${ended || "not running"}` : `process ${pid ?? NONE}${restarts ? `, restarted ${restarts}×` : ""}`,
    };
    setText(this.name, object.metadata.name);
    for (const [key, cell] of this.texts) setText(cell, texts[key]);
    setAttributes(this.texts.at(-1)[1], { class: dead ? "words bad" : "words" });
    this.bar.update(dead ? null : shares);
    setText(this.states, dead ? "" : inWords(shares, 3));
    setAttributes(this.states, { title: shares ? `busy ${percent(shares.busy)}` : "" });
  }
}
