// All datasets, and how their runs do.

import { element, fill, isBeingRead } from "./dom.js";
import { ago, count, factor, percent, tellTimes } from "./format.js";
import { get } from "./service.js";
import { sparkline } from "./sparkline.js";
import { baselineOf, measuredGain, modelledGain, recentRatios } from "./series.js";

const MOST = 100; // datasets, and runs of each
const POINTS = 60; // of a sparkline
const LOOKED_MS = 10000; // after a step: the estimate for uniform sampling is known by then, or not at all
const EMPTY = "nothing yet";

export const runHref = (dataset, run) => `#/datasets/${encodeURIComponent(dataset)}/runs/${encodeURIComponent(run)}`;
export const datasetHref = (dataset) => `#/datasets/${encodeURIComponent(dataset)}`;

const COLUMNS = [
  { name: "Run" },
  { name: "Effective task ratio", number: true },
  { name: "vs uniform", number: true },
  { name: "Trend" },
  { name: "Step", number: true },
  { name: "In flight", number: true },
  { name: "Last step" },
  { name: "Strategy" },
];

/** Return the view of everything. */
export function showOverview() {
  const list = element("div", { class: "stack" });
  const latest = courses();
  let shown = "";
  const node = element("div", {}, element("h1", { class: "unseen" }, "Datasets and runs"), list);

  async function refresh() {
    const { datasets, next_cursor: more } = await get(["datasets"], { limit: MOST });
    const runs = await Promise.all(datasets.map((dataset) => get(["datasets", dataset.name, "runs"], { limit: MOST })));
    if (!datasets.length) {
      if (shown !== EMPTY) fill(list, welcome());
      shown = EMPTY;
      return;
    }
    const known = new Map(await Promise.all(runs.flatMap((page) => page.runs).map((run) => latest.of(run))));
    const version = JSON.stringify([datasets, runs, ...known]);
    if (version !== shown && !isBeingRead(list)) {
      const cards = datasets.map((dataset, place) => card(dataset, runs[place], known));
      fill(list, ...cards, more && soft(`The first ${MOST} datasets by name; there are more.`));
      shown = version;
    }
    tellTimes(list);
  }
  return { node, trail: [], refresh };
}

/** Return what is known of runs' courses: {of}. A run's is asked for again when its step changed. */
function courses() {
  const known = new Map(); // run -> {version, points, outlooks}

  async function of(run) {
    const name = nameOf(run);
    const version = `${run.epoch}.${run.step}.${run.created_at}`;
    const had = known.get(name);
    const isSame = had?.version === version;
    if (isSame && (had.outlooks.length || Date.now() - had.since > LOOKED_MS)) return [name, had];
    const since = isSame ? had.since : Date.now();
    known.set(name, { version, since, ...(await course(run).catch(gone)) });
    return [name, known.get(name)];
  }
  return { of };
}

const NOTHING = { points: [], outlooks: [] };

/** A run that was deleted meanwhile is shown as nothing, and not at all the next time. */
function gone(error) {
  if (error.status !== 404) throw error;
  return NOTHING;
}

async function course(run) {
  if (run.step === 0) return NOTHING;
  const path = ["datasets", run.dataset, "runs", run.run];
  const [{ points }, { outlooks }] = await Promise.all([
    get([...path, "curve"], { points: POINTS }),
    get([...path, "outlooks"], { points: POINTS }),
  ]);
  return { points, outlooks };
}

const nameOf = (run) => `${run.dataset}/${run.run}`;

const soft = (text) => element("p", { class: "soft" }, text);

function card(dataset, { runs, next_cursor: more }, known) {
  const used = runs.filter((run) => run.seq > 0 || runs.length === 1);
  const title = element("h2", {}, element("a", { href: datasetHref(dataset.name) }, dataset.name));
  const facts = `${count(dataset.tasks)} tasks, ${count(dataset.reference_models.length)} reference models`;
  return element(
    "section",
    { class: "card" },
    element("div", { class: "heading" }, title, element("span", { class: "soft" }, facts)),
    dataset.description ? soft(dataset.description) : null,
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `Runs of ${dataset.name}` },
      runsTable(used, known),
    ),
    more && soft(`The first ${MOST} runs by name; there are more.`),
  );
}

function runsTable(runs, known) {
  const rows = runs.map((run) => cells(run, known.get(nameOf(run)), gainOf(run, runs, known)));
  const head = element(
    "tr",
    {},
    COLUMNS.map((column) => element("th", { scope: "col", class: column.number ? "number" : null }, column.name)),
  );
  return element("table", {}, element("thead", {}, head), element("tbody", {}, rows));
}

/** Return how many times as many effective tasks as uniform sampling a run found, and how that is known. */
function gainOf(run, runs, known) {
  if (run.settings.strategy === "uniform") return { times: null, how: "the baseline" };
  const baseline = baselineOf(run, runs);
  const { points, outlooks } = known.get(nameOf(run));
  return baseline
    ? { ...measuredGain(points, known.get(nameOf(baseline)).points), how: `measured by run ${baseline.run}` }
    : { ...modelledGain(points, outlooks), how: "conservative estimate" };
}

function cells(run, { points }, { times, how }) {
  const number = { class: "number" };
  const ratios = recentRatios(points);
  const ratio = ratios.at(-1) ?? null;
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, element("a", { href: runHref(run.dataset, run.run) }, run.run)),
    element("td", number, percent(ratio)),
    element("td", { ...number, title: how }, factor(times)),
    element("td", {}, sparkline(ratios)),
    element("td", number, count(run.step)),
    element("td", number, count(run.leased)),
    element("td", { class: "soft" }, points.length ? ago(points.at(-1).time) : "none yet"),
    element("td", {}, run.settings.strategy),
  );
}

function welcome() {
  const home = new URL(".", location.href).href.replace(/\/$/, "");
  return element(
    "section",
    { class: "card welcome" },
    element("h2", {}, "No dataset yet"),
    element("p", {}, "Import a dataset and train on it, or watch BOTS select the tasks of a recorded training run:"),
    element(
      "pre",
      {},
      `bots demo --url ${home}\nbots datasets import problems.csv --name problems --id problem --url ${home}`,
    ),
    element("p", {}, "It appears on this page automatically."),
  );
}
