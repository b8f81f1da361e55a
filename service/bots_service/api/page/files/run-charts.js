// The charts of one run.

import { SHARES, STEPS, chart } from "./charts.js";
import { evaluationChart } from "./evaluations.js";
import { count, decimal, percent } from "./format.js";
import { RECENT, calibrationError, recentEstimates, recentRatios, stepsOf, sums } from "./series.js";

const LARGEST = 12; // pixels, the radius of the dot of most rollouts
const SUCCESS = { name: "success probability", format: percent, range: [0, 1] };
const PREDICTED = { name: "predicted success rate", format: decimal, range: [-0.04, 1.04] }; // with room for the dots
const OBSERVED = { ...PREDICTED, name: "observed success rate" };
const PARTS = { "below 0.2": [0, 4], "0.2 to 0.8": [4, 16], "above 0.8": [16, 20] }; // bins of a distribution

/** Return a run's charts: {nodes, draw}. */
export function runCharts() {
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, over the last ${RECENT} steps.`,
    "wide",
  );
  const evaluated = evaluationChart();
  const heat = chart("Predicted success rate of all tasks over time", "The stronger the colour, the more tasks.");
  const coverage = chart(
    "Coverage",
    "The share of the tasks that the run has met so far, compared with a shuffled pass.",
  );
  const calibration = chart(
    "Calibration",
    "Observed success rate by predicted success rate. On the dashed line, predictions are right.",
  );

  /** Draw them. summary: of the run; found: {run, points, calibration, uniform, evaluated, marks}. */
  function draw(summary, found) {
    const { run, points, marks } = found;
    const looks = points.filter(({ distribution }) => distribution);
    const baseline = summary.strategy === "uniform" || !points.length ? null : baselineOf(summary, found);
    ratios.draw({
      x: STEPS,
      y: SHARES,
      series: ratioLines(points, baseline),
      marks,
      words: ratioWords(summary, baseline),
    });
    const own = { run: "this run", evaluations: summary.evaluations, points, paint: "accent", width: 3 };
    evaluated.draw(found.evaluated ? [{ ...found.evaluated, paint: "other", dash: "dash" }, own] : [own]);
    heat.draw({
      x: STEPS,
      y: SUCCESS,
      series: partsOf(looks),
      cells: { x: stepsOf(looks), values: looks.map(({ distribution }) => distribution) },
      targets: [{ at: run.settings.target, name: "target" }],
      marks,
      words: heatWords(looks),
    });
    coverage.draw({
      x: STEPS,
      y: SHARES,
      series: coverageLines(run, points),
      marks,
      words: coverageWords(run.coverage),
    });
    calibration.draw({
      x: PREDICTED,
      y: OBSERVED,
      series: dotsOf(found.calibration),
      words: calibrationWords(found.calibration),
    });
  }
  return { nodes: [ratios.node, evaluated.node, heat.node, coverage.node, calibration.node], draw };
}

/** Return the line of uniform sampling: a run's that samples uniformly, otherwise the estimate. */
function baselineOf({ gain }, { points, uniform }) {
  if (uniform) return { name: `uniform (run ${gain.baseline})`, x: stepsOf(uniform), y: recentRatios(uniform) };
  const known = points.filter((point) => point.uniform_effective_task_ratio !== null);
  return { name: "uniform (estimate)", x: stepsOf(known), y: recentEstimates(known) };
}

function ratioLines(points, baseline) {
  const x = stepsOf(points);
  return [
    { name: "step by step", x, y: points.map((point) => point.effective_task_ratio), paint: "faint", width: 1 },
    ...(baseline ? [{ ...baseline, paint: "other", dash: "dash" }] : []),
    { name: "this run", x, y: recentRatios(points), paint: "accent", width: 3 },
  ];
}

function ratioWords({ step, effective_task_ratio: ratio, gain }, baseline) {
  if (!step) return "No step has closed yet.";
  const uniform = gain?.uniform_effective_task_ratio ?? null;
  const compared = baseline && uniform !== null ? `; ${baseline.name}: ${percent(uniform)}` : "";
  return `${percent(ratio)} after step ${count(step)}${compared}.`;
}

const share = ({ distribution }, [first, end]) => distribution.slice(first, end).reduce((sum, part) => sum + part, 0);

/** Return what is read of the heat map: the share of the tasks that are hard, that teach, and that are easy. */
const partsOf = (looks) =>
  Object.entries(PARTS).map(([name, bins]) => ({
    name,
    x: stepsOf(looks),
    y: looks.map((look) => share(look, bins)),
    isHidden: true,
  }));

function heatWords(looks) {
  if (!looks.length) return "No step has closed yet.";
  const parts = Object.entries(PARTS).map(([name, bins]) => `${percent(share(looks.at(-1), bins))} ${name}`);
  return `Now ${parts.join(", ")}.`;
}

function coverageLines({ coverage }, points) {
  const tasks = Math.max(coverage.available_tasks, 1); // all may be retired
  const x = stepsOf(points);
  const shuffled = sums(points, "reported").map((sum) => Math.min(1, sum / tasks));
  return [
    { name: "a shuffled pass", x, y: shuffled, paint: "other", dash: "dash" },
    { name: "this run", x, y: points.map((point) => point.distinct_tasks / tasks), paint: "accent", width: 3 },
  ];
}

function coverageWords(coverage) {
  if (!coverage.distinct_tasks) return "No task has been reported yet.";
  const said = [
    `${count(coverage.distinct_tasks)} different tasks.`,
    `The most visited tenth of the pool took ${percent(coverage.top_tenth_share)} of all visits.`,
  ];
  if (coverage.unmet_share !== null)
    said.push(
      `In the last steps, enough for a whole pass, ${percent(coverage.unmet_share)} of the tasks were not met.`,
    );
  if (coverage.passes !== null) said.push(`${decimal(coverage.passes, 2)} passes.`);
  return said.join(" ");
}

function dotsOf({ bins }) {
  const filled = bins.filter((bin) => bin.rollouts > 0);
  const most = Math.max(...filled.map((bin) => bin.rollouts), 1);
  const x = filled.map((bin) => bin.mean_prediction);
  const rollouts = filled.map((bin) => bin.rollouts);
  const sizes = rollouts.map((number) => 3 + (LARGEST - 3) * Math.sqrt(number / most));
  return [
    { name: "as predicted", x: [0, 1], y: [0, 1], paint: "other", dash: "dash", isGuide: true },
    { name: "observed", x, y: filled.map((bin) => bin.success_rate), paint: "accent", width: 1, sizes },
    { name: "rollouts", x, y: rollouts, format: count, isHidden: true },
  ];
}

function calibrationWords(calibration) {
  const off = calibrationError(calibration);
  if (off === null) return "No predictions yet.";
  return `Over the last ${calibration.steps} steps, predictions differed from observed success rates by ${decimal(off)} on average.`;
}
