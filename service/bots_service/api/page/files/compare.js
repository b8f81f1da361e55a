// Which runs of a dataset are compared, what the best of them gained, and their numbers.

import { runHref } from "./addresses.js";
import { element, lines, soft } from "./dom.js";
import { STYLES, styleOf, swatch } from "./drawings.js";
import { UNKNOWN, count, decimal, factor, percent, unbroken } from "./format.js";
import { RECENT, calibrationError, ratioDifference } from "./series.js";
import { doubtOf, gainOf, verdictMark } from "./verdict.js";

export const MOST = STYLES; // runs at a time: as many as charts can tell apart

/** Return the runs to begin with: those with the newest steps, and the one that samples uniformly. */
export function firstOf(runs) {
  const used = runs.filter((run) => run.step > 0);
  const uniform = used.filter((run) => run.strategy === "uniform").slice(0, 1);
  const others = used.filter((run) => run !== uniform[0]).slice(0, MOST - uniform.length);
  const chosen = [...others, ...uniform];
  return chosen.toSorted((one, other) => one.created_at.localeCompare(other.created_at)).map((run) => run.run);
}

/**
 * Return the compared runs with one more, or without it. Each keeps its place while others come and go, and so its colour:
 * an empty name is a free place.
 */
export function toggled(places, name) {
  if (places.includes(name)) return places.map((one) => (one === name ? "" : one));
  return places.includes("") ? places.with(places.indexOf(""), name) : [...places, name];
}

/** Return the run that others are compared with: the one asked for, otherwise one that samples uniformly. */
export const baselineOf = (chosen, asked) =>
  chosen.find((run) => run.run === asked) ??
  chosen.find((run) => run.strategy === "uniform" && run.reported > 0) ??
  chosen[0] ??
  null;

const number = (name, below = null) => ({ name, below, number: true });
export const COLUMNS = [
  { name: "Run" },
  { name: "Verdict" },
  number("Effective task ratio", `last ${RECENT} steps`),
  number("Difference", unbroken("95 % interval")),
  number("vs uniform"),
  number("Effective tasks", "of reported"),
  number("Rollouts", "steps"),
  number("Tasks met"),
  number("Calibration error", "last steps"),
  { name: "Baseline" },
];

/**
 * Return a run's row.
 * @param {object} summary as /overview has it.
 * @param {object} course what is known besides of a compared run: {place, run, points, calibration}; null: it is not compared.
 * @param {object} baseline {name, points}; null where there is none.
 * @param {object} on what to call: toggle(name), pin(name); isFull: whether no more can be compared.
 */
export function rowOf(summary, course, baseline, on) {
  const { run: name, reported, effective, rollouts } = summary;
  const box = element("input", {
    type: "checkbox",
    value: name,
    "aria-label": name,
    checked: course !== null,
    disabled: course === null && on.isFull,
    onchange: () => on.toggle(name),
  });
  const isBaseline = baseline?.name === name;
  const radio = {
    type: "radio",
    name: "baseline",
    value: name,
    "aria-label": `Baseline: ${name}`,
    checked: isBaseline,
  };
  const gain = gainOf(summary);
  const difference = course && baseline && !isBaseline ? ratioDifference(course.points, baseline.points) : null;
  return [
    [box, course ? swatch(styleOf(course.place)) : null, element("a", { href: runHref(summary.dataset, name) }, name)],
    verdictMark(summary.verdict),
    lines(percent(reported ? effective / reported : null), percent(summary.effective_task_ratio)),
    difference ? differenceOf(difference, doubtOf(summary)) : UNKNOWN,
    gain ? lines(gain.times, gain.how) : UNKNOWN,
    lines(count(effective), count(reported)),
    lines(count(rollouts), count(summary.step)),
    course ? percent(course.run.coverage.reached_share) : UNKNOWN,
    course ? lines(decimal(calibrationError(course.calibration)), count(course.calibration.steps)) : UNKNOWN,
    course ? element("input", { ...radio, onchange: () => on.pin(name) }) : null,
  ];
}

const inPoints = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

/** Return how far a run's effective task ratio is from the baseline's; a gain of a run that is not healthy is grey. */
function differenceOf({ mean, low, high, steps }, doubt) {
  const look = low <= 0 && high >= 0 ? null : mean < 0 ? "bad" : doubt ? "soft" : "good";
  const attributes = { class: look, title: `over the ${count(steps)} steps that both runs have closed` };
  return lines(element("b", attributes, `${inPoints(mean)} points`), `${inPoints(low)}\u00a0to\u00a0${inPoints(high)}`);
}

const byGain = (runs) => runs.toSorted((one, other) => other.gain.factor - one.gain.factor);

/**
 * Return what the best healthy one of the compared runs gained over uniform sampling, in words; only what was measured
 * counts, against a run that is compared, too.
 */
export function headline(compared) {
  if (!compared.length) return [soft("Select runs to compare them.", "p")];
  const known = byGain(compared.filter(({ gain }) => (gain?.factor ?? null) !== null));
  const measured = known.filter(({ gain }) => gain.baseline !== null);
  const shown = measured.filter(({ gain }) => compared.some(({ run }) => run === gain.baseline));
  if (!shown.length && measured.length)
    return [soft(`Select ${measured[0].gain.baseline}, too, to see the gain over uniform sampling.`, "p")];
  if (!shown.length) {
    const best = known.find((one) => doubtOf(one) === null);
    const estimate = best
      ? ` A conservative estimate for ${best.run}: ${factor(best.gain.factor)} as many effective tasks as uniform sampling.`
      : "";
    return [soft(`No gain is measured yet, as no run samples uniformly.${estimate}`, "p")];
  }
  const best = shown.find((one) => doubtOf(one) === null) ?? shown[0];
  const doubt = doubtOf(best);
  const larger = shown.slice(0, shown.indexOf(best)).find(({ verdict }) => verdict.kind !== "starting");
  const { rollouts_spent: spent, baseline, steps } = best.gain;
  return [
    element(
      "p",
      { class: doubt ? "headline soft" : "headline" },
      element("b", {}, changeOf(best)),
      ` for the same ${count(spent)} rollouts`,
    ),
    soft(`Measured: ${best.run} compared with ${baseline}, which samples uniformly, over ${count(steps)} steps.`, "p"),
    doubt ? caution(best, `${best.run}: ${doubt}`) : null,
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
    element("span", { class: "tone", "data-tone": "warning" }),
    `${words} `,
    element("a", { href: runHref(dataset, run) }, `What to do about ${run}`),
  );
