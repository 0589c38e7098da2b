// The page of `unis serve`: looks at the runs once a second, and shows the one that is chosen.

import { get, pathOf, token } from "./api.js";
import { Alarms, Events, whyOf } from "./alarms.js";
import { Changes } from "./change.js";
import { CoreView, FunctionRows } from "./cores.js";
import { byId, html, Keyed, setAttributes, setText, show } from "./dom.js";
import { clock, count, duration, percent, rate } from "./format.js";
import { ChainView } from "./graph.js";
import { AnswerClock, Growth, Rates } from "./rates.js";
import { HAS_CPU, legend, passedOf, REST, sharesOf, STATES } from "./states.js";
import { Timeline } from "./timeline.js";

const EACH_MS = 1000;
const PARTS = ["chains", "functions", "links", "cores", "promises"];
const SECTIONS = ["summary", "alarm", "chain", "core", "timeline", "event", "change"];
const SHORTCUTS = "unis-shortcuts"; // "off" where the user has turned them off

class Page {
  constructor() {
    this.rates = new Rates();
    this.clock = new AnswerClock();
    this.runs = [];
    this.parts = null; // of the chosen run, as they were last told
    this.silent = null; // since when the engine does not answer
    this.away = null; // since when the server does not answer
    this.tabs = new Keyed(byId("runs"), (run) => tab(run));
    this.chains = new Keyed(byId("chains"), ({ chain }) => new ChainView(chain));
    this.cores = new Keyed(byId("cores"), (core) => new CoreView(core));
    this.functions = new FunctionRows(byId("function-rows"));
    this.alarms = new Alarms();
    this.events = new Events(() => this.askToken());
    this.timeline = new Timeline();
    this.changes = new Changes((run) => this.choose(run));
    for (const [box, label, says] of legend([...STATES, HAS_CPU, REST])) {
      byId("legend").append(html("li", {}, box, html("b", {}, label), ` ${says}`));
    }
    this.#listen();
  }

