// The states of a function's time: how they are called and drawn. Each has a pattern beside its colour.

import { svg, setAttributes, setText } from "./dom.js";
import { NONE, percent } from "./format.js";

const TIME = "unis_function_cpu_seconds_total";

export const STATES = [
  { key: "busy", label: "busy", says: "has the CPU and works on packets" },
  { key: "spinning", label: "spinning", says: "has the CPU and polls without packets" },
  { key: "run_delay", label: "run delay", says: "could run and has no CPU" },
  { key: "backpressured", label: "backpressured", says: "could run, but the link behind it is full" },
  { key: "blocked", label: "blocked", says: "sleeps" },
];
export const REST = { key: "rest", label: "rest", says: "no function had the CPU: idle, switches, or the kernel" };
export const HAS_CPU = { key: "ran", label: "has the CPU", says: "nobody counts its packets, so busy and spinning are one" };
const ALL = [...STATES, HAS_CPU, REST];
const LABELS = Object.fromEntries(ALL.map((state) => [state.key, state.label]));

/** How long a function has been scheduled, by the clock of its engine; null: its states are not known. */
export function passedOf({ status }) {
  const values = status.counters[TIME] ?? [];
  if (!values.some((one) => one.labels.state === "busy")) return null;
  const threads = status.counters.unis_function_threads?.[0]?.value ?? 1;
  return values.reduce((sum, one) => sum + one.value, 0) / Math.max(1, threads);
}

/** Shares of a function's time by state, summing to 1; null: not known this time. */
export function sharesOf(growth) {
  const seconds = STATES.map(({ key }) => [key, growth.rate(TIME, { state: key })]).filter(([, rate]) => rate !== null);
  if (!seconds.some(([key]) => key === "busy")) {
    const ran = growth.rate("unis_function_ran_seconds_total");
    if (ran !== null) seconds.unshift(["ran", ran]);
  }
  const total = seconds.reduce((sum, [, rate]) => sum + rate, 0);
  return total > 0 ? Object.fromEntries(seconds.map(([key, rate]) => [key, rate / total])) : null;
}

/** Shares of a CPU: of its functions while they have it, and the rest. */
export function sharesOfCpu(growths) {
  const sum = (name, labels) => growths.reduce((all, growth) => all + (growth.rate(name, labels) ?? 0), 0);
  if (!growths.some((growth) => growth.before)) return null;
  const busy = sum(TIME, { state: "busy" });
  const spinning = sum(TIME, { state: "spinning" });
  const uncounted = growths
    .filter((growth) => growth.value(TIME, { state: "busy" }) === null)
    .reduce((all, growth) => all + (growth.rate("unis_function_ran_seconds_total") ?? 0), 0);
  const total = Math.max(1, busy + spinning + uncounted);
  const shares = { busy: busy / total, spinning: spinning / total };
  if (uncounted) shares.ran = uncounted / total;
  shares.rest = Math.max(0, 1 - (busy + spinning + uncounted) / total);
  return shares;
}

/** "busy 42 %", "run delay 38 %": the largest ones. */
export function largest(shares, most) {
  return Object.entries(shares ?? {})
    .filter(([, share]) => share >= 0.005)
    .sort((a, b) => b[1] - a[1])
    .slice(0, most)
    .map(([key, share]) => `${LABELS[key]} ${percent(share)}`);
}

/** The same as one text. */
export function inWords(shares, most = ALL.length) {
  return largest(shares, most).join(", ") || NONE;
}

/** A bar of stacked shares, as an element of SVG: a group, or with `alone` a picture. */
export class StateBar {
  constructor(width, height, alone = false) {
    this.width = width;
    this.parts = new Map(ALL.map(({ key }) => [key, svg("rect", { y: 0, width: 0, height, class: `state ${key}` })]));
    const frame = svg("rect", { width, height, class: "frame" });
    this.title = svg("title");
    const parts = [this.title, ...this.parts.values(), frame];
    this.node = alone
      ? svg("svg", { ...around(width, height), class: "bar", role: "img" }, ...parts)
      : svg("g", {}, ...parts);
  }

  update(shares) {
    let x = 0;
    for (const [key, rect] of this.parts) {
      const width = Math.round((shares?.[key] ?? 0) * this.width * 10) / 10;
      setAttributes(rect, { x: Math.round(x * 10) / 10, width: Math.max(0, Math.min(width, this.width - x)) });
      x += width;
    }
    setText(this.title, inWords(shares));
  }
}

/** Room for the frame, half of which is outside. */
function around(width, height) {
  const [wide, high] = [width + 1, height + 1];
  return { viewBox: `-0.5 -0.5 ${wide} ${high}`, width: wide, height: high };
}

/** Items of a legend. */
export function legend(states) {
  return states.map(({ key, label, says }) => {
    const box = svg("svg", { class: "key", width: 20, height: 14, "aria-hidden": "true" });
    const frame = svg("rect", { x: 0.5, y: 0.5, width: 19, height: 13, class: "frame" });
    box.append(svg("rect", { width: 20, height: 14, class: `state ${key}` }), frame);
    return [box, label, says];
  });
}
