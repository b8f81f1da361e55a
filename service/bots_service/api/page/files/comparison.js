// Charts of several runs: what each reached, in a colour and a dash of its own.

import { ROLLOUTS, SHARES, STEPS, chart, sharedZoom, styleOf } from "./charts.js";
import { compact, decimal, percent } from "./format.js";
import { RECENT, innerRange, recentRatios, sums } from "./series.js";
import { doubtOf } from "./verdict.js";

const steps = (points) => points.map((point) => point.last_step);
const rollouts = (points) => sums(points, "rollouts");
const effective = (points) => sums(points, "effective");
const capabilities = (points) => points.map((point) => point.capability);

/** Return the charts: {nodes, draw}. */
export function comparisonCharts() {
  const zoom = sharedZoom(); // of steps
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, over the last ${RECENT} steps.`,
    { wide: true, zoom },
  );
  const found = chart("Effective tasks found", "Effective tasks by rollouts spent: the steeper, the better.");
  const capability = chart(
    "Capability",
    "The model's place along the reference models, fitted to the tasks that each run selected.",
    { zoom },
  );

  /**
   * Draw them.
   * @param {object[]} compared name, place (among the styles of charts), summary, points.
   * @param {string} baseline the name of one.
   * @param {string} nothing what to say where nothing is compared.
   */
  function draw(compared, baseline, nothing) {
    const drawn = compared.filter(({ points }) => points.length);
    const none = compared.length ? "No run has closed a step yet." : nothing;
    const lines = (x, y) =>
      drawn.map(({ name, place, points }) => ({ name, x: x(points), y: y(points), ...styleOf(place) }));
    const ratioWords = best(drawn, baseline, (points) => recentRatios(points).at(-1), percent) ?? none;
    ratios.draw({ x: STEPS, y: SHARES, series: lines(steps, recentRatios), words: ratioWords });
    const range = innerRange(drawn.flatMap(({ points }) => capabilities(points)));
    capability.node.hidden = range === null;
    found.node.classList.toggle("wide", range === null); // it has the other's place
    const tasks = { name: "effective tasks", format: compact, zero: true };
    const foundWords = best(drawn, baseline, (points) => effective(points).at(-1), compact) ?? none;
    found.draw({ x: ROLLOUTS, y: tasks, series: lines(rollouts, effective), words: foundWords });
    if (range === null) return;
    const y = { name: "capability", format: (value) => decimal(value, 2), range };
    const words = "The axis leaves out the outermost values: few steps of few tasks can throw an estimate far off.";
    const series = lines(steps, capabilities).filter((line) => line.y.some((value) => value !== null));
    capability.draw({ x: STEPS, y, series, words });
  }
  return { nodes: [ratios.node, found.node, capability.node], draw };
}

/** Say which run ends highest, and where the baseline does; null where no run has closed a step. */
function best(drawn, baseline, last, written) {
  const ends = drawn.map((one) => ({ ...one, end: last(one.points) })).filter(({ end }) => end !== null);
  if (!ends.length) return null;
  const [highest] = ends.toSorted((one, other) => other.end - one.end);
  const other = ends.find(({ name }) => name === baseline);
  const rest = other && other !== highest ? `; baseline ${baseline}: ${written(other.end)}` : "";
  const doubt = doubtOf(highest.summary) === null ? "" : " (not healthy)";
  return `Highest at its end: ${highest.name}${doubt}, ${written(highest.end)}${rest}.`;
}