  #listen() {
    addEventListener("hashchange", () => this.#chosen());
    addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => this.#visible());
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      token.set(byId("token").value.trim());
      byId("token").value = "";
      byId("token-dialog").close();
      this.refused = false;
      this.look();
    });
    byId("keys-open").addEventListener("click", () => byId("keys").showModal());
    byId("keys-close").addEventListener("click", () => byId("keys").close());
    const shortcuts = byId("shortcuts");
    shortcuts.checked = localStorage.getItem(SHORTCUTS) !== "off";
    shortcuts.addEventListener("change", () => localStorage.setItem(SHORTCUTS, shortcuts.checked ? "on" : "off"));
  }

  start() {
    this.#chosen();
    this.#visible();
  }

  /** A tab that nobody sees asks nothing. */
  #visible() {
    clearTimeout(this.timer);
    if (document.hidden) {
      this.events.stop();
      return;
    }
    this.events.start();
    this.#turn();
  }

  async #turn() {
    const began = performance.now();
    await this.look();
    clearTimeout(this.timer);
    if (!document.hidden) this.timer = setTimeout(() => this.#turn(), Math.max(100, EACH_MS - (performance.now() - began)));
  }

  choose(run) {
    location.hash = `run=${encodeURIComponent(run)}`;
  }

  #chosen() {
    const name = runInHash();
    // The skip link has an anchor of its own.
    if (name === this.name || (this.name && !location.hash.startsWith("#run="))) return;
    this.name = name;
    this.rates.forget();
    this.parts = null;
    this.silent = null;
    this.alarms.broken = 0;
    this.timeline.choose(name);
    this.changes.choose(name);
    if (this.runs.length) this.look();
  }

  /** Asks once, and shows what was answered. Nothing is thrown. */
  async look() {
    if (this.refused) return;
    const { name } = this;
    try {
      const found = await Promise.all([get("v1/runs"), ...(name ? PARTS.map((part) => partOf(name, part)) : [])]);
      if (name === this.name) this.#take(found[0].items, found.slice(1));
    } catch (error) {
      if (error.status === 401) this.askToken(error.message);
      else this.#unanswered(error);
    }
  }

  askToken(why = "the token is not known here") {
    if (byId("token-dialog").open) return;
    this.refused = true;
    setText(byId("token-why"), token.get() ? `▲ ${why}` : "");
    token.forget();
    byId("token-dialog").showModal();
  }

  #unanswered(error) {
    this.away ??= new Date();
    const since = `since ${clock(this.away)}`;
    this.#state(error.status ? `▲ ${error.message}` : `▲ ${error.message} ${since}; what you see is older`);
  }

  #take(runs, parts) {
    this.away = null;
    this.runs = runs;
    if (!this.name && runs.length) {
      this.choose(runs[0].metadata.name);
      return;
    }
    const run = runs.find((one) => one.metadata.name === this.name);
    this.#told(run, parts);
    this.#tabs();
  }

  #told(run, parts) {
    show(byId("nothing"), !run && !this.parts);
    const none = "No run is up. Start one with `unis up FILE`, or plan a chain file below.";
    setText(byId("nothing"), this.name ? `There is no run ${this.name}.` : none);
    show(byId("down"), Boolean(run));
    if (run && parts.every(Boolean)) {
      this.#keep(run, Object.fromEntries(PARTS.map((part, index) => [part, parts[index].items])));
    }
    show(byId("shown"), this.parts !== null);
    if (!this.parts) {
      this.#state("");
      return;
    }
    const told = run ? silenceOf(run) : `run ${this.name} is down`;
    if (!told) this.silent = null;
    else this.silent ??= new Date();
    const ready = run && readyOf(run);
    const silent = ready?.reason === "EngineSilent";
    const what = silent ? "The engine does not answer" : run ? `The run is ${run.status.phase}` : "";
    const since = clock((run && ready?.lastTransitionTime) || this.silent);
    const older = this.parts.chains.length ? " What you see is older." : "";
    this.#state(told ? `▲ ${what ? `${what} since` : "Since"} ${since}: ${told}.${older}` : "");
    if (run) this.#show(run);
  }

  /** An engine that is silent tells no chains: what it told last stays. */
  #keep(run, parts) {
    const before = this.parts;
    const same = before && before.uid === run.metadata.uid;
    const silent = silenceOf(run) !== "";
    if (!same || !silent) {
      this.parts = { uid: run.metadata.uid, run, ...parts };
      return;
    }
    const noted = new Map(parts.functions.map((one) => [one.metadata.name, one]));
    const functions = before.functions.map((one) => withCounters(noted.get(one.metadata.name), one));
    const { counters, policy } = before.run.status;
    this.parts = { ...before, functions, run: { ...run, status: { ...run.status, counters, policy } } };
  }

  #tabs() {
    this.tabs.update(this.runs.map((run) => [run.metadata.name, this.#tabOf(run)]));
    document.title = this.name ? `${this.name} – UNiS` : "UNiS";
  }

  #tabOf(run) {
    const current = run.metadata.name === this.name;
    return { run, current, alarm: current && this.alarms.broken > 0 };
  }

  #state(sentence) {
    show(byId("state"), sentence !== "");
    if (byId("state").textContent !== sentence) setText(byId("state"), sentence);
    document.body.classList.toggle("old", sentence !== "");
  }

  #show(run) {
    const { parts } = this;
    // While the engine is silent nothing passes by its clock.
    const now = this.silent ? 0 : this.clock.at(new Map(parts.functions.map((one) => [one.metadata.name, passedOf(one)])), performance.now());
    this.#summary(run, this.#growth(parts.run, now));
    this.alarms.update([run, ...parts.chains, ...parts.functions, ...parts.promises], parts.promises);
    if (this.silent && this.drawn === parts.uid) {
      const functions = this.#functions(now);
      this.functions.update(functions);
      for (const view of this.chains.views.values()) view.update({ ...view.data, functions });
      return; // the rest is as it was
    }
    this.drawn = parts.uid;
    const functions = this.#functions(now);
    const links = new Map(parts.links.map((link) => [link.metadata.name, this.#growth(link, now)]));
    const chains = parts.chains.map((chain) => {
      return [chain.metadata.name, { chain, growth: this.#growth(chain, now), functions, links }];
    });
    this.chains.update(chains);
    this.functions.update(functions);
    const cores = parts.cores.map((object) => {
      const on = object.status.functions.map((name) => functions.get(name)?.growth).filter(Boolean);
      return [object.metadata.name, { object, growth: this.#growth(object, now), on }];
    });
    this.cores.update(cores);
    show(byId("no-core"), cores.length === 0);
  }

  /** What an engine that is silent told last does not grow. */
  #growth(object, now) {
    return this.silent ? new Growth(object.status.counters, null, 0) : this.rates.take(object, now);
  }

  #functions(now) {
    return new Map(
      this.parts.functions.map((object) => {
        const growth = this.#growth(object, now);
        return [object.metadata.name, { object, growth, shares: sharesOf(growth) }];
      }),
    );
  }

  #summary(run, growth) {
    const { status, metadata } = run;
    setText(byId("run-name"), metadata.name);
    setText(byId("phase"), status.phase);
    setText(byId("policy"), status.policy ?? this.parts.run.status.policy ?? "–");
    for (const type of ["Ready", "Applied"]) {
      conditionInto(byId(type.toLowerCase()), status.conditions.find((one) => one.type === type));
    }
    const outcomes = (growth.counters.unis_packets_total ?? []).map((one) => one.labels.outcome);
    const lost = outcomes.filter((outcome) => !["delivered", "copies_ended"].includes(outcome));
    const sum = (read) => (lost.length ? lost.reduce((all, outcome) => all + (read(outcome) ?? 0), 0) : null);
    const delivered = growth.rate("unis_packets_total", { outcome: "delivered" });
    const dropped = delivered === null ? null : sum((outcome) => growth.rate("unis_packets_total", { outcome }));
    const offered = growth.rate("unis_offered_packets_total");
    setText(byId("offered"), rate(offered));
    setText(byId("delivered"), rate(delivered));
    setText(byId("dropped"), dropped > 0.5 ? `✕ ${rate(dropped)}` : rate(dropped));
    setAttributes(byId("dropped"), { class: dropped > 0.5 ? "bad" : "" });
    const share = dropped > 0.5 && offered ? `${percent(dropped / offered)} of what came; ` : "";
    const all = sum((outcome) => growth.value("unis_packets_total", { outcome }));
    setText(byId("dropped-all"), all === null ? "" : `${share}${count(all)} since the start`);
    const slowest = Math.max(...this.parts.chains.map((chain) => chain.status.latency?.p95 ?? -1));
    setText(byId("latency"), slowest < 0 ? "–" : duration(slowest));
    setText(byId("problems"), status.problems.join("; "));
    show(byId("problems"), status.problems.length > 0);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !byId("shortcuts").checked) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    const names = this.runs.map((run) => run.metadata.name);
    const steps = event.target.closest("#runs") ? { ArrowRight: 1, ArrowLeft: -1 } : {};
    const step = { j: 1, k: -1, ...steps }[event.key];
    const section = SECTIONS[Number(event.key) - 1];
    if (event.key === "?") byId("keys").showModal();
    else if (event.key === "r" && this.parts) this.timeline.record();
    else if (step && names.length) {
      this.choose(names[(names.indexOf(this.name) + step + names.length) % names.length]);
      if (event.target.closest("#runs")) this.#tabs();
    } else if (section) {
      const heading = byId(`${section}-heading`);
      heading.scrollIntoView();
      heading.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  }
}

/** The run that the address names; empty: none. */
function runInHash() {
  try {
    return decodeURIComponent(location.hash.match(/^#run=(.*)$/)?.[1] ?? "");
  } catch {
    return ""; // somebody has typed it
  }
}

/** A part of a run; null: there is no such run. */
async function partOf(run, part) {
  try {
    return await get(pathOf(run, `/${part}`));
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function readyOf({ status }) {
  return status.conditions.find((one) => one.type === "Ready");
}

/** Why nothing is known of a run now; empty: its engine answers. */
function silenceOf(run) {
  const ready = readyOf(run);
  const { status } = run;
  if (ready?.status !== "False" || ready.reason === "ChainDown") return "";
  return ready.message || `run is ${status.phase}`;
}

function withCounters(object, before) {
  if (!object) return before;
  return { ...object, status: { ...object.status, counters: before.status.counters, links: before.status.links } };
}

function tab() {
  const mark = html("span", { class: "mark" });
  const name = html("span");
  const link = html("a", {}, mark, name);
  return {
    node: html("li", {}, link),
    update: ({ run, current, alarm }) => {
      const broken = alarm || run.status.conditions.some((one) => one.status === "False");
      setAttributes(link, { href: `#run=${encodeURIComponent(run.metadata.name)}` });
      if (current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      setText(mark, broken ? "▲" : "");
      setAttributes(mark, { class: "mark bad", title: broken ? "has an alarm" : "" });
      setText(name, run.metadata.name);
    },
  };
}

function conditionInto(node, condition) {
  const marks = { True: "✓", False: "▲", Unknown: "–" };
  if (!condition) return;
  const words = { True: "yes", False: "no", Unknown: "unknown" };
  setText(node, `${marks[condition.status]} ${words[condition.status]}: ${whyOf(condition)}`);
  setAttributes(node, { class: condition.status === "False" ? "bad" : "" });
}

new Page().start();
