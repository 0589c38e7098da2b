// Asks the API of the server that sent this page.

const TOKEN = "unis-token";
const SECONDS = 3;

/** An answer that is no success. `status` 0: there was no answer. */
export class ApiError extends Error {
  constructor(status, message, causes = []) {
    super(message);
    this.status = status;
    this.causes = causes;
  }
}

/** The token of this tab; the browser forgets it with the tab. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

export function headers(more = {}) {
  return token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : more;
}

/** The object that answers. Throws ApiError. `seconds`: to wait for the answer. */
export async function ask(method, path, { body, type, seconds = SECONDS, ...more } = {}) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), seconds * 1000);
  try {
    const sent = headers({ ...more.headers, ...(type ? { "Content-Type": type } : {}) });
    const answer = await fetch(path, { method, body, headers: sent, signal: abort.signal, cache: "no-store" });
    const found = await answer.json().catch(() => null);
    if (!answer.ok) throw refused(answer.status, found);
    return { status: answer.status, found };
  } catch (error) {
    if (error instanceof ApiError) throw error;
    const why = abort.signal.aborted ? `unis serve did not answer within ${seconds} s` : "unis serve does not answer";
    throw new ApiError(0, why);
  } finally {
    clearTimeout(timer);
  }
}

function refused(status, found) {
  const message = found?.message ?? `the server answered with status ${status}`;
  const causes = (found?.details?.causes ?? []).map((cause) => cause.message);
  return new ApiError(status, message, causes.filter((cause) => cause !== message));
}

export async function get(path, seconds) {
  return (await ask("GET", path, { seconds })).found;
}

/** The path of a run, or of what is below it. */
export function pathOf(run, below = "") {
  return `v1/runs/${encodeURIComponent(run)}${below}`;
}
