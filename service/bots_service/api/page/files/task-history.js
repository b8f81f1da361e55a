// Each time that a run tried a task: what its rollouts gave, newest first.

import { element, fill, say } from "./dom.js";
import { ago, count, decimal, percent } from "./format.js";
import { get } from "./service.js";

const PAGE = 50;
const PARTS = 6; // of the journal, searched for one page
const MOST_DOTS = 32; // rollouts; more are drawn as a bar
const SIZE = 8; // of a dot with its space
const BAR = 160;

/** Return the list: {node, refresh}. path: of the task's history. */
export function taskHistory(path) {
  const known = new Map(); // seq -> visit
  const list = element("ol", { class: "history" });
  const status = element("p", { class: "soft", role: "status" });
  const older = element("button", { type: "button", hidden: true }, "Load older visits");
  const node = element("section", {}, element("h3", {}, "Visits, newest first"), list, status, older);
  let [shown, next] = ["", null];

  async function load(cursor) {
    older.disabled = true;
    say(status, known.size ? "" : "Searching the journal…");
    try {
      const { visits, pruned, following } = await pageOf(path, cursor);
      const isKnown = visits.some((visit) => known.has(visit.seq));
      if (cursor === null && !isKnown) known.clear(); // nothing joins them: the newest come first
      if (cursor !== null || !isKnown) next = following;
      for (const visit of visits) known.set(visit.seq, visit);
      fill(list, ...[...known.values()].toSorted((one, other) => other.seq - one.seq).map((visit) => row(visit)));
      older.hidden = next === null;
      say(status, statusOf(known.size, next, pruned));
    } catch (error) {
      shown = "";
      say(status, error.message);
    } finally {
      older.disabled = false;
    }
  }

  /** Load the newest visits, unless they are shown already. version: changes with the task's visits. */
  function refresh(version) {
    if (version === shown) return;
    shown = version;
    load(null);
  }
  older.addEventListener("click", () => load(next));
  return { node, refresh };
}

/** Return the next visits. The service reads a part of the journal at a time, where there may be none. */
async function pageOf(path, cursor, parts = PARTS) {
  const { history: visits, pruned, next_cursor: following } = await get(path, { limit: PAGE, cursor });
  if (visits.length || following === null || parts === 1) return { visits, pruned, following };
  return pageOf(path, following, parts - 1);
}

function statusOf(visits, next, pruned) {
  if (next !== null) return visits ? "" : "No visit in the newest part of the journal.";
  if (pruned) return "Older visits are no longer in the journal: it was pruned.";
  return visits ? "" : "Never tried in this run.";
}

function row(visit) {
  const { successes, trials } = visit;
  const soft = { class: "soft number" };
  return element(
    "li",
    { class: visit.hidden ? "undone" : null },
    element("span", {}, visit.step === null ? "open step" : `step ${count(visit.step)}`),
    element("span", { class: "visit" }, rollouts(successes, trials), notesOf(visit)),
    element("span", { class: "number" }, `${amount(successes)} of ${count(trials)}`),
    element("span", soft, percent(trials ? successes / trials : null)),
    element("span", soft, ago(visit.time)),
  );
}

/** 3 -> "3", 2.5 -> "2.50": a shaped reward counts in part. */
const amount = (successes) => (Number.isInteger(successes) ? count(successes) : decimal(successes, 2));

const notesOf = ({ late, hidden, group_size: size }) => [
  size === null ? null : element("span", { class: "part soft" }, `of a group of ${count(size)}`),
  late ? element("span", { class: "tag", title: "The report came after its step had closed" }, "late") : null,
  hidden ? element("span", { class: "tag", title: "Undone by a rewind" }, "undone") : null,
];

/** Return a visit's rollouts: a dot for each, filled where it succeeded; of many, the share as a bar. */
function rollouts(successes, trials) {
  const label = `${amount(successes)} of ${count(trials)} rollouts succeeded`;
  const isFew = trials <= MOST_DOTS && Number.isInteger(trials) && Number.isInteger(successes);
  const width = isFew ? Math.max(trials, 1) * SIZE : BAR;
  const attributes = { class: "outcomes", viewBox: `0 0 ${width} ${SIZE}`, width, height: SIZE, role: "img" };
  const marks = isFew
    ? Array.from({ length: trials }, (_, place) => dot(place, place < successes))
    : [
        element("svg:rect", { class: "failed", x: 0, y: 1, width: BAR, height: SIZE - 2, rx: 3 }),
        element("svg:rect", {
          class: "solved",
          x: 0,
          y: 1,
          width: trials ? (BAR * successes) / trials : 0,
          height: SIZE - 2,
          rx: 3,
        }),
      ];
  return element("svg:svg", { ...attributes, "aria-label": label }, marks);
}

const dot = (place, isSolved) =>
  element("svg:circle", { class: isSolved ? "solved" : "failed", cx: (place + 0.5) * SIZE, cy: SIZE / 2, r: 2.75 });
