// What does not hold now, what is promised, and what happened.

import { headers, token } from "./api.js";
import { byId, html, Keyed, row, setAttributes, setText, show } from "./dom.js";
import { clock, duration, NONE } from "./format.js";

const MOST_EVENTS = 100;
const AGAIN_MS = 1000;
const SILENT_MS = 25000; // the server sends something each 10 s

// What it means that a condition does not hold, in words.
const BROKEN = {
  Ready: "is not ready",
  Applied: "is not what its chain file says",
  Up: "is down",
  Running: "does not run",
  Kept: "does not keep its promise",
};

/** Conditions that do not hold, of all objects: pairs of a key and a sentence. */
export function brokenOf(objects) {
  return objects.flatMap(({ kind, metadata, status }) =>
    (status.conditions ?? [])
      .filter((one) => one.status === "False")
      .map((one) => {
        const what = kind === "Promise" ? `chain ${metadata.name}` : `${kind.toLowerCase()} ${metadata.name}`;
        const told = `${what} ${BROKEN[one.type] ?? `has no ${one.type}`}: ${whyOf(one)}`;
        return [`${kind}/${metadata.name}/${one.type}`, `${told} (since ${clock(one.lastTransitionTime)})`];
      }),
  );
}

/** The message of a condition, or its reason in words: "AboveGoal" is "above goal". */
export function whyOf({ message, reason }) {
  return message || reason.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

export class Alarms {
  constructor() {
    this.broken = 0; // conditions
    this.list = new Keyed(byId("alarms"), () => {
      const node = html("li", { class: "bad" });
      return { node, update: (sentence) => setText(node, `▲ ${sentence}`) };
    });
    this.promises = new Keyed(byId("promise-rows"), () => {
      const told = row(4, (cells) => cells);
      return {
        node: told.node,
        update: (promise) => {
          told.update(promiseCells(promise));
          const broken = promise.status.conditions.some((one) => one.status === "False");
          setAttributes(told.node.children[1], { class: broken ? "bad" : "" });
        },
      };
    });
  }

  /** `objects`: the run and its parts. */
  update(objects, promises) {
    const broken = brokenOf(objects);
    this.broken = broken.length;
    this.list.update(broken);
    show(byId("no-alarm"), broken.length === 0);
    this.promises.update(promises.map((promise) => [promise.metadata.name, promise]));
    show(byId("promise-table"), promises.length > 0);
    show(byId("no-promise"), promises.length === 0);
  }
}

function promiseCells({ spec, status }) {
  const kept = status.conditions.find((one) => one.type === "Kept");
  const words = { True: "✓ kept", False: "▲ broken", Unknown: "– no packet yet" };
  const goal = `p${spec.percentile} ≤ ${duration(spec.seconds)}`;
  return [spec.chain, words[kept?.status] ?? NONE, duration(status.seconds), goal];
}

/** Listens to what happens, on all runs, and asks again when the stream ends. */
export class Events {
  constructor(refused) {
    this.refused = refused;
    this.events = [];
    this.after = 0;
    this.opened = Date.now();
    this.list = new Keyed(byId("events"), () => new EventRow());
  }

  start() {
    if (!this.abort) this.#listen();
  }

  stop() {
    this.abort?.abort();
    this.abort = null;
  }

  async #listen() {
    const abort = (this.abort = new AbortController());
    while (!abort.signal.aborted) {
      try {
        await this.#read(abort);
      } catch {
        // The server went away, or this tab did: the poll of runs tells.
      }
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }

  async #read(outer) {
    const inner = new AbortController();
    const end = () => inner.abort();
    outer.signal.addEventListener("abort", end);
    let timer = setTimeout(end, SILENT_MS);
    try {
      const sent = token.get();
      const answer = await fetch(`v1/events?after=${this.after}`, { headers: headers(), signal: inner.signal, cache: "no-store" });
      // Not for a token that was typed meanwhile.
      if (answer.status === 401 && sent === token.get()) this.refused();
      if (!answer.ok) {
        setText(byId("no-event"), `▲ Events are not told: the server answers ${answer.status}.`);
        return;
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(end, SILENT_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        this.#take(blocks);
      }
    } finally {
      clearTimeout(timer);
      outer.signal.removeEventListener("abort", end);
    }
  }

  #take(blocks) {
    const data = blocks.flatMap((block) => block.split("\n").filter((line) => line.startsWith("data: ")));
    if (!data.length) return;
    const found = data.map((line) => JSON.parse(line.slice(6)));
    this.after = found.at(-1).id;
    this.events = [...found.reverse(), ...this.events].slice(0, MOST_EVENTS);
    this.list.update(this.events.map((one) => [`${one.time}/${one.id}`, one]));
    show(byId("no-event"), this.events.length === 0);
    const warning = found.find((one) => one.type === "Warning" && Date.parse(one.time) >= this.opened);
    if (warning) setText(byId("announced"), `Warning: ${warning.message}`);
  }
}

class EventRow {
  constructor() {
    this.time = html("time");
    this.mark = html("span");
    this.text = html("span");
    this.node = html("li", {}, this.time, this.mark, this.text);
  }

  update(event) {
    const warns = event.type === "Warning";
    setAttributes(this.time, { datetime: event.time });
    setText(this.time, clock(event.time));
    setText(this.mark, warns ? "▲ Warning" : "• Normal");
    setAttributes(this.mark, { class: warns ? "mark bad" : "mark soft" });
    setText(this.text, event.message);
  }
}
