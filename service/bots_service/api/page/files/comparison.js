// Charts of several runs: what each brought, in a colour of its own.

import { SHARES, STEPS, chart, line } from "./charts.js";
import { compact, decimal, percent } from "./format.js";
import { RECENT, recentRatios, sums } from "./series.js";
import { color } from "./themes.js";

const PAINTS = ["accent", "other", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];

const steps = (points) => points.map((point) => point.last_step);
const rollouts = (points) => sums(points, "rollouts");
const effective = (points) => sums(points, "effective");
const capabilities = (points) => points.map((point) => point.capability);

/** Return the charts: {nodes, draw}. */
export function comparisonCharts() {
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, over the last ${RECENT} steps.`,
    { wide: true },
  );
  const found = chart("Effective tasks found", "Effective tasks by rollouts spent: the steeper, the better.");
  const capability = chart(
    "Capability",
    "The model's place along the reference models, fitted to the tasks that each run selected.",
  );

  /** Draw them. courses: [{run, points}]. */
  function draw(courses) {
    const ratioAxes = { xaxis: STEPS, yaxis: SHARES, height: 320 };
    ratios.draw(() => lines(courses, steps, recentRatios, ratioAxes), said(courses, ratioWords));
    const foundAxes = { xaxis: { ...STEPS, title: { text: "rollouts", standoff: 8 } }, yaxis: { rangemode: "tozero" } };
    found.draw(() => lines(courses, rollouts, effective, foundAxes), said(courses, foundWords));
    const capabilityAxes = { xaxis: STEPS, yaxis: {} };
    capability.draw(() => lines(courses, steps, capabilities, capabilityAxes), said(courses, capabilityWords));
  }
  return { nodes: [ratios.node, found.node, capability.node], draw };
}

function lines(courses, x, y, axes) {
  const traces = courses.map(({ run, points }, place) =>
    line(run.run, { x: x(points), y: y(points) }, { paint: color(PAINTS[place % PAINTS.length]) }),
  );
  return { traces, layout: { ...axes, showlegend: true } };
}

const ratioWords = (points) => percent(recentRatios(points).at(-1));
const foundWords = (points) => `${compact(effective(points).at(-1))} by ${compact(rollouts(points).at(-1))} rollouts`;
const capabilityWords = (points) => decimal(points.at(-1)?.capability, 2);

function said(courses, words) {
  return courses.map(({ run, points }) => `${run.run}: ${words(points)}`).join(", ") || "No run has closed a step yet.";
}
