// What stands above the table of runs: the totals, the search, and the filters.

import { element, fill, say } from "./dom.js";
import { compact, count, percent } from "./format.js";
import { SORTS } from "./overview-table.js";
import { STATUSES, statusIcon } from "./run-status.js";
import { get } from "./service.js";
import { icon } from "./verdict.js";

const TYPED_MS = 250; // after the last letter of a search
const MOST_DATASETS = 1000; // names that the filter offers

/** Return the totals of all runs: {node, show}. */
export function totalsStrip() {
  const node = element("dl", { class: "totals" });

  function show(totals) {
    const ratio = totals.reported ? `${percent(totals.effective / totals.reported)} of reported` : null;
    fill(
      node,
      total(
        "Runs",
        count(totals.runs),
        `of ${count(totals.datasets)} ${totals.datasets === 1 ? "dataset" : "datasets"}`,
      ),
      total(
        "Need attention",
        count(totals.attention),
        totals.unjudged ? `${count(totals.unjudged)} not judged yet` : null,
        totals.attention ? icon("warning") : null,
      ),
      total("Running", count(totals.running), null, totals.running ? statusIcon("running") : null),
      total("Stalled", count(totals.stalled), null, totals.stalled ? statusIcon("stalled") : null),
      total("Rollouts", compact(totals.rollouts), null),
      total("Effective tasks", compact(totals.effective), ratio),
    );
  }
  return { node, show };
}

function total(name, value, about, mark = null) {
  return element(
    "div",
    { class: "total" },
    element("dt", {}, name),
    element("dd", {}, mark, value, about && element("span", { class: "soft" }, about)),
  );
}

/**
 * Return the search and the filters: {node, show}.
 * @param {(change: object, isTyped: boolean) => void} change called with what is to be asked from now on.
 */
export function filters(change) {
  const search = searchField(change);
  const dataset = datasetField(change);
  const statuses = element("div", { class: "chips", role: "group", "aria-label": "Status" });
  const attention = element("span", { class: "chips" });
  const sort = sortField(change);
  const node = element("search", { class: "filters" }, search.node, attention, statuses, dataset.node, sort.node);

  /** Show what is asked, and how many runs have each status. */
  function show(asked, totals) {
    search.show(asked.search);
    dataset.show(asked.dataset);
    sort.show(asked.sort);
    const chips = ["", ...STATUSES].map((status) =>
      statusFilter(status, totals[status || "runs"], asked.status === status, change),
    );
    fill(statuses, chips);
    const wanted = { attention: asked.attention ? "" : "true" };
    fill(
      attention,
      chip("needs attention", totals.attention, Boolean(asked.attention), icon("warning", 12), () => change(wanted)),
    );
  }
  return { node, show };
}

const statusFilter = (status, runs, isPressed, change) =>
  chip(status || "all", runs, isPressed, status ? statusIcon(status) : null, () =>
    change({ status: isPressed ? "" : status }),
  );

function chip(name, runs, isPressed, mark, onclick) {
  const attributes = {
    type: "button",
    class: "filter-chip",
    "data-name": name,
    "aria-pressed": String(isPressed),
    onclick,
  };
  return element("button", attributes, mark, name, element("span", { class: "soft" }, count(runs)));
}

function searchField(change) {
  const node = element("input", {
    type: "search",
    placeholder: "Search datasets and runs",
    "aria-label": "Search datasets and runs",
    maxlength: "128",
  });
  let typed = 0;
  node.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => change({ search: node.value.trim() }, true), TYPED_MS);
  });
  return { node, show: (text) => showIn(node, text) };
}

/** Put a text into a field, unless somebody is typing there. */
function showIn(field, text) {
  if (document.activeElement !== field) field.value = text;
}

/** The filter by dataset. Names are asked for once somebody needs them, as there may be a thousand. */
function datasetField(change) {
  const names = element("datalist", { id: "dataset-names" });
  const field = element("input", {
    type: "text",
    list: "dataset-names",
    placeholder: "All datasets",
    "aria-label": "Only runs of this dataset",
    maxlength: "128",
    pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*",
    title: "A dataset's name: letters, digits, dots, hyphens and underscores",
    autocomplete: "off",
    spellcheck: "false",
  });
  const clear = element("button", { type: "button", class: "quiet", hidden: true, "aria-label": "All datasets" }, "×");
  field.addEventListener("focus", () => offerNames(names), { once: true });
  const isName = (text) => [...names.options].some((option) => option.value === text);
  field.addEventListener("input", () => isName(field.value) && change({ dataset: field.value }));
  field.addEventListener("change", () => field.reportValidity() && change({ dataset: field.value }));
  clear.addEventListener("click", () => {
    field.value = "";
    change({ dataset: "" });
  });

  function show(dataset) {
    showIn(field, dataset);
    clear.hidden = !dataset;
  }
  return { node: element("span", { class: "dataset-filter" }, field, clear, names), show };
}

async function offerNames(names) {
  try {
    const { datasets } = await get(["datasets"], { limit: MOST_DATASETS });
    fill(
      names,
      datasets.map(({ name }) => element("option", { value: name })),
    );
  } catch {
    // the field works without suggestions
  }
}

/** The order, for windows that are too narrow for the table's head. */
function sortField(change) {
  const select = element("select", { "aria-label": "Sort by" });
  select.addEventListener("change", () => change({ sort: select.value }));
  function show(sort) {
    const isKnown = SORTS.some((one) => one.sort === sort);
    const others = isKnown ? [] : [{ sort, name: sort.replace("-", "").replaceAll("_", " ") }];
    if (select.options.length !== SORTS.length + others.length || select.value !== sort) {
      const option = (one) => element("option", { value: one.sort, selected: one.sort === sort }, one.name);
      fill(select, [...SORTS, ...others].map(option));
    }
  }
  return { node: element("label", { class: "sort-field" }, "Sort by ", select), show };
}

/** Return the pages' buttons: {node, show}. move: called with -1 or 1. */
export function pager(move) {
  const where = element("span", { role: "status" });
  const back = element("button", { type: "button", onclick: () => move(-1) }, "Previous");
  const on = element("button", { type: "button", onclick: () => move(1) }, "Next");
  const node = element("div", { class: "heading pages" }, where, element("span", { class: "grow" }), back, on);

  /** Say which runs are shown. first: the place of the first one, from 1. */
  function show({ runs, matching, next_cursor: next }, first) {
    say(where, `${count(first)} to ${count(first + runs.length - 1)} of ${count(matching)}`);
    back.disabled = first === 1;
    on.disabled = next === null;
    back.hidden = on.hidden = first === 1 && next === null;
  }
  return { node, show, tell: (text) => say(where, text) };
}
