// The compared runs in numbers, and the best of them in words.

import { runHref } from "./addresses.js";
import { swatch } from "./chart-parts.js";
import { styleOf } from "./charts.js";
import { differingSettings } from "./compare-choice.js";
import { ratioDifference } from "./differences.js";
import { element, table } from "./dom.js";
import { UNKNOWN, count, decimal, factor, percent, unbroken } from "./format.js";
import { RECENT, calibrationError } from "./series.js";
import { written } from "./settings.js";
import { doubtOf } from "./verdict.js";

/** A column of numbers. below: the name of a second number in each of its cells. */
const number = (name, below = null) => ({ name, below, number: true });
const heading = (setting) => (setting[0].toUpperCase() + setting.slice(1)).replaceAll("_", " ");

/**
 * Return the table of numbers. compared: [{name, place, summary, run, points, calibration}]; baseline: the name of one of them.
 */
export function comparisonTable(compared, baseline) {
  const other = compared.find(({ name }) => name === baseline);
  const columns = [
    { name: "Run" },
    number("Effective task ratio", `last ${RECENT} steps`),
    number("Difference", unbroken("95 % interval")),
    number("vs uniform"),
    number("Effective tasks", "of reported"),
    number("Rollouts", "steps"),
    number("Tasks met"),
    number("Calibration error", "last steps"),
  ];
  const rows = compared.map((one) => [runName(one, baseline), ...numbers(one, other)]);
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

function numbers({ summary, run, points, calibration }, other) {
  const { reported, effective, rollouts } = summary;
  return [
    [percent(reported ? effective / reported : null), percent(summary.effective_task_ratio)],
    other === undefined || summary.run === other.name
      ? UNKNOWN
      : differenceOf(ratioDifference(points, other.points), doubtOf(summary)),
    gainOf(summary),
    [count(effective), count(reported)],
    [count(rollouts), count(summary.step)],
    percent(run.coverage.reached_share),
    [decimal(calibrationError(calibration)), count(calibration.steps)],
  ];
}

const inPoints = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

/** Return how far a run's effective task ratio is from the baseline's; a gain of a run that is not healthy is grey. */
function differenceOf(difference, doubt) {
  if (difference === null) return UNKNOWN;
  const { mean, low, high, steps } = difference;
  const isSure = low > 0 || high < 0;
  const attributes = {
    class: !isSure ? null : mean < 0 ? "worse" : doubt ? "doubtful" : "better",
    title: `over the ${count(steps)} steps that both runs have closed`,
  };
  return [element("span", attributes, `${inPoints(mean)} points`), `${inPoints(low)}\u00a0to\u00a0${inPoints(high)}`];
}

/** Return a run's gain; grey where the run is not healthy, with the reason. */
function gainOf(summary) {
  const { gain } = summary;
  if (gain === null || gain.factor === null) return UNKNOWN;
  const doubt = doubtOf(summary);
  const times = element("span", { class: doubt && "doubtful", title: doubt }, factor(gain.factor));
  return [times, gain.source === "measured" ? "measured" : "estimate"];
}

/**
 * Return what the best healthy one of the compared runs gained over uniform sampling, in words; only what was measured
 * counts, against a run that is compared, too.
 */
export function headline(compared) {
  const names = new Set(compared.map(({ run }) => run));
  const measured = compared
    .filter(({ gain }) => gain?.source === "measured" && gain.factor !== null)
    .toSorted((one, other) => other.gain.factor - one.gain.factor);
  const shown = measured.filter(({ gain }) => names.has(gain.baseline));
  if (!shown.length) return [element("p", { class: "soft" }, notMeasured(compared, measured[0]))];
  const best = shown.find((one) => doubtOf(one) === null) ?? shown[0];
  const isHealthy = doubtOf(best) === null;
  const larger = shown.slice(0, shown.indexOf(best)).find(({ verdict }) => verdict?.kind !== "starting");
  const { rollouts_spent: spent, baseline, steps } = best.gain;
  const measure = `Measured: ${best.run} compared with ${baseline}, which samples uniformly, over ${count(steps)} steps.`;
  return [
    element(
      "p",
      { class: isHealthy ? "headline" : "headline doubtful" },
      element("b", {}, changeOf(best)),
      ` for the same ${count(spent)} rollouts`,
    ),
    element("p", { class: "soft" }, measure),
    isHealthy ? null : caution(best, `${best.run}: ${doubtOf(best)}`),
    larger ? caution(larger, `${larger.run} found ${changeOf(larger)}, but is not healthy. ${doubtOf(larger)}`) : null,
  ];
}

function changeOf({ gain }) {
  const change = Math.round(100 * (gain.factor - 1));
  return unbroken(`${change < 0 ? "−" : "+"}${Math.abs(change)} % effective tasks`);
}

const caution = ({ dataset, run }, words) =>
  element(
    "p",
    { class: "caution" },
    `${words} `,
    element("a", { href: runHref(dataset, run) }, `What to do about ${run}`),
  );

/** Say why no gain is shown. measured: a run whose gain is measured against one that is not compared, if there is one. */
function notMeasured(compared, measured) {
  if (measured) return `Select ${measured.gain.baseline}, too, to see the gain over uniform sampling.`;
  const best = compared
    .filter((one) => (one.gain?.factor ?? null) !== null && doubtOf(one) === null)
    .toSorted((one, other) => other.gain.factor - one.gain.factor)[0];
  const estimate = best
    ? ` A conservative estimate for ${best.run}: ${factor(best.gain.factor)} as many effective tasks as uniform sampling.`
    : "";
  return `No gain is measured yet, as no run samples uniformly.${estimate}`;
}
