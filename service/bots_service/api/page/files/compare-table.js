// The compared runs in numbers, and the best of them in words.

import { runHref } from "./addresses.js";
import { swatch } from "./chart-parts.js";
import { styleOf } from "./charts.js";
import { differingSettings } from "./compare-choice.js";
import { ratioDifference } from "./differences.js";
import { element, table } from "./dom.js";
import { RESOURCES, amount } from "./run-cost.js";
import { UNKNOWN, count, decimal, factor, percent } from "./format.js";
import { RECENT, calibrationError } from "./series.js";
import { written } from "./settings.js";

const number = (name) => ({ name, number: true });
const heading = (setting) => (setting[0].toUpperCase() + setting.slice(1)).replaceAll("_", " ");

/**
 * Return the table. compared: [{name, place, summary, run, points, calibration}]; baseline: the name of one of them.
 */
export function comparisonTable(compared, baseline) {
  const settings = differingSettings(compared.map(({ run }) => run));
  const other = compared.find(({ name }) => name === baseline);
  const costs = RESOURCES.filter(({ name }) => compared.some(({ summary }) => summary[name]));
  const columns = [
    { name: "Run" },
    number("Effective task ratio"),
    number("Difference"),
    number("vs uniform"),
    number(`Last ${RECENT} steps`),
    number("Steps"),
    number("Effective tasks"),
    number("Rollouts"),
    number("Tasks met"),
    ...costs.flatMap(({ title, each }) => [number(title), number(each)]),
    number("Calibration error"),
    ...settings.map(({ name }) => ({ name: heading(name) })),
  ];
  const rows = compared.map((one, place) => [
    runName(one, baseline),
    ...numbers(one, other, costs),
    ...settings.map(({ name, values }) => (values[place] === null ? UNKNOWN : written(name, values[place]))),
  ]);
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison of runs" };
  return element("div", region, table("Comparison of runs", columns, rows));
}

const runName = ({ name, place, run }, baseline) =>
  element(
    "span",
    { class: "run-name" },
    swatch(styleOf(place)),
    element("a", { href: runHref(run.dataset, name) }, name),
    name === baseline ? element("span", { class: "tag" }, "baseline") : null,
  );

function numbers({ summary, run, points, calibration }, other, costs) {
  const { reported, effective, rollouts, gain } = summary;
  return [
    percent(reported ? effective / reported : null),
    differenceCell(other === undefined || summary.run === other.name ? null : ratioDifference(points, other.points)),
    gainCell(gain),
    percent(summary.effective_task_ratio),
    count(summary.step),
    count(effective),
    count(rollouts),
    percent(run.coverage.reached_share),
    ...costs.flatMap(({ name, size }) => costCells(summary[name], size)),
    decimal(calibrationError(calibration)),
  ];
}

const costCells = (cost, size) => (cost ? [amount(cost.spent / size), amount(cost.per_effective)] : [UNKNOWN, UNKNOWN]);

const inPoints = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

function differenceCell(difference) {
  if (difference === null) return UNKNOWN;
  const { mean, low, high, steps } = difference;
  const isSure = low > 0 || high < 0;
  return element(
    "span",
    { class: "difference", title: `95 % interval, over the ${count(steps)} steps that both runs have closed` },
    element("span", { class: isSure ? (mean > 0 ? "better" : "worse") : null }, `${inPoints(mean)} points`),
    element("span", { class: "soft" }, `${inPoints(low)} to ${inPoints(high)}`),
  );
}

function gainCell(gain) {
  if (gain === null || gain.factor === null) return UNKNOWN;
  const how = gain.source === "measured" ? "measured" : "estimate";
  return element("span", { class: "difference" }, factor(gain.factor), element("span", { class: "soft" }, how));
}

/**
 * Return what the best of some runs gained over uniform sampling, in words; only what was measured counts.
 * narrow: the names of runs that mostly return to few tasks, as far as that is known.
 */
export function headline(summaries, narrow) {
  const measured = summaries.filter(({ gain }) => gain?.source === "measured" && gain.factor !== null);
  const best = measured.toSorted((one, other) => other.gain.factor - one.gain.factor)[0];
  if (!best) return notMeasured(summaries);
  const { factor: times, rollouts_spent: spent, baseline, steps } = best.gain;
  const change = Math.round(100 * (times - 1));
  const words = `${change < 0 ? "−" : "+"}${Math.abs(change)} % effective tasks`;
  return [
    element("p", { class: "headline" }, element("b", {}, words), ` for the same ${count(spent)} rollouts`),
    element(
      "p",
      { class: "soft" },
      `Measured: ${best.run} compared with ${baseline}, which samples uniformly, over ${count(steps)} steps.`,
    ),
    narrow.includes(best.run) ? caution(best) : null,
  ];
}

/** More effective tasks are no gain if they are the same ones again and again. */
const caution = ({ dataset, run }) =>
  element(
    "p",
    { class: "caution" },
    `Few tasks take most visits of ${run}, so the model may unlearn the others. `,
    element("a", { href: runHref(dataset, run) }, `What to do about ${run}`),
  );

function notMeasured(summaries) {
  const estimates = summaries.filter(({ gain }) => gain !== null && gain.factor !== null);
  const best = estimates.toSorted((one, other) => other.gain.factor - one.gain.factor)[0];
  const estimate = best
    ? ` A conservative estimate for ${best.run}: ${factor(best.gain.factor)} as many effective tasks as uniform sampling.`
    : "";
  return [element("p", { class: "soft" }, `No gain is measured yet, as no run samples uniformly.${estimate}`)];
}
