// What would be done with a chain file, as tables.

import { html, table } from "./dom.js";
import { duration } from "./format.js";

/** The name that a chain file gives its run; empty: none. */
export function nameIn(text) {
  if (text.trimStart().startsWith("{")) {
    try {
      const data = JSON.parse(text);
      return String((data.kind === "Run" ? data.metadata?.name : data.name) ?? "");
    } catch {
      return "";
    }
  }
  return text.match(/^name:[ \t]*(["']?)([^"'#\s]+)\1[ \t]*(?:#.*)?$/m)?.[2] ?? "";
}

/** Whether there is something to apply, and the parts of the page that tell what. */
export function told(plan) {
  const notes = [...plan.notes, ...(plan.result?.notes ?? [])].map((note) => html("p", { class: "facts" }, note));
  const found = plan.kind === "Difference" ? difference(plan) : start(plan);
  return { ...found, parts: [...found.parts, ...notes] };
}

function difference({ metadata, result }) {
  const { changes, ended, started, down, refused } = result.difference;
  const run = metadata.name;
  const parts = [];
  const add = (sentence, kind = "facts") => parts.push(html("p", { class: kind }, sentence));
  for (const sentence of refused) add(`▲ Cannot be changed while the run is up: ${sentence}`, "bad");
  if (!changes.length && !refused.length) add(`Nothing would change: run ${run} is what this file says.`);
  if (changes.length) {
    const rows = changes.map(({ part, name, what, why }) => [part, name, what, why.join(", ")]);
    parts.push(table(`What would change in run ${run}`, ["part", "name", "what happens", "why"], rows));
    if (ended.length) add(`Processes that end: ${ended.join(", ")}.`);
    if (started.length) add(`Processes that start: ${started.join(", ")}.`);
    if (down.length) add(`▲ Chains that drop packets meanwhile: ${down.join(", ")}.`, "bad");
    else add("No chain that stays drops packets meanwhile.");
  }
  return { parts, possible: changes.length > 0 && !refused.length };
}

function start({ metadata, result }) {
  const cpus = (list) => list.join(", ") || "none";
  const where = `functions on CPU ${cpus(result.cpus)}, the engine on CPU ${cpus(result.platform_cpus)}`;
  const memory = `${result.hugepages_mb} MB of hugepages`;
  const sentence = `Run ${metadata.name} would start: ${where}, ${memory}, policy ${result.policy}.`;
  const functions = result.functions.map((one) => [
    one.name, String(one.cpu ?? ""), one.program.split("/").at(-1), one.words.join(" "), one.restart,
  ]);
  const chains = result.chains.map((one) => {
    const promise = one.goal_ns ? `p95 ≤ ${duration(one.goal_ns / 1e9)}` : "";
    return [one.name, pathOf(one), promise, one.ring?.why ?? ""];
  });
  const links = result.links.map((one) => {
    const ends = (one.edge ?? []).slice(1).map((end) => end || "the engine");
    return [one.name, one.kind, String(one.slots ?? ""), ends.join(" → ")];
  });
  const parts = [
    html("p", { class: "facts" }, sentence),
    table("Chains", ["chain", "path", "promise", "length of its links, and why"], chains),
    table("Functions", ["function", "CPU", "program", "arguments", "restart"], functions),
    html("details", {}, html("summary", {}, `${links.length} links`), table("Links", ["link", "kind", "packets", "between"], links)),
  ];
  return { parts, possible: true };
}

function pathOf({ hops = [], edges = [] }) {
  if (edges.length) return edges.map(({ origin, to }) => `${origin || "source"} → ${to || "sink"}`).join(", ");
  return hops.map((hop) => hop.function ?? hop.name ?? hop).join(" → ");
}
