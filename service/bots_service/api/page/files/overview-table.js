// The table of runs: one row a run, sorted by the service.

import { datasetHref, runHref } from "./addresses.js";
import { element } from "./dom.js";
import { UNKNOWN, ago, compact, count, factor, percent, unbroken } from "./format.js";
import { statusChip } from "./run-status.js";
import { gauge, ratioBar, ratioTick, sparkline } from "./sparkline.js";
import { doubtOf, verdictMark } from "./verdict.js";

export const SORTS = [
  { sort: "-attention", name: "Needs attention" },
  { sort: "-last_step", name: "Last step" },
  { sort: "name", name: "Name" },
  { sort: "-created", name: "Newest" },
  { sort: "-effective_task_ratio", name: "Effective task ratio" },
  { sort: "-vs_uniform", name: "vs uniform" },
  { sort: "-step", name: "Step" },
  { sort: "-rollouts", name: "Rollouts" },
];

// kind: the class of its cells. sort: what its first click asks for. below: the steps that it is about.
const COLUMNS = [
  { kind: "dataset", name: "Dataset", sort: "name" },
  { kind: "run", name: "Run" },
  { kind: "state", name: "Status" },
  { kind: "judged", name: "Verdict", sort: "-attention" },
  { kind: "ratio", name: "Effective task ratio", sort: "-effective_task_ratio", below: "last 50 steps" },
  { kind: "gain", name: "vs uniform", sort: "-vs_uniform", below: "all steps" },
  { kind: "trend", name: "Trend" },
  { kind: "step number", name: "Step", sort: "-step" },
  { kind: "rollouts number", name: "Rollouts", sort: "-rollouts" },
  { kind: "last", name: "Last step", sort: "-last_step" },
  { kind: "how", name: "Belief, strategy" },
];

/** Return the head of the table. sort: the present one; sortBy: called with another one. */
export const headOf = (sort, sortBy) =>
  element(
    "tr",
    { role: "row" },
    COLUMNS.map((column) => heading(column, sort, sortBy)),
  );

/** A click sorts by a column; another one turns it round. */
function heading({ kind, name, sort: wanted, below = null }, sort, sortBy) {
  const attributes = { scope: "col", role: "columnheader", class: kind };
  if (!wanted) return element("th", attributes, name);
  const key = wanted.replace("-", "");
  const isSorted = sort.replace("-", "") === key;
  const isDown = sort.startsWith("-");
  const next = isSorted ? (isDown ? key : `-${key}`) : wanted;
  const arrow = element("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDown ? "▾" : "▴") : "");
  const button = { type: "button", class: "sort", "data-name": name, onclick: () => sortBy(next) };
  return element(
    "th",
    { ...attributes, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : "none" },
    element("button", button, name, arrow),
    below && element("span", { class: "below" }, below),
  );
}

/** Say what the small drawings of a row show, and over which steps its numbers are. */
export const keyOf = () =>
  element(
    "p",
    { class: "soft runs-key" },
    element("span", {}, "Effective task ratio and trend: over the last 50 steps."),
    element("span", {}, "vs uniform: over all steps compared."),
    element("span", {}, ratioTick(), " Uniform sampling, over the same 50 steps."),
    element("span", {}, gauge(0.35, 0.75), unbroken(" Where the trend lies between 0 and 100 %.")),
  );

/** Return the rows of runs, as /overview describes them. */
export const rowsOf = (runs) => runs.map((run, place) => row(run, runs[place - 1]));

function row(run, above) {
  const [dataset, name] = [datasetHref(run.dataset), runHref(run.dataset, run.run)];
  const isRepeated = above?.dataset === run.dataset;
  return element(
    "tr",
    { role: "row" },
    cell("dataset", element("a", { href: dataset, class: isRepeated ? "repeated" : null }, run.dataset)),
    element("th", { scope: "row", role: "rowheader", class: "run" }, element("a", { href: name }, run.run)),
    cell("state", statusChip(run.status)),
    cell("judged", verdictMark(run.verdict)),
    cell("ratio", ...ratioOf(run)),
    cell("gain", ...gainOf(run)),
    cell("trend", sparkline(run.trend)),
    cell("step number", count(run.step)),
    cell("rollouts number", element("span", { title: count(run.rollouts) }, compact(run.rollouts))),
    cell("last", run.last_step_at === null ? "none yet" : ago(run.last_step_at)),
    cell("how", `${run.belief}, ${run.strategy}`),
  );
}

const cell = (kind, ...children) => element("td", { role: "cell", class: kind }, children);

const unknown = () => element("span", { class: "soft unknown" }, UNKNOWN);

function ratioOf({ effective_task_ratio: ratio, gain }) {
  if (ratio === null) return [unknown()];
  return [ratioBar(ratio, gain?.uniform_effective_task_ratio ?? null), element("span", {}, percent(ratio))];
}

/**
 * Return how many times as many effective tasks as uniform sampling a run found, and how that is known. It is grey where
 * the run is not healthy: more effective tasks are then no better training.
 */
function gainOf({ strategy, gain, verdict }) {
  const isKnown = gain !== null && gain.factor !== null;
  if (!isKnown) return [strategy === "uniform" ? element("span", { class: "soft" }, "baseline") : unknown()];
  const how =
    gain.source === "measured"
      ? { word: "measured", about: `Measured: compared with run ${gain.baseline} over ${count(gain.steps)} steps.` }
      : { word: "estimate", about: "Conservative estimate: no run of this dataset samples uniformly." };
  const doubt = doubtOf({ verdict });
  return [
    element(doubt ? "span" : "b", { class: doubt && "doubtful", title: doubt }, factor(gain.factor)),
    element("span", { class: "how-known", title: how.about }, how.word),
  ];
}
