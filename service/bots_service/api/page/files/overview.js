// All runs of all datasets in one table, by one request a refresh. The service searches, sorts and pages them.

import { datasetHref, listing, newHref, overviewHref, runHref } from "./addresses.js";
import { welcome } from "./begin.js";
import { element, fill, isBeingRead, lines, pairs, searchField, soft, table } from "./dom.js";
import { bar, sparkline } from "./drawings.js";
import { evaluationCell } from "./evaluations.js";
import { UNKNOWN, ago, compact, count, percent, tellTimes } from "./format.js";
import { get } from "./service.js";
import { STATUS_NAMES, gainOf, statusMark, verdictMark } from "./verdict.js";

const PAGE = 50;
const COLUMNS = [
  { name: "Run", below: "dataset", sort: "name" },
  { name: "Verdict", sort: "-attention" },
  { name: "Effective task ratio", below: "last 50 steps; tick: uniform", sort: "-effective_task_ratio" },
  { name: "vs uniform", below: "all steps", sort: "-vs_uniform" },
  { name: "Evaluation", below: "vs baseline", sort: "-evaluation" },
  { name: "Trend", below: "last 50 steps" },
  { name: "Status" },
  { name: "Step", sort: "-step", number: true },
  { name: "Rollouts", sort: "-rollouts", number: true },
  { name: "Last step", sort: "-last_step" },
  { name: "Strategy", below: "belief" },
];

/** Return the view of everything. query: of its address. */
export function showOverview(query) {
  const usual = { search: "", status: "", attention: "", sort: "-attention" };
  const list = listing(query, usual, overviewHref, refresh);
  const search = searchField("Search datasets and runs", (text) => list.change({ search: text }, true));
  const totals = element("div");
  const chips = element("div", { class: "chips", role: "group", "aria-label": "Filter" });
  const rows = element("div");
  const content = element("div", { class: "stack" });
  const card = element(
    "section",
    { class: "card" },
    element("search", { class: "heading" }, search.node, chips, element("a", { href: newHref }, "New dataset")),
    rows,
    list.pager,
  );
  const node = element("div", {}, element("h1", { class: "unseen" }, "All runs"), content);
  let turn = 0; // raised by each request: an older one's answer is dropped
  let shown = "";

  async function refresh() {
    const mine = (turn += 1);
    const page = await get(["overview"], { ...list.asked, cursor: list.page.cursor, limit: PAGE });
    const version = JSON.stringify([page, list.asked, list.page]);
    if (mine === turn && version !== shown && !isBeingRead(rows)) {
      shown = version;
      if (page.totals.datasets) show(page);
      else fill(content, welcome());
    }
    tellTimes(rows);
  }

  function show(page) {
    if (!card.isConnected) fill(content, totals, card);
    search.show(list.asked.search);
    fill(totals, pairs("totals", totalsOf(page.totals)));
    fill(chips, chipsOf(list, page.totals));
    const order = { sort: list.asked.sort, sortBy: (sort) => list.change({ sort }) };
    const isShown = COLUMNS.map(({ name }) => name !== "Evaluation" || page.runs.some((run) => run.evaluation));
    const shownOf = (cells) => cells.filter((_, place) => isShown[place]);
    fill(rows, table("Runs", shownOf(COLUMNS), page.runs.map(rowOf).map(shownOf), order));
    list.show(page.runs.length, page.matching, page.next_cursor);
  }
  return { node, trail: [], refresh, follow: list.follow };
}

function totalsOf(totals) {
  const datasets = `of ${count(totals.datasets)} ${totals.datasets === 1 ? "dataset" : "datasets"}`;
  return [
    ["Runs", count(totals.runs), " ", soft(datasets)],
    ["Need attention", count(totals.attention)],
    ["Running", count(totals.running)],
    ["Stalled", count(totals.stalled)],
    ["Rollouts", compact(totals.rollouts)],
    [
      "Effective tasks",
      compact(totals.effective),
      totals.reported ? soft(` ${percent(totals.effective / totals.reported)} of reported`) : null,
    ],
  ];
}

/** Return the filters: those that need attention, and those of a status, each with its number of runs. */
function chipsOf({ asked, change }, totals) {
  const chip = (name, value, runs) => {
    const isPressed = asked[name] === value;
    const attributes = { type: "button", "data-name": value, "aria-pressed": String(isPressed) };
    const words = name === "attention" ? "needs attention" : value;
    const onclick = () => change({ [name]: isPressed ? "" : value });
    return element("button", { ...attributes, onclick }, words, soft(` ${count(runs)}`));
  };
  return [
    chip("attention", "true", totals.attention),
    ...STATUS_NAMES.map((name) => chip("status", name, totals[name])),
  ];
}

function rowOf(run) {
  const gain = gainOf(run);
  return [
    lines(
      element("a", { href: runHref(run.dataset, run.run) }, run.run),
      element("a", { href: datasetHref(run.dataset), "data-name": `${run.dataset} of ${run.run}` }, run.dataset),
    ),
    verdictMark(run.verdict),
    bar(run.effective_task_ratio, run.gain?.uniform_effective_task_ratio ?? null, "uniform sampling"),
    gain ? [gain.times, soft(` ${gain.how}`)] : run.strategy === "uniform" ? "baseline" : UNKNOWN,
    evaluationCell(run),
    sparkline(run.trend),
    statusMark(run.status),
    count(run.step),
    compact(run.rollouts),
    run.last_step_at === null ? "none yet" : ago(run.last_step_at),
    lines(run.strategy, run.belief),
  ];
}
