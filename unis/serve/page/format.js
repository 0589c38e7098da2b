// Numbers as operators read them.

export const NONE = "–";

function scaled(value, units) {
  let index = 0;
  while (value >= 999.5 && index < units.length - 1) {
    value /= 1000;
    index += 1;
  }
  const digits = value >= 99.95 || (index === 0 && Number.isInteger(value)) ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)}${units[index]}`;
}

/** 12300000 → "12.3M". */
export function amount(value) {
  if (value === null || value === undefined) return NONE;
  return value < 0.005 ? "0" : scaled(value, ["", "k", "M", "G", "T"]);
}

export function rate(value) {
  const text = amount(value);
  return text === NONE ? NONE : `${text}/s`;
}

/** 0.000440 → "440 µs". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return scaled(seconds * 1e9, [" ns", " µs", " ms"]);
}

export function percent(share) {
  if (share === null || share === undefined) return NONE;
  return share > 0 && share < 0.005 ? "<1 %" : `${Math.round(share * 100)} %`;
}

export function count(value) {
  return value === null || value === undefined ? NONE : Math.round(value).toLocaleString("en-US");
}

/** The time of day, with the date if that is not today, of a text as the API has it, or of a Date. */
export function clock(time) {
  const date = time instanceof Date ? time : new Date(time);
  if (Number.isNaN(date.getTime())) return NONE;
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString("en-GB") : date.toLocaleString("en-GB");
}

export function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
