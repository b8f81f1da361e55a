// What is shown for an address that leads nowhere: what is missing, and names that are near.

import { datasetHref, overviewHref, runHref } from "./addresses.js";
import { element } from "./dom.js";
import { get } from "./service.js";

const LISTED = 1000; // runs whose names are compared, those with the newest steps first
const NEAR = 5; // names that are offered
const ALIKE = 0.4; // of the letters at most may differ

/**
 * Return the view of what is missing; its refresh adds names that are near.
 * @param {{dataset: string, run: string|null, address: string}} wanted run: null where the dataset is missing, without a
 *     dataset the address is of no view at all.
 */
export function notFound(wanted) {
  const near = element("div", { class: "near" });
  const node = element(
    "section",
    { class: "card not-found" },
    element("h1", {}, titleOf(wanted)),
    element(
      "p",
      { class: "soft" },
      "The link may be old, or the name is written differently. It is shown here once it exists.",
    ),
    near,
    element("p", {}, element("a", { href: overviewHref(), class: "button" }, "All runs")),
  );

  async function refresh() {
    if (!wanted.dataset) return;
    const { runs } = await get(["overview"], { limit: LISTED });
    const offered = wanted.run === null ? nearDatasets(wanted.dataset, runs) : nearRuns(wanted, runs);
    if (!offered.length) return;
    const links = offered.map(({ name, href }) => element("li", {}, element("a", { href }, name)));
    near.replaceChildren(element("h2", {}, "Did you mean"), element("ul", {}, links));
  }
  return { node, trail: [], refresh };
}

function titleOf({ dataset, run, address }) {
  if (!dataset) return `This page has no view ${address}`;
  return run === null ? `There is no dataset ${dataset}` : `Dataset ${dataset} has no run ${run}`;
}

function nearDatasets(wanted, runs) {
  const names = [...new Set(runs.map(({ dataset }) => dataset))];
  return nearest(wanted, names).map((name) => ({ name, href: datasetHref(name) }));
}

/** The dataset's own runs first; then runs of that name elsewhere. */
function nearRuns({ dataset, run }, runs) {
  const own = nearest(
    run,
    runs.filter((one) => one.dataset === dataset).map((one) => one.run),
  );
  const elsewhere = runs.filter((one) => one.run === run && one.dataset !== dataset).slice(0, NEAR - own.length);
  return [
    ...own.map((name) => ({ name, href: runHref(dataset, name) })),
    ...elsewhere.map((one) => ({ name: `${one.dataset} / ${one.run}`, href: runHref(one.dataset, one.run) })),
  ];
}

/** Return the names that are nearest to one, at most NEAR, without those that have little in common with it. */
function nearest(wanted, names) {
  const rated = names.map((name) => ({ name, far: farness(wanted.toLowerCase(), name.toLowerCase()) }));
  const alike = rated.filter(({ far }) => far <= ALIKE).toSorted((one, other) => one.far - other.far);
  return alike.slice(0, NEAR).map(({ name }) => name);
}

/** Return how far two names are apart, from 0 to 1. A name that holds the other one is near. */
function farness(one, other) {
  const isPart = one.includes(other) || other.includes(one);
  return isPart ? ALIKE / 2 : distance(one, other) / Math.max(one.length, other.length);
}

/** Return how many letters must be put in, left out or changed to turn one text into another (Levenshtein). */
function distance(one, other) {
  let above = Array.from({ length: other.length + 1 }, (_, place) => place);
  for (const [row, letter] of [...one].entries()) {
    const present = [row + 1];
    for (const [place, wanted] of [...other].entries())
      present.push(Math.min(present[place] + 1, above[place + 1] + 1, above[place] + (letter === wanted ? 0 : 1)));
    above = present;
  }
  return above.at(-1);
}
