// What trainers measured of their models, such as the accuracy on held-out tasks: a chart, and the difference to a baseline.

import { ROLLOUTS, STEPS, chart } from "./charts.js";
import { element, fill, lines, soft } from "./dom.js";
import { UNKNOWN, count, decimal, signed } from "./format.js";

const DOT = 3.5; // pixels, the radius

const differenceOf = ({ evaluation }) => evaluation?.difference ?? null;

/** Return a run's cell in a table: the difference to the baseline, without one the last value; and where that is from. */
export function evaluationCell(run) {
  if (run.evaluation === null) return UNKNOWN;
  const { name, step, value, compared_step: at, difference } = run.evaluation;
  const [shown, where] = difference === null ? [decimal(value), step] : [element("b", {}, signed(difference)), at];
  return lines(shown, `${name}, step ${count(where)}`);
}

/** Say by how much the best of the compared runs is better than its baseline; nothing where nobody knows. */
export function evaluationHeadline(compared) {
  const known = compared.filter((run) => differenceOf(run) !== null);
  if (!known.length) return [];
  const [best] = known.toSorted((one, other) => differenceOf(other) - differenceOf(one));
  const { name, difference, baseline, compared_step: at } = best.evaluation;
  return [
    element("p", { class: "headline" }, element("b", {}, signed(difference)), ` ${name}`),
    soft(`Measured by the trainer: ${best.run} compared with ${baseline} at step ${count(at)}.`, "p"),
  ];
}

/**
 * Return a chart of evaluations, {node, draw}, which is not there while there are none. It has a choice of what was
 * measured, and of steps or rollouts.
 */
export function evaluationChart() {
  const made = chart(
    "Evaluations",
    "What the trainer measured of the model, such as accuracy on held-out tasks.",
    "wide",
  );
  const [name, by] = ["Measured", "By"].map((label) => element("select", { "aria-label": label, onchange: show }));
  fill(by, element("option", { value: "" }, "by steps"), element("option", { value: "rollouts" }, "by rollouts"));
  made.node.firstElementChild.lastElementChild.before(element("span", { class: "chips" }, name, by));
  made.node.hidden = true;
  let drawn = [];

  /** Draw it. runs: {run, evaluations, points, paint, dash, width}. */
  function draw(runs) {
    drawn = runs.filter(({ evaluations }) => Object.keys(evaluations ?? {}).length);
    made.node.hidden = !drawn.length;
    const names = [...new Set(drawn.flatMap(({ evaluations }) => Object.keys(evaluations)))].toSorted();
    const chosen = names.includes(name.value) ? name.value : names[0];
    fill(name, ...names.map((one) => element("option", { value: one, selected: one === chosen }, one)));
    name.hidden = names.length < 2;
    if (drawn.length) show();
  }

  function show() {
    const byRollouts = by.value === "rollouts";
    const series = drawn
      .filter(({ evaluations }) => name.value in evaluations)
      .map((one) => {
        const found = one.evaluations[name.value];
        const x = found.map(([step]) => (byRollouts ? rolloutsAt(one.points, step) : step));
        return Object.assign({}, one, {
          name: one.run,
          x,
          y: found.map(([, value]) => value),
          sizes: found.map(() => DOT),
        });
      });
    const values = series.flatMap(({ y }) => y);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = 0.08 * (high - low) || 0.1;
    const ends = series.map((one) => `${one.name} ${decimal(one.y.at(-1))}`);
    made.draw({
      x: byRollouts ? ROLLOUTS : STEPS,
      y: { name: name.value, format: decimal, range: [low - room, high + room] },
      series,
      words: `Last: ${ends.join(", ")}.`,
    });
  }
  return { node: made.node, draw };
}

/** Return how many rollouts a run had by the end of a step. points: of its curve. */
function rolloutsAt(points, step) {
  return points.reduce((sum, { first_step: first, last_step: last, rollouts }) => {
    const share = (step - first + 1) / (last - first + 1);
    return sum + rollouts * Math.min(Math.max(share, 0), 1);
  }, 0);
}
