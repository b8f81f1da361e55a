// One run: how it does, what selecting gains, the belief, and the current activity.

import { activity } from "./activity.js";
import { actions } from "./actions.js";
import { datasetHref, runHref } from "./addresses.js";
import { element, fill } from "./dom.js";
import { tellTimes, unbroken } from "./format.js";
import { marksOf } from "./marks.js";
import { runCharts } from "./run-charts.js";
import { runNumbers } from "./run-numbers.js";
import { tagsPanel } from "./run-tags.js";
import { RECENT } from "./series.js";
import { get } from "./service.js";
import { tasksSummary } from "./tasks-summary.js";
import { verdictLine } from "./verdict.js";

const POINTS = 500;
const SETTLED_MS = 6000; // after a change: the service looks at the pool as a whole a little later
const OUTLOOKS = 240; // columns of the heat map: more than a chart of this width can show apart

/** Return the view of a run. */
export function showRun(dataset, run, caller) {
  const path = ["datasets", dataset, "runs", run];
  const parts = {
    verdict: verdictLine(),
    numbers: runNumbers(),
    charts: runCharts(),
    tags: tagsPanel(),
    tasks: tasksSummary(dataset, run),
    doings: activity(path),
    acts: actions(path, caller),
    advice: element("div", { class: "wide", role: "note", "aria-label": "Advice", hidden: true }),
  };
  const node = layout(dataset, run, parts);
  let found = null;
  let shown = "";
  let changedAt = 0;

  async function refresh() {
    const summary = await get([...path, "summary"]);
    parts.verdict.show(summary.verdict);
    parts.numbers.show(summary, found);
    tellTimes(node);
    const version = `${summary.epoch}.${summary.seq}.${summary.created_at}`;
    if (version !== shown) changedAt = Date.now();
    if (Date.now() - changedAt <= SETTLED_MS) {
      found = await all(path, summary);
      parts.numbers.show(summary, found);
      parts.charts.draw(summary, found);
      show(parts, found);
      await parts.tasks.refresh(found.run);
    }
    await parts.doings.refresh({ ...found.run, leased: summary.leased });
    shown = version;
  }
  const trail = [
    { name: dataset, href: datasetHref(dataset) },
    { name: run, href: runHref(dataset, run) },
  ];
  return { node, trail, refresh };
}

function layout(dataset, run, { verdict, numbers, charts, tags, tasks, doings, acts, advice }) {
  const heading = element(
    "div",
    { class: "heading wide" },
    element("h1", {}, run),
    element("span", { class: "grow" }),
    element("a", { class: "button", href: datasetHref(dataset) }, "Compare runs"),
    acts.node,
  );
  const top = [heading, verdict.node, ...numbers.nodes, advice];
  return element("div", { class: "grid" }, top, charts.nodes, tags.node, tasks.node, doings.nodes);
}

/** Return all that the view shows below its numbers. */
async function all(path, { gain }) {
  const [namespace, dataset] = path;
  const baseline = gain?.baseline ?? null;
  const [run, row, { points }, { outlooks }, calibration, uniform, tags, marks] = await Promise.all([
    get(path),
    get([namespace, dataset]),
    get([...path, "curve"], { points: POINTS }),
    get([...path, "outlooks"], { points: OUTLOOKS }),
    get([...path, "calibration"]),
    baseline && get([namespace, dataset, "runs", baseline, "curve"], { points: POINTS }),
    get([...path, "tags"], { steps: RECENT }),
    marksOf(path),
  ]);
  return { run, row, points, outlooks, calibration, uniform: uniform?.points ?? null, tags, marks };
}

function show({ tags, acts, advice }, found) {
  tags.show(found.tags, found.run.mix);
  acts.refresh(found.run);
  advice.hidden = !found.run.advice.length;
  fill(advice, ...found.run.advice.map((text) => element("p", { class: "soft" }, unbroken(text))));
}
