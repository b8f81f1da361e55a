// The segments of a run's tasks: what each means, how many tasks it has, and their shares as a bar.

import { element, fill, say } from "./dom.js";
import { count, percent } from "./format.js";

/** Those of the bar, from left to right; retired tasks are no part of the pool any more. */
export const POOL = ["untried", "stuck", "teaching", "solved", "aborting"];
const ALL = "";
const WORDS = {
  [ALL]: { title: "All", meaning: "Every task that can be selected." },
  untried: { title: "Untried", meaning: "No rollout in this run yet." },
  aborting: {
    title: "Aborting",
    meaning:
      "Aborted at the last three selections or more. They rest, and are tried again now and then: look at their environments.",
  },
  stuck: { title: "Stuck at 0", meaning: "Tried, but never solved. These give no gradient until the first success." },
  teaching: { title: "Teaching", meaning: "Solved at least once, with a success probability below 0.9." },
  solved: { title: "Solved", meaning: "Tried, with a success probability of at least 0.9." },
  retired: { title: "Retired", meaning: "Never selected again, in any run of the dataset. You can restore them." },
};
const WIDTH = 1000;
const GAP = 3;
const LEAST = 4; // of WIDTH: a segment with one task in a million can still be seen

export const titleOf = (segment) => WORDS[segment].title;
export const meaningOf = (segment) => (WORDS[segment] ?? WORDS[ALL]).meaning;

/** Return how many tasks a choice has. counts: by segment, as the API gives them. */
const tasksOf = (segment, counts) => (segment === ALL ? poolOf(counts) : counts[segment]);
export const poolOf = (counts) => POOL.reduce((sum, segment) => sum + counts[segment], 0);
export const shareOf = (segment, counts) => (poolOf(counts) ? counts[segment] / poolOf(counts) : null);

/** Return the bar: {node, draw}. */
export function segmentBar() {
  const node = element("svg:svg", {
    class: "segment-bar",
    viewBox: `0 0 ${WIDTH} 10`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": "Shares of the segments",
  });

  function draw(counts) {
    const present = POOL.filter((segment) => counts[segment] > 0);
    const room = WIDTH - GAP * (present.length - 1) - LEAST * present.length;
    let x = 0;
    const rects = present.map((segment) => {
      const width = LEAST + room * shareOf(segment, counts);
      const rect = element("svg:rect", { class: `of-${segment}`, x, y: 0, width, height: 10 });
      x += width + GAP;
      return rect;
    });
    const shares = present.map((segment) => `${titleOf(segment)} ${percent(shareOf(segment, counts))}`);
    node.setAttribute("aria-label", shares.length ? `Shares: ${shares.join(", ")}` : "No task");
    fill(node, ...rects);
  }
  return { node, draw };
}

/** Return what chooses a segment: {node, show}. choose: called with the name of a segment, "" for all. */
export function segmentChoice(choose) {
  const bar = segmentBar();
  const choices = [ALL, ...POOL, "retired"].map((segment) => choiceOf(segment, choose));
  const meaning = element("p", { class: "soft", role: "status" });
  const node = element(
    "fieldset",
    { class: "segments" },
    element("legend", { class: "unseen" }, "Segment"),
    bar.node,
    element(
      "div",
      { class: "segment-choices" },
      choices.map((choice) => choice.node),
    ),
    meaning,
  );

  /** Show the numbers and what is chosen. counts: null leaves the numbers as they are. */
  function show(chosen, counts) {
    if (counts) bar.draw(counts);
    for (const choice of choices) choice.show(chosen, counts);
    say(meaning, meaningOf(chosen));
  }
  return { node, show };
}

function choiceOf(segment, choose) {
  const input = element("input", { type: "radio", name: "segment", value: segment, class: "unseen" });
  const tasks = element("strong", {}, "–");
  const share = element("span", { class: "soft" });
  const name = element("span", { class: "segment-name" }, segment === ALL ? null : dotOf(segment), titleOf(segment));
  const node = element("label", { class: "segment" }, input, name, tasks, share);
  input.addEventListener("change", () => choose(segment));

  function show(chosen, counts) {
    input.checked = segment === chosen;
    if (!counts) return;
    say(tasks, count(tasksOf(segment, counts)));
    say(share, POOL.includes(segment) ? percent(shareOf(segment, counts)) : "");
  }
  return { node, show };
}

/** Return the dot of a segment's colour. */
export const dotOf = (segment) => element("span", { class: `dot of-${segment}`, "aria-hidden": "true" });
