// How a run's visits spread over its pool: what the effective task ratio does not show.

import { SHARES, STEPS, chart } from "./charts.js";
import { count, decimal, percent } from "./format.js";
import { sums } from "./series.js";

/** Return the chart: {node, draw}. */
export function coverageChart(zoom) {
  const shares = chart(
    "Coverage",
    "The share of the tasks that the run has met so far, compared with a shuffled pass, and the share not met for a whole pass.",
    { zoom },
  );

  function draw(run, points, outlooks, marks) {
    const series = coursesOf(run, points, outlooks);
    return shares.draw({ x: STEPS, y: SHARES, series, marks, words: gistOf(run.coverage) });
  }
  return { node: shares.node, draw };
}

function coursesOf({ coverage, totals }, points, outlooks) {
  const tasks = Math.max(coverage.available_tasks, 1); // all may be retired
  const x = points.map((point) => point.last_step);
  const reported = sums(points, "reported");
  const before = totals.reported - (reported.at(-1) ?? 0); // by the run that this one was forked from
  const shuffled = reported.map((sum) => Math.min(1, (before + sum) / tasks));
  const met = points.map((point) => point.distinct_tasks / tasks);
  const known = outlooks.filter((outlook) => outlook.unmet_share !== null);
  const unmet = { x: known.map((outlook) => outlook.step), y: known.map((outlook) => outlook.unmet_share) };
  return [
    { name: "not met for a whole pass", ...unmet, paint: "third", dash: "dot" },
    { name: "a shuffled pass", x, y: shuffled, paint: "other", dash: "dash" },
    { name: "this run", x, y: met, paint: "accent", width: 3 },
  ];
}

/** Return in words what is known of a run's coverage. */
function gistOf(coverage) {
  if (!coverage.distinct_tasks) return "No task has been reported yet.";
  const said = [
    `${count(coverage.distinct_tasks)} different tasks, ${decimal(coverage.mean_visits, 1)} visits each, at most ${count(coverage.most_visits)}.`,
    `The most visited tenth took ${percent(coverage.top_tenth_share)} of all visits.`,
  ];
  if (coverage.unmet_share !== null)
    said.push(
      `In the last ${count(coverage.pass_steps)} steps, enough for a whole pass, ${percent(coverage.unmet_share)} of the tasks were not met.`,
    );
  if (coverage.pass_share !== null)
    said.push(`${count(coverage.passes_done)} passes done, ${percent(coverage.pass_share)} of the present one.`);
  return said.join(" ");
}
