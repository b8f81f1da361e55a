// The compared runs in numbers, and the best of them in words.

import { runHref } from "./addresses.js";
import { swatch } from "./chart-parts.js";
import { styleOf } from "./charts.js";
import { differingSettings } from "./compare-choice.js";
import { ratioDifference } from "./differences.js";
import { element, table } from "./dom.js";
import { UNKNOWN, count, decimal, factor, percent, unbroken } from "./format.js";
import { RESOURCES, amount } from "./run-cost.js";
import { RECENT, calibrationError } from "./series.js";
import { written } from "./settings.js";

/** A column of numbers. below: the name of a second number in each of its cells. */
const number = (name, below = null) => ({ name, below, number: true });
const heading = (setting) => (setting[0].toUpperCase() + setting.slice(1)).replaceAll("_", " ");

/**
 * Return the table of numbers. compared: [{name, place, summary, run, points, calibration}]; baseline: the name of one of them.
 */
export function comparisonTable(compared, baseline) {
  const other = compared.find(({ name }) => name === baseline);
  const costs = RESOURCES.filter(({ name }) => compared.some(({ summary }) => summary[name]));
  const columns = [
    { name: "Run" },
    number("Effective task ratio", `last ${RECENT} steps`),
    number("Difference", unbroken("95 % interval")),
    number("vs uniform"),
    number("Effective tasks", "of reported"),
    number("Rollouts", "steps"),
    number("Tasks met"),
    ...costs.map(({ title, each }) => number(title, each)),
    number("Calibration error", "last steps"),
  ];
  const rows = compared.map((one) => [runName(one, baseline), ...numbers(one, other, costs)]);
  return scrolling("Comparison of runs", columns, rows);
}

/** Return the table of the settings that tell the runs apart; null where they have the same ones. */
export function settingsTable(compared, baseline) {
  const settings = differingSettings(compared.map(({ run }) => run));
  if (!settings.length) return null;
  const columns = [{ name: "Run" }, ...settings.map(({ name }) => ({ name: heading(name) }))];
  const rows = compared.map((one, place) => [
    runName(one, baseline),
    ...settings.map(({ name, values }) => (values[place] === null ? unknown() : written(name, values[place]))),
  ]);
  return scrolling("Settings that differ", columns, rows);
}

const unknown = () => element("span", { class: "unknown" }, UNKNOWN);

function scrolling(caption, columns, rows) {
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return element("div", region, table(caption, columns, rows));
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
    [percent(reported ? effective / reported : null), percent(summary.effective_task_ratio)],
    differenceOf(other === undefined || summary.run === other.name ? null : ratioDifference(points, other.points)),
    gainOf(gain),
    [count(effective), count(reported)],
    [count(rollouts), count(summary.step)],
    percent(run.coverage.reached_share),
    ...costs.map(({ name, size }) => costOf(summary[name], size)),
    [decimal(calibrationError(calibration)), count(calibration.steps)],
  ];
}

const costOf = (cost, size) => [amount(cost ? cost.spent / size : null), amount(cost?.per_effective)];

const inPoints = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

function differenceOf(difference) {
  if (difference === null) return UNKNOWN;
  const { mean, low, high, steps } = difference;
  const isSure = low > 0 || high < 0;
  const attributes = {
    class: isSure ? (mean > 0 ? "better" : "worse") : null,
    title: `over the ${count(steps)} steps that both runs have closed`,
  };
  return [element("span", attributes, `${inPoints(mean)} points`), `${inPoints(low)}\u00a0to\u00a0${inPoints(high)}`];
}

function gainOf(gain) {
  if (gain === null || gain.factor === null) return UNKNOWN;
  return [factor(gain.factor), gain.source === "measured" ? "measured" : "estimate"];
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
  const words = unbroken(`${change < 0 ? "−" : "+"}${Math.abs(change)} % effective tasks`);
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
