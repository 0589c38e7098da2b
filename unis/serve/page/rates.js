// Rates of counters, from two answers of the API.

const LONGEST_SECONDS = 6; // between two answers; a rate over more says nothing of now

function labelsOf(labels) {
  return Object.entries(labels).sort().join();
}

/** What the counters of an object say, and how fast they grow. */
export class Growth {
  constructor(counters, before, seconds) {
    this.counters = counters;
    this.seconds = seconds;
    this.before = this.#comparable(before) ? before : null;
  }

  /** A counter that went back began anew: so did all of its object. */
  #comparable(before) {
    if (!before || !(this.seconds > 0) || this.seconds > LONGEST_SECONDS) return false;
    for (const [name, values] of Object.entries(this.counters)) {
      if (!name.endsWith("_total")) continue;
      for (const one of values) if (one.value < valueIn(before, name, one.labels)) return false;
    }
    return true;
  }

  /** The sum of the values that have these labels; null: there is none. */
  value(name, labels = {}) {
    const found = this.#having(name, labels);
    return found.length ? found.reduce((sum, one) => sum + one.value, 0) : null;
  }

  /** The growth of that sum in a second; null: not known this time. */
  rate(name, labels = {}) {
    const found = this.#having(name, labels);
    if (!this.before || !found.length) return null;
    return found.reduce((sum, one) => sum + one.value - valueIn(this.before, name, one.labels), 0) / this.seconds;
  }

  /** Rates by the values of a label, the greatest first. */
  rates(name, label) {
    const labels = (this.counters[name] ?? []).map((one) => one.labels);
    return labels
      .map((one) => [one[label], this.rate(name, one)])
      .filter(([, rate]) => rate > 0)
      .sort((a, b) => b[1] - a[1]);
  }

  #having(name, labels) {
    const wanted = Object.entries(labels);
    return (this.counters[name] ?? []).filter((one) => wanted.every(([key, value]) => one.labels[key] === value));
  }
}

function valueIn(counters, name, labels) {
  const key = labelsOf(labels);
  return (counters[name] ?? []).find((one) => labelsOf(one.labels) === key)?.value ?? 0;
}

/** Time between answers: by the clock of the engine, for answers may come late; else by ours. */
export class AnswerClock {
  #passed = new Map();
  #wall = 0;
  #now = 0;

  /** Milliseconds. `passed`: how long each function has been scheduled, or null; `wall`: our clock. */
  at(passed, wall) {
    const grown = [...passed]
      .map(([name, seconds]) => seconds - (this.#passed.get(name) ?? seconds))
      .filter((seconds) => seconds > 0.05 && seconds < LONGEST_SECONDS)
      .sort((a, b) => a - b);
    this.#now += grown.length ? grown[grown.length >> 1] * 1000 : wall - this.#wall;
    this.#passed = passed;
    this.#wall = wall;
    return this.#now;
  }
}

/** Remembers the last answer for each object. */
export class Rates {
  #last = new Map();

  /** `now` in milliseconds, of a clock that never goes back. */
  take(object, now) {
    const { metadata, kind, status } = object;
    const key = `${kind}/${metadata.run ?? ""}/${metadata.name}`;
    const last = this.#last.get(key);
    const counters = status.counters ?? {};
    const same = last?.uid === metadata.uid;
    this.#last.set(key, { uid: metadata.uid, counters, now });
    return new Growth(counters, same ? last.counters : null, same ? (now - last.now) / 1000 : 0);
  }

  forget() {
    this.#last.clear();
  }
}
