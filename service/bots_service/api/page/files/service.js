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

/** Return the answer to a GET. parts: of the path; query: by name, null or an empty text leaves one out. */
export function get(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  return ask(addressOf(parts) + (given.length ? `?${new URLSearchParams(given)}` : ""), {});
}

/** Return the answer to a POST with a body of JSON, or without one. */
export function post(parts, body) {
  const headers = { "Idempotency-Key": randomName() };
  if (body === undefined) return ask(addressOf(parts), { method: "POST", headers });
  headers["Content-Type"] = "application/json";
  return ask(addressOf(parts), { method: "POST", headers, body: JSON.stringify(body) });
}

const addressOf = (parts) => parts.map(encodeURIComponent).join("/");

async function ask(address, { headers = {}, ...request }) {
  if (key()) headers.Authorization = `Bearer ${printable(key())}`;
  await turnAtLine();
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(address, { ...request, headers, signal, cache: "no-store" });
    const content = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Refused(answer.status, content);
    return content;
  } finally {
    if (waiting.length) waiting.shift()();
    else busy -= 1;
  }
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
