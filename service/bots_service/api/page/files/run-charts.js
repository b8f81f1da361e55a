// The charts of one run.

import { SHARES, STEPS, chart, line } from "./charts.js";
import { coverageChart } from "./coverage.js";
import { decimal, percent } from "./format.js";
import { RECENT, calibrationError, recentRatios } from "./series.js";
import { color } from "./themes.js";

const BINS = 20;
const FROM_0_TO_1 = { range: [-0.04, 1.04], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] }; // with room for the dots

/** Return a run's charts: {nodes, draw}. */
export function runCharts() {
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, over the last ${RECENT} steps. Dashed: uniform sampling.`,
    { wide: true },
  );
  const heat = chart(
    "Predicted success rate of all tasks over time",
    "The stronger the colour, the more tasks. Dotted: the target.",
  );
  const coverage = coverageChart();
  const belief = chart(
    "Calibration",
    "Observed success rate by predicted success rate. On the dashed line, predictions are right.",
  );
  const capability = chart(
    "Capability",
    "The model's place along the reference models, fitted to recently reported tasks.",
  );
  const errors = chart(
    "Prediction error",
    "Brier score of the success rates predicted before each step. Tasks near one half have scores near 0.25, so don't compare strategies by it.",
  );

  function draw(run, { reference_models: models }, { points, outlooks, calibration, measured }) {
    const uniform = run.settings.strategy === "uniform" ? null : uniformOf(outlooks, measured);
    ratios.draw(() => ratioChart(points, uniform), ratioGist(points, uniform));
    heat.draw(() => heatMap(outlooks, run.settings.target), heatGist(outlooks));
    coverage.draw(run, points, outlooks);
    belief.draw(() => calibrationChart(calibration), calibrationGist(calibration));
    capability.node.hidden = "ability" in run.estimates;
    const place = `${last(points, "capability")} ${capabilityWords(models)}.`;
    capability.draw(() => course(points, "capability", {}), place);
    errors.draw(() => course(points, "brier", { rangemode: "tozero" }), last(points, "brier"));
  }
  return { nodes: [ratios.node, heat.node, coverage.node, belief.node, capability.node, errors.node], draw };
}

/** Say what the ends of the scale of capability are. models: the names of the reference models. */
export function capabilityWords(models) {
  if (!models.length) return "no reference models";
  return models.length === 1 ? "1: the reference model" : `0: weakest, ${models.length - 1}: strongest reference`;
}

/** Return the line of uniform sampling, measured or estimated: {name, x, y, words}. */
function uniformOf(outlooks, measured) {
  if (measured)
    return {
      name: `run ${measured.name}`,
      x: measured.points.map((point) => point.last_step),
      y: recentRatios(measured.points),
      words: (ratio) => `uniform sampling (run ${measured.name}): ${ratio}`,
    };
  return {
    name: "uniform sampling, estimate (deliberately high)",
    x: outlooks.map((outlook) => outlook.step),
    y: outlooks.map((outlook) => outlook.uniform_effective_task_ratio),
    words: (ratio) => `estimate for uniform sampling, deliberately high: ${ratio}`,
  };
}

function ratioChart(points, uniform) {
  const steps = points.map((point) => point.last_step);
  const each = points.map((point) => point.effective_task_ratio);
  const paint = { paint: color("other"), dash: "dash", hovertemplate: "%{y:.1%}" };
  const traces = [
    line("step by step", { x: steps, y: each }, { paint: color("faint"), width: 1, hoverinfo: "skip" }),
    ...(uniform ? [line(uniform.name, uniform, paint)] : []),
    line(
      "this run",
      { x: steps, y: recentRatios(points) },
      { paint: color("accent"), width: 3, hovertemplate: "%{y:.1%}" },
    ),
  ];
  return { traces, layout: { xaxis: STEPS, yaxis: SHARES, height: 320, showlegend: true } };
}

function ratioGist(points, uniform) {
  if (!points.length) return "No step has closed yet.";
  const baseline = uniform?.y.length ? `; ${uniform.words(percent(uniform.y.at(-1)))}` : "";
  return `${percent(recentRatios(points).at(-1))} after step ${points.at(-1).last_step}${baseline}.`;
}

function heatMap(outlooks, target) {
  const steps = outlooks.map((outlook) => outlook.step);
  const middles = Array.from({ length: BINS }, (_, bin) => (bin + 0.5) / BINS);
  const shares = middles.map((_, bin) => outlooks.map((outlook) => outlook.distribution[bin]));
  const heat = {
    type: "heatmap",
    x: steps,
    y: middles,
    z: shares,
    zmin: 0,
    colorscale: [
      [0, color("card")],
      [0.05, color("heat-low")],
      [0.4, color("accent")],
      [1, color("heat-high")],
    ],
    // The content security policy forbids inline styles: a bar of the scale needs one, and so does drawing without gaps.
    showscale: false,
    ygap: 1,
    hovertemplate: "step %{x}<br>about %{y:.2f}: %{z:.1%} of the tasks<extra></extra>",
  };
  const wanted = {
    type: "line",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0: target,
    y1: target,
    line: { color: color("other"), dash: "dot", width: 2 },
  };
  return {
    traces: [heat],
    layout: {
      xaxis: { ...STEPS, range: [steps[0] ?? 0, steps.at(-1) ?? 1] },
      yaxis: { range: [0, 1], title: { text: "success probability" } },
      shapes: [wanted],
      hovermode: "closest",
    },
  };
}

function heatGist(outlooks) {
  if (!outlooks.length) return "No outlook yet.";
  const { distribution } = outlooks.at(-1);
  const share = (first, end) => percent(distribution.slice(first, end).reduce((sum, part) => sum + part, 0));
  return `Now ${share(0, 4)} of the tasks are below 0.2, ${share(4, 16)} between, ${share(16, 20)} above 0.8.`;
}

function calibrationChart({ bins }) {
  const filled = bins.filter((bin) => bin.rollouts > 0);
  const most = Math.max(...filled.map((bin) => bin.rollouts), 1);
  const diagonal = line(
    "as predicted",
    { x: [0, 1], y: [0, 1] },
    { paint: color("other"), dash: "dash", hoverinfo: "skip" },
  );
  const dots = {
    type: "scatter",
    mode: "lines+markers",
    name: "observed",
    x: filled.map((bin) => bin.mean_prediction),
    y: filled.map((bin) => bin.success_rate),
    customdata: filled.map((bin) => bin.rollouts),
    line: { color: color("accent"), width: 1 },
    marker: { color: color("accent"), size: filled.map((bin) => 6 + 14 * Math.sqrt(bin.rollouts / most)) },
    hovertemplate: "predicted %{x:.2f}, observed %{y:.2f}, %{customdata:,} rollouts<extra></extra>",
  };
  const layout = {
    xaxis: { ...FROM_0_TO_1, title: { text: "predicted success rate", standoff: 8 } },
    yaxis: { ...FROM_0_TO_1, title: { text: "observed success rate" } },
    hovermode: "closest",
    showlegend: true,
  };
  return { traces: [diagonal, dots], layout };
}

function calibrationGist(calibration) {
  const off = calibrationError(calibration);
  if (off === null) return "No predictions yet.";
  return `Over the last ${calibration.steps} steps, predictions differed from observed success rates by ${decimal(off)} on average.`;
}

function course(points, name, yaxis) {
  const known = points.filter((point) => point[name] !== null);
  const trace = line(
    name,
    { x: known.map((point) => point.last_step), y: known.map((point) => point[name]) },
    { paint: color("accent"), hovertemplate: "%{y:.3f}<extra></extra>" },
  );
  return { traces: [trace], layout: { xaxis: STEPS, yaxis, showlegend: false } };
}

function last(points, name) {
  const known = points.filter((point) => point[name] !== null);
  return known.length ? `${decimal(known.at(-1)[name])} after step ${known.at(-1).last_step}.` : "Not known yet.";
}
