// One run: how it does, what selecting gains, its charts, tags and tasks, its history and settings.

import { datasetHref, runHref } from "./addresses.js";
import { connect } from "./begin.js";
import { ask, card, element, fill, pairs, say } from "./dom.js";
import { UNKNOWN, count, moment, precise, tellTimes } from "./format.js";
import { runCharts } from "./run-charts.js";
import { historyCard, marksOf, runNumbers, tagsCard } from "./run-panels.js";
import { segmentLinks } from "./segments.js";
import { RECENT } from "./series.js";
import { get, send } from "./service.js";
import { written } from "./settings.js";
import { helpLink, verdictLine } from "./verdict.js";

const POINTS = 500;
const SETTLED_MS = 6000; // after a change: the service looks at the pool as a whole a little later
const CHANGES = ["rewind", "settings"];
const MOST_CHANGES = 100;

/** Return the view of a run. caller: who looks. */
export function showRun(dataset, run, caller) {
  const path = ["datasets", dataset, "runs", run];
  const [verdict, numbers, charts, acts] = [verdictLine(), runNumbers(), runCharts(), actions(path, caller)];
  const [tags, tasks, settings] = Array.from({ length: 3 }, () => element("div", { class: "wide" }));
  const side = element("div", { class: "stack" });
  const begin = element("div", { class: "wide" }); // how to connect a trainer, until the first step
  const heading = element(
    "div",
    { class: "heading wide" },
    element("h1", {}, run),
    element("a", { href: datasetHref(dataset) }, "Compare runs"),
    acts.node,
  );
  const node = element(
    "div",
    { class: "grid" },
    heading,
    verdict.node,
    begin,
    numbers.node,
    charts.nodes,
    side,
    tags,
    tasks,
    settings,
  );
  let found = null;
  let shown = "";
  let changedAt = 0;

  async function refresh() {
    const summary = await get([...path, "summary"]);
    verdict.show(summary.verdict);
    numbers.show(summary, found);
    const { epoch, seq, created_at: created, evaluations } = summary;
    const version = JSON.stringify([epoch, seq, created, evaluations]);
    if (version !== shown) changedAt = Date.now();
    if (Date.now() - changedAt <= SETTLED_MS) {
      found = await all(path, summary);
      numbers.show(summary, found);
      for (const chart of charts.nodes) chart.hidden = summary.step === 0;
      side.classList.toggle("wide", summary.step === 0);
      if (summary.step) fill(begin);
      else if (!begin.hasChildNodes()) fill(begin, connect(dataset, run, found.run.coverage.available_tasks));
      charts.draw(summary, found);
      acts.refresh(found.run);
      fill(tags, tagsCard(found.tags, found.run.mix));
      fill(tasks, segmentLinks(dataset, run, found.segments));
      fill(side, historyCard(path, found.changes, caller), estimatesCard(found.run));
      fill(settings, settingsCard(found.run));
    }
    tellTimes(node);
    shown = version;
  }
  const trail = [
    [dataset, datasetHref(dataset)],
    [run, runHref(dataset, run)],
  ];
  return { node, trail, refresh };
}

/** Return all that the view shows below its numbers. */
async function all(path, { gain, evaluation }) {
  const other = gain?.baseline ?? null;
  const [run, { points }, calibration, uniform, evaluated, tags, { segments }, { entries }] = await Promise.all([
    get(path),
    get([...path, "curve"], { points: POINTS }),
    get([...path, "calibration"]),
    other && get([...path.slice(0, 3), other, "curve"], { points: POINTS }),
    evaluation?.baseline ? baselineOf([...path.slice(0, 3), evaluation.baseline]) : null,
    get([...path, "tags"], { steps: RECENT }),
    get([...path, "tasks"], { limit: 1 }),
    get([...path, "journal"], { kind: CHANGES, limit: MOST_CHANGES }),
  ]);
  const marks = marksOf(entries);
  return {
    run,
    points,
    calibration,
    uniform: uniform?.points ?? null,
    evaluated,
    tags,
    segments,
    changes: entries,
    marks,
  };
}

/** Return the run that a run's evaluations are compared with, as a chart draws it. */
async function baselineOf(path) {
  const [{ evaluations }, { points }] = await Promise.all([
    get([...path, "summary"]),
    get([...path, "curve"], { points: POINTS }),
  ]);
  return { run: path.at(-1), evaluations, points };
}

/** Return the action on a run: rewind to an earlier step. It needs a key with the scope for it. */
function actions(path, { scopes }) {
  const status = element("span", { role: "status", class: "soft" });
  const mayNot = !scopes.includes("admin") && !scopes.includes("report");
  const denied = {
    type: "button",
    disabled: true,
    title: mayNot ? "Your key is read-only: this needs the scope report." : null,
  };
  const rewind = element("button", denied, "Rewind…");
  let last = null; // the step that the run is at

  rewind.addEventListener("click", () => {
    const step = element("input", { id: "to-step", type: "number", min: "0", max: last, required: true });
    ask({
      title: "Rewind this run",
      text: "Restores the belief of an earlier step. Use it when the trainer resumes from its own checkpoint. The journal keeps all entries. Reports on selections from before the rewind will be rejected.",
      action: "Rewind",
      fields: [element("label", { for: "to-step" }, `Rewind to step (0 to ${count(last)})`), step],
      act: async () => {
        const run = await send([...path, "rewind"], { step: step.valueAsNumber });
        say(status, `Now at step ${count(run.step)}.`);
      },
    });
  });

  const refresh = (run) => {
    last = run.step;
    rewind.disabled = mayNot;
  };
  return { node: element("span", { class: "chips" }, status, rewind), refresh };
}

function estimatesCard({ estimates }) {
  const names = Object.entries(estimates).map(([name, value]) => [name.replaceAll("_", " "), precise(value)]);
  return card(
    "Estimates",
    helpLink("estimates", "What they mean"),
    names.length ? pairs("pairs", names) : element("p", { class: "soft" }, UNKNOWN),
  );
}

function settingsCard({ settings, forked_from: parent, created_at: created }) {
  const names = Object.entries(settings).map(([name, value]) => [element("code", {}, name), written(value)]);
  const origin = parent ? `Fork of ${parent.run}, step ${count(parent.step)}. ` : "";
  return card(
    "Settings",
    null,
    pairs("pairs", names),
    element("p", { class: "soft" }, `${origin}Created ${moment(created)}.`),
  );
}
