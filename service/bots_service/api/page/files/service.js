// The service's API, asked with the key of this tab.

import { key } from "./session.js";

const PATIENCE_MS = 15000;

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
export function get(parts, query = {}) {
  return ask(addressOf(parts) + queryOf(query), {});
}

/** Return the answer to a POST with a body of JSON, or without one. */
export const post = (parts, body) => send("POST", parts, body);

/** Return the answer to a DELETE with a body of JSON. */
export const remove = (parts, body) => send("DELETE", parts, body);

function send(method, parts, body) {
  const headers = { "Idempotency-Key": randomName() };
  if (body === undefined) return ask(addressOf(parts), { method, headers });
  headers["Content-Type"] = "application/json";
  return ask(addressOf(parts), { method, headers, body: JSON.stringify(body) });
}

/**
 * Return the answer to a GET as a file. It may take long, and holds back no other request.
 * @param {AbortSignal} signal ends it.
 */
export async function file(parts, query, signal) {
  const answer = await fetch(addressOf(parts) + queryOf(query), { headers: withKey({}), signal, cache: "no-store" });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer.blob();
}

const addressOf = (parts) => parts.map(encodeURIComponent).join("/");

function queryOf(query) {
  const given = Object.entries(query)
    .flatMap(([name, value]) => [value].flat().map((one) => [name, one]))
    .filter(([, value]) => value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

const withKey = (headers) => (key() ? { ...headers, Authorization: `Bearer ${printable(key())}` } : headers);

async function ask(address, { headers: given = {}, ...request }) {
  const headers = withKey(given);
  await turnAtLine();
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(address, { ...request, headers, signal, cache: "no-store" }).catch(away);
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
    return answer.status === 204 ? {} : await answer.json().catch(away); // it may break off within
  } finally {
    if (waiting.length) waiting.shift()();
    else busy -= 1;
  }
}

function away(error) {
  throw new Away(error);
}

/** Return a key that a header can carry. Others are none of ours, and fetch would throw. */
function printable(text) {
  if (/^[!-~]+$/.test(text)) return text;
  throw new Refused(401, { detail: "a key has only plain letters, digits and underscores" });
}

// Browsers hold back what goes beyond six connections: waiting there would count as an answer that does not come.
const AT_ONCE = 6;
const waiting = [];
let busy = 0;

function turnAtLine() {
  if (busy === AT_ONCE) return new Promise((resolve) => waiting.push(resolve));
  busy += 1;
  return null;
}

// crypto.randomUUID is missing where the page came over plain HTTP from another machine.
function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
