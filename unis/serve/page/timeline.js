// Which function ran when, and why it was left: a recording of some milliseconds.

import { get, pathOf } from "./api.js";
import { byId, html, setAttributes, setText, show, svg, table } from "./dom.js";
import { count, duration, percent } from "./format.js";
import { reasonInWords } from "./cores.js";

const TRACE_SECONDS = 40; // to wait for it: of a chain that switches fast it is long
const PAUSE_MS = 1100; // the server takes one recording a second
const MOST_RUNS = 4000; // that are drawn
const MOST_ROWS = 200; // of the table
const COLOURS = 7; // in page.css: lane-0 and on
const LANE = 16;
const HEAD = 22;
const PICTURE = [600, 1000, 2000, 4000, 8000, 16000]; // widths in pixels

/** Runs by CPU and function, each with why it ended, from a trace in Chrome's format. */
export function recordingOf(trace, most = MOST_RUNS) {
  const events = trace.traceEvents;
  const switches = events.filter((one) => one.ph === "i" && one.ts >= 0);
  let runs = events.filter((one) => one.ph === "X" && one.ts >= 0 && one.dur > 0).sort((a, b) => a.ts - b.ts);
  const left = Math.max(0, runs.length - most);
  runs = runs.slice(0, most).map((one) => ({
    cpu: one.pid, name: one.name, begin: one.ts / 1e6, seconds: one.dur / 1e6, packets: one.args.packets,
    why: whyLeft(one, switches),
  }));
  const seconds = runs.reduce((end, run) => Math.max(end, run.begin + run.seconds), 0);
  return { runs, seconds, left, policy: trace.otherData?.policy ?? "" };
}

/** The reason of the switch that comes nearest to the end of a run. */
function whyLeft(run, switches) {
  const end = run.ts + run.dur;
  let best = null;
  let low = 0;
  let high = switches.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (switches[middle].ts < end - 20) low = middle + 1;
    else high = middle;
  }
  for (let index = low; index < switches.length && switches[index].ts <= end + 20; index += 1) {
    const one = switches[index];
    if (one.pid !== run.pid || one.args.from !== run.name) continue;
    if (!best || Math.abs(one.ts - end) < Math.abs(best.ts - end)) best = one;
  }
  return best ? best.name : "";
}

export class Timeline {
  constructor() {
    this.picture = byId("timeline-picture");
    this.note = byId("timeline-note");
    this.told = byId("timeline-told");
    this.tables = byId("timeline-tables");
    this.zoom = 1;
    this.recording = false;
    byId("record").addEventListener("click", () => this.record());
    byId("zoom-in").addEventListener("click", () => this.zoomTo(this.zoom + 1));
    byId("zoom-out").addEventListener("click", () => this.zoomTo(this.zoom - 1));
    this.picture.addEventListener("keydown", (event) => this.#key(event));
    this.picture.addEventListener("mousemove", (event) => this.#tell(event.target.run));
    this.picture.addEventListener("click", (event) => this.#choose(event.target.run));
  }

  /** Of another run: what was recorded does not belong to it. */
  choose(run) {
    this.run = run;
    this.recorded = null;
    this.chosen = -1;
    this.picture.replaceChildren();
    this.tables.replaceChildren();
    show(byId("timeline-drawn"), false);
    setText(this.note, "");
  }

  async record() {
    const { run } = this;
    const seconds = Number(byId("record-seconds").value);
    const button = byId("record");
    if (button.disabled) return; // by the key
    button.disabled = true;
    this.recording = true;
    setText(this.note, "recording …");
    try {
      const trace = await get(`${pathOf(run, "/trace")}?seconds=${seconds}`, TRACE_SECONDS);
      if (run === this.run) this.#draw(recordingOf(trace));
    } catch (error) {
      if (run === this.run) setText(this.note, `▲ ${error.message}`);
    } finally {
      this.recording = false;
      setTimeout(() => { button.disabled = false; }, PAUSE_MS);
    }
  }

  #draw(recording) {
    this.recorded = recording;
    this.chosen = -1;
    const { runs, seconds, left } = recording;
    show(byId("timeline-drawn"), runs.length > 0);
    if (!runs.length) {
      setText(this.note, "No function ran in this time.");
      return;
    }
    const more = left ? `; the last ${count(left)} are left out` : "";
    setText(this.note, `${count(runs.length)} turns in ${duration(seconds)}${more}.`);
    this.lanes = [...new Set(runs.map((run) => `${run.cpu}\n${run.name}`))]
      .map((key) => key.split("\n"))
      .sort((a, b) => Number(a[0]) - Number(b[0]));
    this.#tables();
    this.zoomTo(Math.min(this.zoom, PICTURE.length - 1));
    this.#choose(null);
  }

  zoomTo(zoom) {
    this.zoom = Math.max(0, Math.min(PICTURE.length - 1, zoom));
    if (!this.recorded) return;
    const { runs, seconds } = this.recorded;
    const width = PICTURE[this.zoom];
    const height = HEAD + this.lanes.length * LANE + 4;
    const x = (time) => Math.round((time / seconds) * width * 100) / 100;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "timeline", role: "img" });
    setAttributes(picture, { "aria-label": "Turns of functions over time; the tables below tell the same" });
    for (const time of ticksOf(seconds, width)) {
      picture.append(svg("path", { d: `M${x(time)} ${HEAD - 6}V${height}`, class: "tick" }));
      picture.append(svg("text", { x: x(time) + 3, y: 12, class: "small soft" }, time ? duration(time) : "0"));
    }
    const lane = new Map(this.lanes.map(([cpu, name], index) => [`${cpu}\n${name}`, index]));
    this.marks = runs.map((run) => {
      const index = lane.get(`${run.cpu}\n${run.name}`);
      const shape = { x: x(run.begin), y: HEAD + index * LANE + 1, width: Math.max(0.6, x(run.seconds)), height: LANE - 3 };
      const mark = svg("rect", { ...shape, class: `run lane-${index % COLOURS}` });
      mark.run = run;
      return mark;
    });
    picture.append(...this.marks);
    const names = this.lanes.map(([cpu, name]) => html("li", { title: name }, `${name} (CPU ${cpu})`));
    byId("timeline-names").replaceChildren(...names);
    const scrolled = this.picture.scrollLeft / (this.picture.scrollWidth || 1);
    this.picture.replaceChildren(picture);
    this.picture.scrollLeft = scrolled * this.picture.scrollWidth;
    this.#mark();
  }

