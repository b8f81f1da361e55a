// One dataset: its runs compared.

import { datasetHref, remember } from "./addresses.js";
import { chooser } from "./compare-chooser.js";
import { baselineOf, chosenOf, firstPlaces, MOST, placesOf, withRun, withRuns, withoutRun } from "./compare-choice.js";
import { comparisonTable, headline, settingsTable } from "./compare-table.js";
import { comparisonCharts } from "./comparison.js";
import { element, fill, isBeingRead } from "./dom.js";
import { count } from "./format.js";
import { get } from "./service.js";

const LISTED = 200; // runs; the filter finds the others
const POINTS = 500;

/** Return the view of a dataset. asked: run, a place each, baseline and search; without runs the newest ones. */
export function showDataset(dataset, asked) {
  const parts = frame(dataset, { toggle, pin, filter, all, none });
  const courses = new Map(); // run -> {version, run, points, calibration}
  let isChosen = asked.has("run"); // otherwise runs join once they have closed a step
  let places = placesOf(asked);
  const homes = new Map(); // run -> the last place that it had, and so its colour
  let baseline = null; // the name of the run that others are compared with
  let pinned = asked.get("baseline") ?? "";
  let search = asked.get("search") ?? "";
  let note =
    asked.getAll("run").length > MOST ? `The address names more than ${MOST} runs; the first ones are shown.` : "";
  let shown = "";
  let isWhole = false; // whether the list has all runs, so that the page can filter it
  let turn = 0;

  async function refresh() {
    const mine = (turn += 1);
    const wanted = { dataset, search: isWhole ? "" : search, sort: "-last_step", limit: LISTED };
    const [page, known] = await Promise.all([get(["overview"], wanted), shown ? null : get(["datasets", dataset])]);
    if (versionOf(page) === shown) return;
    const facts = known ?? (await get(["datasets", dataset]));
    if (mine !== turn) return;
    isWhole = page.next_cursor === null && (isWhole || search === "");
    if (!isChosen && (search === "" || !places.length)) places = withRuns(places, firstPlaces(page.runs), homes);
    places.forEach((name, place) => homes.set(name, place));
    const chosen = await summaries(dataset, chosenOf(places), page.runs);
    if (mine !== turn) return;
    follow(baselineOf(chosen, pinned)?.run ?? baseline);
    const version = versionOf(page);
    const nothing = page.runs.some((run) => run.step > 0) ? "No run selected." : "No run has closed a step yet.";
    showRuns(facts, page);
    const result = chosen.length ? headline(chosen) : [element("p", { class: "soft" }, nothing)];
    fill(parts.headline, result);
    const compared = await Promise.all(chosen.map((summary) => course(summary, places.indexOf(summary.run))));
    if (mine !== turn) return;
    parts.charts.draw(compared, baseline, nothing);
    if (!isBeingRead(parts.numbers)) fill(parts.numbers, inNumbers(compared, baseline));
    shown = version;
  }

  /** Return what this view shows, without what time alone changes: an idle tab asks once a refresh. */
  const versionOf = (page) => JSON.stringify([page.runs.map(lasting), places, pinned, search, note]);

  /** Take another baseline; say so, unless somebody asked for it. */
  function follow(name) {
    if (baseline !== null && name !== baseline && name !== pinned) note = `The baseline is ${name} now.`;
    baseline = name;
  }

  function showRuns(facts, page) {
    const isListed = ({ run }) => !isWhole || run.toLowerCase().includes(search.toLowerCase());
    const runs = page.runs.filter(isListed);
    const matching = isWhole ? runs.length : page.matching;
    fill(parts.facts, factsOf(facts));
    parts.chooser.show({ runs, matching, places, baseline, filter: search, note });
  }

  /** Return what charts and table show of a run. It is asked for again once the run has changed. */
  async function course(summary, place) {
    const path = ["datasets", dataset, "runs", summary.run];
    const version = `${summary.created_at}.${summary.epoch}.${summary.seq}`;
    if (courses.get(summary.run)?.version !== version) {
      const [run, { points }, calibration] = await Promise.all([
        get(path),
        get([...path, "curve"], { points: POINTS }),
        get([...path, "calibration"]),
      ]);
      courses.set(summary.run, { version, run, points, calibration });
    }
    return { name: summary.run, place, summary, ...courses.get(summary.run) };
  }

  function toggle(name, isWanted) {
    note = "";
    places = isWanted ? withRun(places, name, homes.get(name)) : withoutRun(places, name);
    changed(true);
  }

  function pin(name) {
    note = "";
    pinned = pinned === name ? "" : name;
    changed(true);
  }

  /** Compare as many of these runs as fit, the baseline and the one that samples uniformly before others. */
  function all(runs) {
    const names = runs.map((run) => run.run);
    places = withRuns(places, [...firstOf(runs, baseline), ...names], homes);
    note = names.some((name) => !places.includes(name)) ? `Only ${MOST} runs can be compared at a time.` : "";
    changed(true);
  }

  function none() {
    note = "";
    places = [];
    changed(true);
  }

  function filter(text) {
    search = text;
    changed(false);
  }

  function changed(isNew) {
    isChosen ||= isNew;
    const run = isChosen && !places.length ? [""] : isChosen ? places : [];
    remember(datasetHref(dataset, { run, baseline: pinned, search }), { isNew });
    refresh().catch(() => {}); // the next one tells
  }
  return { node: parts.node, trail: [{ name: dataset, href: datasetHref(dataset) }], refresh };
}

