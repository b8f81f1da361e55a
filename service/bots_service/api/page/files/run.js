// One run: what selecting gains, the belief, and the current activity.

import { activity } from "./activity.js";
import { actions } from "./actions.js";
import { beliefComparison } from "./beliefs.js";
import { element, fill, say } from "./dom.js";
import { compact, count, decimal, factor, percent } from "./format.js";
import { datasetHref, runHref } from "./overview.js";
import { capabilityWords, runCharts } from "./run-charts.js";
import { baselineOf, calibrationError, measuredGain, modelledGain, recent } from "./series.js";
import { get } from "./service.js";
import { tasksTable } from "./tasks.js";

const POINTS = 500;
const SETTLED_MS = 6000; // after a change: the service looks at the pool as a whole a little later
const OUTLOOKS = 240; // columns of the heat map: more than a chart of this width can show apart

/** Return the view of a run. */
export function showRun(dataset, run, caller) {
  const path = ["datasets", dataset, "runs", run];
  const tiles = element("dl", { class: "tiles" });
  const advice = element("div", { class: "wide", role: "note", "aria-label": "Advice", hidden: true });
  const narrow = element("p", { class: "warning wide", role: "note", "aria-label": "Coverage", hidden: true });
  const charts = runCharts();
  const tasks = tasksTable(path);
  const beliefs = beliefComparison(path);
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
  const cards = [...charts.nodes, tasks.node, beliefs.node, ...doings.nodes];
  const node = element("div", { class: "grid" }, heading, narrow, advice, tiles, ...cards);
  let shown = "";
  let changedAt = 0;

  async function refresh() {
    const [now, row, { runs }] = await Promise.all([
      get(path),
      get(["datasets", dataset]),
      get(["datasets", dataset, "runs"], { limit: 100 }),
    ]);
    const baseline = baselineOf(now, runs);
    const version = `${now.epoch}.${now.seq}.${now.leased}.${now.created_at}.${baseline?.seq}`;
    if (version !== shown) changedAt = Date.now();
    if (Date.now() - changedAt < SETTLED_MS) {
      const [{ points }, { outlooks }, calibration, uniform] = await Promise.all([
        get([...path, "curve"], { points: POINTS }),
        get([...path, "outlooks"], { points: OUTLOOKS }),
        get([...path, "calibration"]),
        baseline && get(["datasets", dataset, "runs", baseline.run, "curve"], { points: POINTS }),
      ]);
      const measured = uniform && { name: baseline.run, points: uniform.points };
      narrow.hidden = !now.coverage.narrow;
      say(narrow, now.coverage.reason ?? "");
      advice.hidden = !now.advice.length;
      fill(advice, ...now.advice.map((text) => element("p", { class: "soft" }, text)));
      fill(tiles, ...tilesOf(now, row, { points, outlooks, calibration, measured }));
      charts.draw(now, row, { points, outlooks, calibration, measured });
      acts.refresh(now);
      beliefs.refresh(now);
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

function tilesOf(run, { reference_models: models }, { points, outlooks, calibration, measured }) {
  const { coverage } = run;
  const { ratio, steps } = recent(points).at(-1) ?? { ratio: null, steps: 0 };
  return [
    tile("Effective task ratio", percent(ratio), `last ${count(steps)} steps`, "lead"),
    ...(run.settings.strategy === "uniform" ? [] : gains(points, outlooks, measured)),
    tile("Tasks met", percent(coverage.reached_share), tasksMet(coverage)),
    tile("Step", count(run.step), run.epoch ? `${count(run.epoch)} times rewound` : `${run.settings.strategy}`),
    "ability" in run.estimates
      ? tile("Ability", decimal(run.estimates.ability, 2), "logits, by the tracker")
      : tile("Capability", decimal(run.capability, 2), capabilityWords(models)),
    tile(
      "Calibration error",
      decimal(calibrationError(calibration)),
      `of predicted success rates, last ${count(calibration.steps)} steps`,
    ),
    tile("In flight", count(run.leased), run.pending ? `${count(run.pending)} tasks of the open step` : "tasks"),
  ];
}

const tasksMet = ({ distinct_tasks: met, available_tasks: all }) => `${count(met)} different, ${count(all)} available`;

/** Return what selecting gained: measured against a run that samples uniformly if there is one, otherwise estimated. */
function gains(points, outlooks, measured) {
  const { times, saved, spent, steps } = measured
    ? measuredGain(points, measured.points)
    : modelledGain(points, outlooks);
  const how = measured
    ? `measured: run ${measured.name}, ${count(steps)} steps`
    : "conservative; no run samples uniformly";
  return [
    tile(measured ? "vs uniform" : "vs uniform (estimate)", factor(times), how, "lead"),
    tile("Rollouts saved", compact(saved), `of ${compact(spent)} rollouts (${measured ? "measured" : "conservative"})`),
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