  #choose(run) {
    this.chosen = run ? this.recorded.runs.indexOf(run) : this.chosen;
    this.#mark();
    this.#tell(run ?? this.recorded?.runs[this.chosen]);
  }

  #mark() {
    this.picture.querySelector(".chosen")?.classList.remove("chosen");
    this.marks?.[this.chosen]?.classList.add("chosen");
  }

  #tell(run) {
    if (!run) {
      if (this.chosen < 0) setText(this.told, "Point at a turn, or go from turn to turn with ← and →.");
      return;
    }
    const why = run.why ? `; left: ${reasonInWords(run.why)}` : "";
    const when = `from ${duration(run.begin)} for ${duration(run.seconds)}`;
    setText(this.told, `${run.name} on CPU ${run.cpu}: ${when}, ${count(run.packets)} packets${why}`);
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "+" || event.key === "-") this.zoomTo(this.zoom + (event.key === "+" ? 1 : -1));
    else if (step && this.recorded) {
      const most = this.recorded.runs.length - 1;
      this.chosen = Math.max(0, Math.min(most, this.chosen + step));
      this.#choose(null);
      this.marks[this.chosen].scrollIntoView({ block: "nearest", inline: "nearest" });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #tables() {
    const { runs, seconds } = this.recorded;
    const summary = this.lanes.map(([cpu, name]) => {
      const own = runs.filter((run) => run.name === name && String(run.cpu) === cpu);
      const ran = own.reduce((sum, run) => sum + run.seconds, 0);
      const reasons = new Map();
      for (const { why } of own) if (why) reasons.set(why, (reasons.get(why) ?? 0) + 1);
      const most = [...reasons].sort((a, b) => b[1] - a[1]);
      const why = most.map(([reason, times]) => `${count(times)} × ${reasonInWords(reason)}`);
      const packets = own.reduce((sum, run) => sum + run.packets, 0);
      const each = [duration(ran / own.length), count(packets / own.length)];
      return [name, cpu, count(own.length), duration(ran), percent(ran / seconds), ...each, why.join(", ")];
    });
    const heads = ["function", "CPU", "turns", "ran", "share", "a turn", "packets a turn", "why left"];
    const turns = runs.slice(0, MOST_ROWS).map((run) => [
      run.name, String(run.cpu), duration(run.begin), duration(run.seconds), count(run.packets), run.why ? reasonInWords(run.why) : "",
    ]);
    const single = table(`The first ${turns.length} turns`, ["function", "CPU", "from", "for", "packets", "why left"], turns);
    this.tables.replaceChildren(
      table("Turns by function", heads, summary),
      html("details", {}, html("summary", {}, "Turns as a table"), single),
    );
  }
}

function ticksOf(seconds, width) {
  const wanted = (seconds / width) * 110;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= wanted);
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, index) => index * step);
}
