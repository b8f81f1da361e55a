// One dataset: its runs compared.

import { datasetHref, listing, runHref } from "./addresses.js";
import { connect } from "./begin.js";
import { ROLLOUTS, SHARES, STEPS, chart } from "./charts.js";
import { COLUMNS, MOST, baselineOf, firstOf, headline, rowOf, toggled } from "./compare.js";
import { card, element, fill, isBeingRead, say, searchField, table } from "./dom.js";
import { styleOf } from "./drawings.js";
import { evaluationChart, evaluationHeadline } from "./evaluations.js";
import { UNKNOWN, compact, count, percent } from "./format.js";
import { RECENT, recentRatios, stepsOf, sums } from "./series.js";
import { get } from "./service.js";
import { written } from "./settings.js";
import { doubtOf } from "./verdict.js";

const LISTED = 200; // runs; the search finds the others
const POINTS = 500;

/** Return the view of a dataset. query: run, a place each; baseline and search; without runs the newest ones are compared. */
export function showDataset(dataset, query) {
  const usual = { run: [], baseline: "", search: "" };
  const list = listing(query, usual, (asked) => datasetHref(dataset, asked), refresh);
  const search = searchField("Search runs", (text) => list.change({ search: text }, true));
  const facts = element("p", { class: "soft" });
  const [result, numbers, settings] = ["result", "bounded", "wide"].map((name) => element("div", { class: name }));
  const status = element("p", { class: "soft", role: "status" });
  const ratios = chart(
    "Effective task ratio",
    `The share of tasks whose rollouts got different rewards, over the last ${RECENT} steps.`,
  );
  const found = chart("Effective tasks found", "Effective tasks by rollouts spent: the steeper, the better.");
  const evaluated = evaluationChart();
  const begin = element("div", { class: "wide" }); // how to connect a trainer, until the first step of any run
  const courses = new Map(); // run -> {version, run, points, calibration, evaluations}
  let begun = []; // the runs that are compared while nobody has chosen any
  let shown = "";
  let turn = 0;

  async function refresh() {
    const mine = (turn += 1);
    const { search: text, run: asked, baseline: pinned } = list.asked;
    search.show(text);
    const page = await get(["overview"], { dataset, search: text, sort: "-last_step", limit: LISTED });
    const version = JSON.stringify([page.runs.map(lasting), list.asked]);
    if (version === shown || mine !== turn) return;
    if (!asked.length) begun = [...new Set([...begun, ...firstOf(page.runs)])].slice(0, MOST);
    const places = (asked.length ? asked : begun).slice(0, MOST);
    const [known, chosen] = await Promise.all([
      get(["datasets", dataset]),
      summaries(dataset, places.filter(Boolean), page.runs),
    ]);
    const compared = await Promise.all(chosen.map((summary) => course(summary, places.indexOf(summary.run))));
    if (mine !== turn) return;
    const other = baselineOf(chosen, pinned);
    say(facts, factsOf(known));
    const isNew = !text && page.runs.every(({ step }) => step === 0);
    for (const { node } of [ratios, found]) node.hidden = isNew;
    if (!isNew) fill(begin);
    else if (!begin.hasChildNodes()) fill(begin, connect(dataset, page.runs[0]?.run ?? "default", known.tasks));
    fill(result, isNew ? [] : [evaluationHeadline(chosen), headline(chosen)]);
    draw(compared, other?.run);
    if (isBeingRead(numbers)) return;
    const baseline = other && { name: other.run, points: compared.find(({ summary }) => summary === other).points };
    const on = {
      toggle: (name) => list.change({ run: toggled(places, name) }),
      pin: (name) => list.change({ run: places, baseline: name }),
      isFull: chosen.length === MOST,
    };
    const rest = page.runs.filter(({ run }) => !places.includes(run)).map((summary) => rowOf(summary, null, null, on));
    const rows = compared.map((one) => rowOf(one.summary, one, baseline, on));
    fill(numbers, table("Comparison of runs", COLUMNS, [...rows, ...rest]));
    fill(settings, ...settingsOf(compared));
    say(status, sentences(chosen.length, page, other?.run).join(" "));
    shown = version;
  }

  /** Return what charts and table show of a compared run. It is asked for again once the run has changed. */
  async function course(summary, place) {
    const path = ["datasets", dataset, "runs", summary.run];
    const version = JSON.stringify([summary.created_at, summary.epoch, summary.seq, summary.evaluation]);
    if (courses.get(summary.run)?.version !== version) {
      const [run, { points }, calibration, { evaluations }] = await Promise.all([
        get(path),
        get([...path, "curve"], { points: POINTS }),
        get([...path, "calibration"]),
        summary.evaluation ? get([...path, "summary"]) : {},
      ]);
      courses.set(summary.run, { version, run, points, calibration, evaluations });
    }
    return { place, summary, ...courses.get(summary.run) };
  }

  function draw(compared, baseline) {
    const drawn = compared.filter(({ points }) => points.length);
    const series = (x, y) =>
      drawn.map(({ summary, place, points }) => ({ name: summary.run, x: x(points), y: y(points), ...styleOf(place) }));
    ratios.draw({
      x: STEPS,
      y: SHARES,
      series: series(stepsOf, recentRatios),
      words: best(drawn, baseline, recentRatios, percent),
    });
    evaluated.draw(
      compared.map(({ summary, place, points, evaluations }) => {
        return { run: summary.run, evaluations, points, ...styleOf(place) };
      }),
    );
    found.draw({
      x: ROLLOUTS,
      y: { name: "effective tasks", format: compact },
      series: series((points) => sums(points, "rollouts"), effective),
      words: best(drawn, baseline, effective, compact),
    });
  }

  const node = element(
    "div",
    { class: "grid" },
    element("div", { class: "wide" }, element("h1", {}, dataset), facts, result),
    begin,
    element("div", { class: "wide" }, card("Runs", search.node, status, numbers)),
    ratios.node,
    found.node,
    evaluated.node,
    settings,
  );
  return { node, trail: [[dataset, datasetHref(dataset)]], refresh, follow: list.follow };
}

