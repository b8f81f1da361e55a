// The address of a run's tasks. All that the table shows stands in it, so links and the browser's Back work.

import { runHref } from "./addresses.js";

const PARTS = { segment: "", search: "", tag: "", sort: "index", task: "" };

/** Return what an address asks for: {segment, search, tag, sort, task}. query: URLSearchParams. */
export function askedBy(query) {
  return Object.fromEntries(Object.entries(PARTS).map(([name, usual]) => [name, query.get(name) ?? usual]));
}

/** Return the address of a run's tasks. asked: as above; what is left out or usual is not part of it. */
export function tasksHref(dataset, run, asked = {}) {
  const given = Object.entries(asked).filter(([name, value]) => value !== PARTS[name]);
  return `${runHref(dataset, run)}/tasks${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}
