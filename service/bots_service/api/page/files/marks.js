// What happened to a run, where its charts show it: rewinds and changes of its settings.

import { Refused, get } from "./service.js";

const KINDS = ["rewind", "settings"];
const MOST = 100;

/** Return the marks of a run's charts: [{at, name}], by step. path: of the run. */
export async function marksOf(path) {
  const { entries } = await get([...path, "journal"], { kind: KINDS, limit: MOST }).catch(none);
  return entries
    .filter((entry) => KINDS.includes(entry.kind) && !entry.hidden)
    .map(markOf)
    .filter(({ at }) => at !== null)
    .toSorted((one, other) => one.at - other.at);
}

/** Charts do without marks where the service refuses to tell them. */
function none(error) {
  if (error instanceof Refused) return { entries: [] };
  throw error;
}

function markOf({ kind, step, to_step: to, changed }) {
  if (kind === "rewind") return { at: to, name: "rewind" };
  const names = Object.keys(changed ?? {}).map((name) => name.replaceAll("_", " "));
  return { at: step, name: names.length > 2 ? `${names.length} settings` : names.join(", ") };
}
