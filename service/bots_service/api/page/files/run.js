// One run: whether selecting earns its keep, what is believed, what goes on.

import { activity } from "./activity.js";
import { actions } from "./actions.js";
import { element, fill } from "./dom.js";
import { compact, count, decimal, factor, percent } from "./format.js";
import { datasetHref, runHref } from "./overview.js";
import { runCharts } from "./run-charts.js";
import { recent, recentMean, rolloutsSaved, sums } from "./series.js";
import { get } from "./service.js";
import { tasksTable } from "./tasks.js";

const POINTS = 500;
const SETTLED_MS = 6000; // after a change: the service looks at the pool as a whole a little later
const OUTLOOKS = 240; // columns of the heat map: more than a chart of this width can show apart

/** Return the view of a run. */
export function showRun(dataset, run, caller) {
  const path = ["datasets", dataset, "runs", run];
  const tiles = element("dl", { class: "tiles" });
  const charts = runCharts();
  const tasks = tasksTable(path);
  const doings = activity(path);
  const acts = actions(path, caller);
  const heading = element(
    "div",
    { class: "heading wide" },
    element("h1", {}, run),
    element("span", { class: "grow" }),
    element("a", { class: "button", href: datasetHref(dataset) }, "Compare runs"),
    acts.node,
  );
  const node = element("div", { class: "grid" }, heading, tiles, ...charts.nodes, tasks.node, ...doings.nodes);
  let shown = "";
  let changedAt = 0;

  async function refresh() {
    const [now, row] = await Promise.all([get(path), get(["datasets", dataset])]);
    const version = `${now.epoch}.${now.seq}.${now.leased}.${now.created_at}`;
    if (version !== shown) changedAt = Date.now();
    if (Date.now() - changedAt < SETTLED_MS) {
      const [{ points }, { outlooks }, calibration] = await Promise.all([
        get([...path, "curve"], { points: POINTS }),
        get([...path, "outlooks"], { points: OUTLOOKS }),
        get([...path, "calibration"]),
      ]);
      fill(tiles, ...tilesOf(now, points, outlooks));
      charts.draw(now, points, outlooks, calibration);
      acts.refresh(now);
      shown = version;
    }
    await Promise.all([tasks.refresh(now, row), doings.refresh(now)]);
  }
  const trail = [
    { name: dataset, href: datasetHref(dataset) },
    { name: run, href: runHref(dataset, run) },
  ];
  return { node, trail, refresh };
}

function tilesOf(run, points, outlooks) {
  const { ratio, steps } = recent(points).at(-1) ?? { ratio: null, steps: 0 };
  const uniform = outlooks.at(-1)?.uniform_effective_task_ratio ?? null;
  const gain = ratio !== null && uniform ? ratio / uniform : null;
  const brier = recentMean(points, "brier");
  return [
    tile("Effective task ratio", percent(ratio), `last ${count(steps)} steps`, "lead"),
    tile("Times uniform", factor(gain), `uniform: ${percent(uniform)} expected`, "lead"),
    tile(
      "Rollouts saved",
      compact(rolloutsSaved(points, outlooks)),
      `beside ${compact(sums(points, "rollouts").at(-1))} spent; a cautious estimate`,
    ),
    tile("Step", count(run.step), run.epoch ? `${count(run.epoch)} times rewound` : `${run.settings.strategy}`),
    tile("Capability", decimal(run.capability, 2), "0 weakest, 1 strongest reference"),
    tile("Prediction error", decimal(brier), "Brier score; a coin has 0.250"),
    tile("In flight", count(run.leased), run.pending ? `${count(run.pending)} tasks of the open step` : "tasks"),
  ];
}

function tile(name, value, about, kind = "") {
  return element(
    "div",
    { class: `tile ${kind}` },
    element("dt", {}, name),
    element("dd", {}, value, element("span", { class: "soft" }, about)),
  );
}
