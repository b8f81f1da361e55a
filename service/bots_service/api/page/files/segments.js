// The segments of a run's tasks: what each means, how many tasks it has, and their shares as a bar.

import { tasksHref } from "./addresses.js";
import { card, element } from "./dom.js";
import { stacked } from "./drawings.js";
import { count, percent } from "./format.js";

const SEGMENTS = {
  untried: { title: "Untried", meaning: "No rollout in this run yet." },
  unsolved: {
    title: "Not solved yet",
    meaning:
      "Tried, but not solved in this run. Where the success probability is high all the same, similar tasks have improved since.",
  },
  teaching: { title: "Teaching", meaning: "Solved at least once, with a success probability below 0.9." },
  solved: { title: "Solved", meaning: "Tried, with a success probability of at least 0.9." },
  aborting: {
    title: "Aborting",
    meaning:
      "Aborted at the last three selections or more. They rest, and are tried again now and then: look at their environments.",
  },
  retired: { title: "Retired", meaning: "Never selected again, in any run of the dataset. You can restore them." },
};
const POOL = Object.keys(SEGMENTS).slice(0, -1); // retired tasks are no part of the pool any more

export const meaningOf = (segment) => SEGMENTS[segment]?.meaning ?? "Every task that can be selected.";

/** Return a segment's name with its colour. */
export const segmentMark = (segment) =>
  element("span", { class: "segment", "data-segment": segment }, SEGMENTS[segment].title);

/**
 * Return the segments with their numbers, and a bar of their shares.
 * @param {object} counts tasks by segment, as the API gives them.
 * @param {(segment: string) => object} attributesOf returns the attributes of a segment's link; "" is all tasks.
 */
export function segmentList(counts, attributesOf) {
  const pool = POOL.reduce((sum, segment) => sum + counts[segment], 0);
  const shareOf = (segment) =>
    segment in SEGMENTS && segment !== "retired" && pool ? percent(counts[segment] / pool) : "";
  const item = (segment, mark, tasks) =>
    element(
      "li",
      {},
      element(
        "a",
        { title: meaningOf(segment), "data-name": segment, ...attributesOf(segment) },
        mark,
        element("strong", {}, count(tasks)),
        element("span", { class: "soft" }, shareOf(segment)),
      ),
    );
  const named = POOL.filter((segment) => counts[segment] > 0).map(
    (segment) => `${SEGMENTS[segment].title} ${shareOf(segment)}`,
  );
  const label = named.length ? `Shares: ${named.join(", ")}` : "No task";
  return [
    stacked(
      POOL.map((segment) => ({ kind: segment, amount: counts[segment] })),
      label,
    ),
    element(
      "ul",
      { class: "segments" },
      item("", element("span", {}, "All"), pool),
      Object.keys(SEGMENTS).map((segment) => item(segment, segmentMark(segment), counts[segment])),
    ),
  ];
}

/** Return the card in a run's view: each number leads to its tasks. */
export const segmentLinks = (dataset, run, counts) =>
  card(
    "Tasks",
    element("a", { href: tasksHref(dataset, run) }, "All tasks"),
    segmentList(counts, (segment) => ({ href: tasksHref(dataset, run, { segment }) })),
  );
