// Changes of runs: plan a file, apply it, take a run down, cancel what is under way.

import { ask, get, pathOf } from "./api.js";
import { byId, html, setAttributes, setText, show } from "./dom.js";
import { nameIn, told } from "./plan.js";

const PLAN_SECONDS = 40;
const LOOK_MS = 500;

export class Changes {
  /** `applied(run)` is called when a file was applied. */
  constructor(applied) {
    this.applied = applied;
    this.file = byId("file");
    this.planned = null; // what was planned: run, text, version
    this.operation = null; // the name of what is under way
    this.file.addEventListener("input", () => this.#edited());
    byId("file-chooser").addEventListener("change", (event) => this.#choose(event.target.files[0]));
    byId("plan").addEventListener("click", () => this.plan());
    byId("apply").addEventListener("click", () => this.apply());
    byId("cancel").addEventListener("click", () => this.cancel());
    byId("down").addEventListener("click", () => this.askDown());
    byId("down-name").addEventListener("input", () => this.#named());
    byId("down-form").addEventListener("submit", (event) => this.#down(event));
    byId("down-keep").addEventListener("click", () => byId("down-dialog").close());
  }

  choose(run) {
    this.run = run;
  }

  async #choose(file) {
    if (!file) return;
    this.file.value = await file.text();
    this.#edited();
  }

  #edited() {
    if (this.planned && this.planned.text !== this.file.value) {
      this.planned = null;
      setText(byId("plan-note"), "The text has changed: plan it again.");
    }
    this.#buttons();
  }

  #buttons() {
    const busy = this.operation !== null;
    byId("plan").disabled = busy || this.planning || !this.file.value.trim();
    byId("apply").disabled = busy || this.planning || !this.planned?.possible;
    byId("down").disabled = busy;
    show(byId("cancel"), busy);
  }

  async plan() {
    const text = this.file.value;
    const run = nameIn(text);
    this.planned = null;
    this.#tell("plan", null);
    if (!run) {
      this.#tell("plan", new Error("the file names no run: write `name: NAME` on a line of its own"));
      return;
    }
    this.planning = true;
    this.#buttons();
    setText(byId("plan-note"), "planning …");
    try {
      const version = await this.#version(run);
      const path = `${pathOf(run)}?dryRun=All`;
      const { found } = await ask("PUT", path, { body: text, type: typeOf(text), seconds: PLAN_SECONDS });
      const { parts, possible } = told(found);
      byId("planned").replaceChildren(...parts);
      if (text === this.file.value) {
        this.planned = { run, text, version, possible };
        const does = `This is only a plan. Apply ${found.kind === "Difference" ? "changes" : "starts"} run ${run}.`;
        setText(byId("plan-note"), possible ? does : "There is nothing to apply.");
      } else setText(byId("plan-note"), "The text has changed: plan it again.");
    } catch (error) {
      this.#tell("plan", error);
    } finally {
      this.planning = false;
      this.#buttons();
    }
  }

  /** Of the run, so that nobody's change in between is undone; empty: there is no such run. */
  async #version(run) {
    try {
      return (await get(pathOf(run))).metadata.resourceVersion;
    } catch (error) {
      if (error.status === 404) return "";
      throw error;
    }
  }

  async apply() {
    const { run, text, version } = this.planned;
    this.planned = null;
    setText(byId("plan-note"), "");
    const match = { "If-Match": `"${version}"` };
    const sent = { body: text, type: typeOf(text), headers: match, seconds: PLAN_SECONDS };
    const begin = () => ask("PUT", `${pathOf(run)}?waitSeconds=0`, sent);
    await this.#work(`apply of run ${run}`, begin, () => this.applied(run));
  }

  askDown() {
    if (!this.run || this.operation) return;
    this.downRun = this.run;
    setText(byId("down-what"), this.downRun);
    byId("down-name").value = "";
    this.#named();
    byId("down-dialog").showModal();
  }

  #named() {
    byId("down-really").disabled = byId("down-name").value !== this.downRun;
  }

  async #down(event) {
    event.preventDefault();
    if (byId("down-really").disabled) return;
    byId("down-dialog").close();
    const run = this.downRun;
    await this.#work(`end of run ${run}`, () => ask("DELETE", `${pathOf(run)}?waitSeconds=0`, { seconds: PLAN_SECONDS }));
  }

  async cancel() {
    const button = byId("cancel");
    button.disabled = true;
    try {
      await ask("DELETE", `v1/operations/${encodeURIComponent(this.operation)}?waitSeconds=0`);
    } catch (error) {
      this.#tell("work", new Error(`cannot be cancelled: ${error.message}`));
    } finally {
      button.disabled = false;
    }
  }

  /** Begins a change and shows its lines until it has ended. */
  async #work(what, begin, done = () => {}) {
    this.operation = "";
    this.#buttons();
    byId("cancel").disabled = true;
    this.#tell("work", null);
    setText(byId("work-lines"), "");
    show(byId("work"), true);
    setText(byId("work-note"), `${what}: begins …`);
    byId("work").scrollIntoView({ block: "nearest" });
    try {
      const { status, found } = await begin();
      if (status === 202) await this.#follow(what, found);
      else setText(byId("work-note"), `✓ ${what}: done`);
      done();
    } catch (error) {
      const unknown = `– ${what}: no answer; it may have begun: look at the run and the events`;
      setText(byId("work-note"), error.status === 0 ? unknown : `▲ ${what} failed`);
      this.#tell("work", error);
    } finally {
      this.operation = null;
      this.#buttons();
    }
  }

  async #follow(what, operation) {
    this.operation = operation.metadata.name;
    byId("cancel").disabled = false;
    let { status } = operation;
    while (status.phase === "Running") {
      setText(byId("work-note"), `${what}: under way …`);
      setText(byId("work-lines"), status.lines.join("\n"));
      await new Promise((later) => setTimeout(later, LOOK_MS));
      try {
        ({ status } = await get(`v1/operations/${encodeURIComponent(this.operation)}`));
      } catch (error) {
        if (error.status === 404) {
          setText(byId("work-note"), `– ${what}: the server has started anew and knows no change; look at the run`);
          return;
        }
        if (error.status) throw error; // else the server is away; the change goes on
        setText(byId("work-note"), `${what}: ${error.message}; the change goes on`);
      }
    }
    setText(byId("work-lines"), status.lines.join("\n"));
    if (status.phase === "Failed") throw new Error(status.lines.at(-1) ?? `exit code ${status.exitCode}`);
    setText(byId("work-note"), status.phase === "Cancelled" ? `■ ${what}: cancelled` : `✓ ${what}: done`);
  }

  /** An error below `plan` or `work`, or none. */
  #tell(where, error) {
    const place = byId(`${where}-error`);
    show(place, error !== null);
    place.replaceChildren();
    if (!error) return;
    if (where === "plan") {
      setText(byId("plan-note"), "");
      byId("planned").replaceChildren();
    }
    place.append(html("p", {}, `▲ ${error.message}`));
    if (error.causes?.length) place.append(html("ul", {}, ...error.causes.map((cause) => html("li", {}, cause))));
    setAttributes(place, { tabindex: -1 });
    place.focus({ preventScroll: true });
  }
}

function typeOf(text) {
  return text.trimStart().startsWith("{") ? "application/json" : "application/yaml";
}