const effective = (points) => sums(points, "effective");

/** Return a run's summary without what time alone changes: an idle tab asks once a refresh. */
const lasting = (run) => ({ ...run, status: null, verdict: run.verdict.kind });

/** Return the summaries of runs; those that the list does not have are asked for, and one that is deleted is left out. */
async function summaries(dataset, names, listed) {
  const asked = (name) =>
    get(["datasets", dataset, "runs", name, "summary"]).catch((error) => {
      if (error.status !== 404) throw error;
      return null;
    });
  const found = await Promise.all(names.map((name) => listed.find(({ run }) => run === name) ?? asked(name)));
  return found.filter((summary) => summary !== null);
}

function sentences(chosen, { runs, matching }, baseline) {
  return [
    chosen === MOST
      ? `Comparing ${MOST} of ${MOST}. Deselect one to add another.`
      : `Comparing ${chosen} of at most ${MOST} runs.`,
    runs.length < matching
      ? `Listed are ${count(runs.length)} of ${count(matching)}; the search finds the others.`
      : "",
    matching > 1 ? `There are ${count(matching)} runs.` : "",
    "Numbers are over all steps unless they say otherwise.",
    chosen > 1 ? `Difference: from ${baseline}, in percentage points, over the steps that both runs have closed.` : "",
  ];
}

function factsOf({ tasks, profiles, reference_models: models, tags, description }) {
  const parts = [
    [tasks, "task"],
    [models.length && profiles, "profile", " of pass rates"],
    [Object.keys(tags).length, "tag"],
  ];
  const numbers = parts
    .filter(([number]) => number)
    .map(([number, name, of = ""]) => `${count(number)} ${name}${number === 1 ? "" : "s"}${of}`);
  return `${numbers.join(", ")}. ${description}`;
}

/** Return the settings that tell the runs apart, a column each. */
function settingsOf(compared) {
  const every = compared.map(({ run }) => run.settings);
  const names = [...new Set(every.flatMap((settings) => Object.keys(settings)))];
  const differ = names.filter(
    (name) => new Set(every.map((settings) => JSON.stringify(settings[name] ?? null))).size > 1,
  );
  if (!differ.length) return [];
  const columns = [{ name: "Run" }, ...differ.map((name) => ({ name: name.replaceAll("_", " ") }))];
  const rows = compared.map(({ run }) => [
    element("a", { href: runHref(run.dataset, run.run) }, run.run),
    ...differ.map((name) => (name in run.settings ? written(run.settings[name]) : UNKNOWN)),
  ]);
  return [card("Settings that differ", null, table("Settings of the compared runs", columns, rows))];
}

/** Say which run ends highest, and where the baseline does. values: of a run's points. */
function best(drawn, baseline, values, format) {
  const ends = drawn
    .map(({ summary, points }) => ({ summary, end: values(points).at(-1) }))
    .filter(({ end }) => end !== null);
  if (!ends.length) return "No run with a closed step is selected.";
  const [highest] = ends.toSorted((one, other) => other.end - one.end);
  const other = ends.find(({ summary }) => summary.run === baseline);
  const rest = other && other !== highest ? `; baseline ${baseline}: ${format(other.end)}` : "";
  const doubt = doubtOf(highest.summary) === null ? "" : " (not healthy)";
  return `Highest at its end: ${highest.summary.run}${doubt}, ${format(highest.end)}${rest}.`;
}
