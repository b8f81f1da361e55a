// One dataset: its runs side by side.

import { comparisonCharts } from "./comparison.js";
import { element, fill, table } from "./dom.js";
import { count, decimal, percent } from "./format.js";
import { datasetHref, runHref } from "./overview.js";
import { RECENT, calibrationError, recentRatios } from "./series.js";
import { get } from "./service.js";

const MOST = 8; // runs at a time: as many as colours can tell apart
const POINTS = 500;
const COLUMNS = [
  { name: "Run" },
  { name: "Strategy" },
  { name: "Steps", number: true },
  { name: "Effective task ratio", number: true },
  { name: `Last ${RECENT} steps`, number: true },
  { name: "Effective tasks", number: true },
  { name: "Rollouts", number: true },
  { name: "Success rate", number: true },
  { name: "Calibration error", number: true },
];

/** Return the view of a dataset. query: run, as often as there are runs to compare; without it the first ones. */
export function showDataset(dataset, query) {
  let chosen = query.getAll("run");
  const charts = comparisonCharts();
  const facts = element("p", { class: "soft" });
  const runs = element("section", { class: "card wide" });
  const heading = element("div", { class: "wide" }, element("h1", {}, dataset), facts);
  const node = element("div", { class: "grid" }, heading, charts.nodes, runs);
  let shown = "";

  /** Compare other runs, under an address of their own; the view stays. */
  function choose(names) {
    chosen = names;
    shown = "";
    history.replaceState(
      null,
      "",
      `${datasetHref(dataset)}?${new URLSearchParams(names.map((name) => ["run", name]))}`,
    );
    refresh().catch(() => {}); // the next one tells
  }

  async function refresh() {
    const [row, page] = await Promise.all([
      get(["datasets", dataset]),
      get(["datasets", dataset, "runs"], { limit: 100 }),
    ]);
    const version = JSON.stringify(page.runs.map((run) => [run.run, run.epoch, run.seq, run.created_at]));
    if (version === shown) return;
    const used = page.runs.filter((run) => run.step > 0);
    const picked = chosen.length ? page.runs.filter((run) => chosen.includes(run.run)) : used.slice(0, MOST);
    const courses = await Promise.all(picked.map((run) => course(run)));
    fill(facts, factsOf(row));
    charts.draw(courses);
    fill(runs, ...chooser(page, picked, choose), inNumbers(courses));
    shown = version;
  }
  return { node, trail: [{ name: dataset, href: datasetHref(dataset) }], refresh };
}

async function course(run) {
  const path = ["datasets", run.dataset, "runs", run.run];
  const [{ points }, calibration] = await Promise.all([
    get([...path, "curve"], { points: POINTS }),
    get([...path, "calibration"]),
  ]);
  return { run, points, calibration };
}

function factsOf({ tasks, profiles, tags, description }) {
  const numbers = [
    `${count(tasks)} tasks`,
    `${count(profiles)} profiles of pass rates`,
    `${count(Object.keys(tags).length)} tags`,
  ];
  return `${numbers.join(", ")}. ${description}`;
}

function chooser({ runs, next_cursor: more }, picked, choose) {
  const boxes = runs.map((run) => {
    const box = element("input", { type: "checkbox", name: "run", value: run.run, checked: picked.includes(run) });
    return element("label", { class: "choice" }, box, run.run);
  });
  const form = element("fieldset", { class: "choices" }, element("legend", {}, "Compare"), boxes);
  form.addEventListener("change", () => {
    choose([...form.querySelectorAll("input:checked")].map((box) => box.value));
  });
  const rest = more ? element("p", { class: "soft" }, `The first ${runs.length} runs by name; there are more.`) : null;
  return [element("h2", {}, "Runs"), runs.length > 1 ? form : null, rest];
}

function inNumbers(courses) {
  const rows = courses.map(({ run, points, calibration }) => [
    element("a", { href: runHref(run.dataset, run.run) }, run.run),
    run.settings.strategy,
    count(run.step),
    percent(run.totals.reported ? run.totals.effective / run.totals.reported : null),
    percent(recentRatios(points).at(-1)),
    count(run.totals.effective),
    count(run.totals.rollouts),
    decimal(run.totals.rollouts ? run.totals.successes / run.totals.rollouts : null),
    decimal(calibrationError(calibration)),
  ]);
  const label = "Comparison of runs";
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": label };
  return element("div", region, table(label, COLUMNS, rows));
}
