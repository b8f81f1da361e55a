// The charts of one run.

import { SHARES, STEPS, chart, line } from "./charts.js";
import { decimal, percent } from "./format.js";
import { RECENT, recentRatios } from "./series.js";
import { color } from "./themes.js";

const BINS = 20;
const FROM_0_TO_1 = { range: [-0.04, 1.04], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] }; // with room for the dots

/** Return a run's charts: {nodes, draw}. */
export function runCharts() {
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, over the last ${RECENT} steps; beside what uniform choice could expect, judged kindly.`,
    { wide: true },
  );
  const heat = chart(
    "What is believed of the pool",
    "How the tasks' expected success probabilities are spread, step by step: the darker or brighter, the more tasks.",
  );
  const belief = chart(
    "Belief and reality",
    "Rollouts by the success rate that was predicted: on the line, the belief is right.",
  );
  const capability = chart(
    "Capability",
    "Where the model stands along the reference models: 0 the weakest, 1 the strongest.",
  );
  const errors = chart(
    "Prediction error",
    "Brier score of the success rates predicted before each step; a coin has 0.25.",
  );

  function draw(run, points, outlooks, calibration) {
    ratios.draw(() => ratioChart(points, outlooks), ratioGist(points, outlooks));
    heat.draw(() => heatMap(outlooks, run.settings.target), heatGist(outlooks));
    belief.draw(() => calibrationChart(calibration), calibrationGist(calibration));
    capability.draw(() => course(points, "capability", {}), last(points, "capability"));
    errors.draw(() => course(points, "brier", { rangemode: "tozero" }), last(points, "brier"));
  }
  return { nodes: [ratios.node, heat.node, belief.node, capability.node, errors.node], draw };
}

function ratioChart(points, outlooks) {
  const steps = points.map((point) => point.last_step);
  const each = points.map((point) => point.effective_task_ratio);
  const uniform = {
    x: outlooks.map((outlook) => outlook.step),
    y: outlooks.map((outlook) => outlook.uniform_effective_task_ratio),
  };
  const traces = [
    line("step by step", { x: steps, y: each }, { paint: color("faint"), width: 1, hoverinfo: "skip" }),
    line("uniform choice, expected", uniform, { paint: color("other"), dash: "dash", hovertemplate: "%{y:.1%}" }),
    line(
      "this run",
      { x: steps, y: recentRatios(points) },
      { paint: color("accent"), width: 3, hovertemplate: "%{y:.1%}" },
    ),
  ];
  return { traces, layout: { xaxis: STEPS, yaxis: SHARES, height: 320, showlegend: true } };
}

function ratioGist(points, outlooks) {
  if (!points.length) return "No step has closed yet.";
  const uniform = outlooks.at(-1)?.uniform_effective_task_ratio;
  const beside = uniform === undefined ? "" : `; uniform choice could expect ${percent(uniform)}`;
  return `${percent(recentRatios(points).at(-1))} after step ${points.at(-1).last_step}${beside}.`;
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
  if (!outlooks.length) return "Nothing was observed yet.";
  const { distribution } = outlooks.at(-1);
  const share = (first, end) => percent(distribution.slice(first, end).reduce((sum, part) => sum + part, 0));
  return `Now ${share(0, 4)} of the tasks are below 0.2, ${share(4, 16)} between, ${share(16, 20)} above 0.8.`;
}

function calibrationChart({ bins }) {
  const told = bins.filter((bin) => bin.rollouts > 0);
  const most = Math.max(...told.map((bin) => bin.rollouts), 1);
  const diagonal = line(
    "as predicted",
    { x: [0, 1], y: [0, 1] },
    { paint: color("other"), dash: "dash", hoverinfo: "skip" },
  );
  const dots = {
    type: "scatter",
    mode: "lines+markers",
    name: "as it came",
    x: told.map((bin) => bin.mean_prediction),
    y: told.map((bin) => bin.success_rate),
    customdata: told.map((bin) => bin.rollouts),
    line: { color: color("accent"), width: 1 },
    marker: { color: color("accent"), size: told.map((bin) => 6 + 14 * Math.sqrt(bin.rollouts / most)) },
    hovertemplate: "predicted %{x:.2f}, came %{y:.2f}, %{customdata:,} rollouts<extra></extra>",
  };
  const layout = {
    xaxis: { ...FROM_0_TO_1, title: { text: "predicted success rate", standoff: 8 } },
    yaxis: { ...FROM_0_TO_1, title: { text: "reward" } },
    hovermode: "closest",
    showlegend: true,
  };
  return { traces: [diagonal, dots], layout };
}

function calibrationGist({ steps, bins }) {
  const rollouts = bins.reduce((sum, bin) => sum + bin.rollouts, 0);
  if (!rollouts) return "Nothing was predicted yet.";
  const off = bins.reduce(
    (sum, bin) => (bin.rollouts ? sum + bin.rollouts * Math.abs(bin.mean_prediction - bin.success_rate) : sum),
    0,
  );
  return `Over the last ${steps} steps predictions were off by ${decimal(off / rollouts)} on average.`;
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
