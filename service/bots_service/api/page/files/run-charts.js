// The charts of one run.

import { SHARES, STEPS, chart, sharedZoom } from "./charts.js";
import { coverageChart } from "./coverage.js";
import { count, decimal, percent } from "./format.js";
import { capabilityWords } from "./run-numbers.js";
import { RECENT, calibrationError, innerRange, recentEstimates, recentRates, recentRatios } from "./series.js";

const BINS = 20;
const LARGEST = 12; // pixels, the radius of the dot of most rollouts
const SUCCESS = { name: "success probability", format: (value) => decimal(value, 2), range: [0, 1] };
const PREDICTED = { name: "predicted success rate", format: decimal, range: [-0.04, 1.04] }; // with room for the dots
const OBSERVED = { ...PREDICTED, name: "observed success rate" };
const RECENTLY = `over the last ${RECENT} steps`;

/** Return a run's charts: {nodes, draw}. */
export function runCharts() {
  const zoom = sharedZoom();
  const narrow = { zoom };
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, ${RECENTLY}.`,
    { wide: true, zoom },
  );
  const rates = chart(
    "Success rate",
    `The mean success of the rollouts of the tasks that were selected, ${RECENTLY}.`,
    narrow,
  );
  const heat = chart(
    "Predicted success rate of all tasks over time",
    "The stronger the colour, the more tasks.",
    narrow,
  );
  const coverage = coverageChart(zoom);
  const belief = chart(
    "Calibration",
    "Observed success rate by predicted success rate. On the dashed line, predictions are right.",
  );
  const capability = chart(
    "Capability",
    "The model's place along the reference models, fitted to recently reported tasks.",
    { wide: true, zoom },
  );

  /** Draw them. summary: of the run; found: {run, row, points, outlooks, calibration, uniform, marks}. */
  function draw(summary, found) {
    const { run, row, points, outlooks, calibration, marks } = found;
    const target = [{ at: run.settings.target, name: "target" }];
    const baseline = summary.strategy === "uniform" ? null : baselineOf(summary, found);
    ratios.draw({
      x: STEPS,
      y: SHARES,
      series: ratioLines(points, points.length ? baseline : null),
      marks,
      words: ratioGist(summary, baseline),
    });
    rates.draw({ x: STEPS, y: SHARES, series: rateLines(points), marks, words: rateGist(points) });
    heat.draw({ x: STEPS, y: SUCCESS, cells: cellsOf(outlooks), targets: target, marks, words: heatGist(outlooks) });
    coverage.draw(run, points, outlooks, marks);
    belief.draw({
      x: PREDICTED,
      y: OBSERVED,
      series: calibrationDots(calibration),
      words: calibrationGist(calibration),
    });
    const range = innerRange(points.map((point) => point.capability));
    capability.node.hidden = range === null;
    if (range === null) return;
    const y = { name: "capability", format: (value) => decimal(value, 2), range };
    capability.draw({ x: STEPS, y, series: [capabilityLine(points)], marks, words: capabilityGist(run, row) });
  }
  const nodes = [ratios.node, rates.node, heat.node, coverage.node, belief.node, capability.node];
  return { nodes, draw };
}

/** Return the line of uniform sampling: a run's that samples uniformly, otherwise the estimate. */
function baselineOf({ gain }, { points, outlooks, uniform }) {
  if (uniform) return { name: `uniform (run ${gain.baseline})`, x: stepsOf(uniform), y: recentRatios(uniform) };
  const y = outlooks.length ? recentEstimates(points, outlooks) : points.map(() => null);
  return { name: "uniform (estimate)", x: stepsOf(points), y };
}

const stepsOf = (points) => points.map((point) => point.last_step);

function ratioLines(points, baseline) {
  const x = stepsOf(points);
  return [
    {
      name: "step by step",
      x,
      y: points.map((point) => point.effective_task_ratio),
      paint: "faint",
      width: 1,
      quiet: true,
    },
    ...(baseline ? [{ ...baseline, paint: "other", dash: "dash" }] : []),
    { name: "this run", x, y: recentRatios(points), paint: "accent", width: 3 },
  ];
}

function ratioGist({ step, effective_task_ratio: ratio, gain }, baseline) {
  if (!step) return "No step has closed yet.";
  const uniform = gain?.uniform_effective_task_ratio ?? null;
  const compared = baseline && uniform !== null ? `; ${baseline.name}: ${percent(uniform)}` : "";
  return `${percent(ratio)} after step ${count(step)}${compared}.`;
}

function rateLines(points) {
  const x = stepsOf(points);
  return [
    { name: "step by step", x, y: points.map((point) => point.success_rate), paint: "faint", width: 1, quiet: true },
    { name: "this run", x, y: recentRates(points), paint: "accent", width: 3 },
  ];
}

const rateGist = (points) =>
  points.length
    ? `${percent(recentRates(points).at(-1))} ${RECENTLY}. Selection looks for tasks near one half, so this says little about the model.`
    : "No step has closed yet.";

function cellsOf(outlooks) {
  const values = Array.from({ length: BINS }, (_, bin) => outlooks.map((outlook) => outlook.distribution[bin]));
  return { x: outlooks.map((outlook) => outlook.step), bins: BINS, values, name: "of the tasks", format: percent };
}

function heatGist(outlooks) {
  if (!outlooks.length) return "No outlook yet.";
  const { distribution } = outlooks.at(-1);
  const share = (first, end) => percent(distribution.slice(first, end).reduce((sum, part) => sum + part, 0));
  return `Now ${share(0, 4)} of the tasks are below 0.2, ${share(4, 16)} between, ${share(16, 20)} above 0.8.`;
}

function calibrationDots({ bins }) {
  const filled = bins.filter((bin) => bin.rollouts > 0);
  const most = Math.max(...filled.map((bin) => bin.rollouts), 1);
  const x = filled.map((bin) => bin.mean_prediction);
  const rollouts = filled.map((bin) => bin.rollouts);
  const sizes = rollouts.map((number) => 3 + (LARGEST - 3) * Math.sqrt(number / most));
  return [
    { name: "as predicted", x: [0, 1], y: [0, 1], paint: "other", dash: "dash", listed: false },
    { name: "observed", x, y: filled.map((bin) => bin.success_rate), paint: "accent", width: 1, sizes },
    { name: "rollouts", x, y: rollouts, format: count, drawn: false },
  ];
}

function calibrationGist(calibration) {
  const off = calibrationError(calibration);
  if (off === null) return "No predictions yet.";
  return `Over the last ${calibration.steps} steps, predictions differed from observed success rates by ${decimal(off)} on average.`;
}

const capabilityLine = (points) => ({
  name: "capability",
  x: stepsOf(points),
  y: points.map((point) => point.capability),
  paint: "accent",
});

const capabilityGist = ({ capability, step }, { reference_models: models }) =>
  `${decimal(capability, 2)} after step ${count(step)}. ${capabilityWords(models)}. The axis leaves out the outermost values.`;
