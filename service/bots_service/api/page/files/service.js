// The service's API, asked with the key of this tab. The key is gone when the tab is closed. A link may bring it, as
// #key=..., and it leaves the address at once.

const PATIENCE_MS = 15000;
const STORED = "bots-key";

let own = null; // the key, where the browser stores nothing

/** Return the key, null where none was given. */
export function key() {
  try {
    return sessionStorage.getItem(STORED);
  } catch {
    return own;
  }
}

/** Keep a key; null forgets it. */
export function keep(given) {
  own = given;
  try {
    if (given === null) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, given);
  } catch {
    // blocked: `own` stands in
  }
}

const brought = /^#key=(.+)$/.exec(location.hash);
if (brought) {
  keep(brought[1]);
  history.replaceState(null, "", "#/");
}

/** The service answered, but not with what was asked for. problem: its answer's body, by RFC 9457. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

/** The service did not answer. */
export class Away extends Error {
  constructor(cause) {
    const isLate = cause.name === "TimeoutError";
    super(isLate ? `No answer within ${PATIENCE_MS / 1000} seconds.` : "The service does not answer.", { cause });
    this.name = "Away";
  }
}

/** Return the answer to a GET. parts: of the path; query: by name; null or an empty text leaves one out, a list repeats it. */
export async function get(parts, query = {}) {
  const answer = await ask(withQuery(addressOf(parts), query), {}, PATIENCE_MS);
  return answer.json().catch(away); // it may break off within
}

/** Send a POST, or what method says, with a body of JSON, and return the answer. */
export async function send(parts, body = {}, method = "POST") {
  const headers = { "Idempotency-Key": randomName(), "Content-Type": "application/json" };
  const answer = await ask(addressOf(parts), { method, headers, body: JSON.stringify(body) }, PATIENCE_MS);
  return answer.status === 204 ? {} : answer.json().catch(away);
}

/** Return an address with a query: values by name, a list as often as it is long; null and empty texts are left out. */
export function withQuery(address, query) {
  const given = Object.entries(query)
    .flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]]))
    .filter(([name, value]) => value !== null && (value !== "" || Array.isArray(query[name])));
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}

const addressOf = (parts) => parts.map(encodeURIComponent).join("/");

async function ask(address, { headers = {}, ...request }, patience = null) {
  const withKey = key() ? { ...headers, Authorization: `Bearer ${key()}` } : headers;
  const signal = patience && AbortSignal.timeout(patience);
  const answer = await fetch(address, { ...request, headers: withKey, signal, cache: "no-store" }).catch(away);
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

function away(error) {
  throw new Away(error);
}

// crypto.randomUUID is missing where the page came over plain HTTP from another machine.
function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