/** Return those of some runs that are wanted first: the baseline, and those that sample uniformly. */
const firstOf = (runs, baseline) =>
  [...runs.filter(({ run }) => run === baseline), ...runs.filter(({ strategy }) => strategy === "uniform")].map(
    ({ run }) => run,
  );

/** Return a run's summary without what time alone changes. */
const lasting = (run) => ({ ...run, status: null, verdict: run.verdict?.kind });

/** Return the summaries of runs; those that the list does not have are asked for. */
async function summaries(dataset, names, listed) {
  const known = new Map(listed.map((run) => [run.run, run]));
  const asked = (name) => get(["datasets", dataset, "runs", name, "summary"]).catch(gone);
  const found = await Promise.all(names.map((name) => known.get(name) ?? asked(name)));
  return found.filter((summary) => summary !== null);
}

/** A run that is deleted is not compared. */
function gone(error) {
  if (error.status !== 404) throw error;
  return null;
}

function frame(dataset, on) {
  const facts = element("p", { class: "soft" });
  const result = element("div", { class: "result" });
  const list = chooser(on);
  const charts = comparisonCharts();
  const numbers = element("section", { class: "card compare-numbers" });
  const heading = element("div", { class: "compare-heading" }, element("h1", {}, dataset), facts, result);
  const plots = element("div", { class: "grid" }, charts.nodes);
  const node = element("div", { class: "compare" }, heading, list.node, plots, numbers);
  return { node, facts, headline: result, chooser: list, charts, numbers };
}

function factsOf({ tasks, profiles, reference_models: models, tags, description, repeatable, predictions }) {
  const parts = [
    [tasks, repeatable ? "repeatable task" : "task"],
    [models.length && profiles, "profile", " of pass rates"],
    [Object.keys(tags).length, "tag"],
  ];
  const numbers = parts
    .filter(([number]) => number)
    .map(([number, name, of = ""]) => `${count(number)} ${name}${number === 1 ? "" : "s"}${of}`);
  const names = predictions.map((each) => `${each.name} for ${count(each.tasks)}`).join(", ");
  const predicted = names && `Predictions: ${names}. `;
  return `${numbers.join(", ")}. ${predicted}${description}`;
}

function inNumbers(compared, baseline) {
  const heading = element("h2", {}, "In numbers");
  const settings = settingsTable(compared, baseline);
  if (!compared.length) return [heading, element("p", { class: "soft" }, "Choose runs to compare them.")];
  const difference = ` Difference: from ${baseline}, in percentage points of the effective task ratio, over the steps that both runs have closed.`;
  const about = `Numbers are over all steps unless they say otherwise.${compared.length > 1 ? difference : ""}`;
  return [
    heading,
    element("p", { class: "soft" }, about),
    comparisonTable(compared, baseline),
    ...(settings ? [element("h2", {}, "Settings that differ"), settings] : []),
  ];
}
