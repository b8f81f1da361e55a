// Which runs are compared. Each keeps its place while others come and go, and so its colour. No page, no service.

import { STYLES } from "./charts.js";
import { ordered } from "./settings.js";

export const MOST = STYLES; // runs at a time: as many as charts can tell apart

/** Return the places that an address names. An empty name is a free place. */
export const placesOf = (query) => tidy(query.getAll("run").slice(0, MOST));

/** Return the places at the beginning: the runs with the newest steps, and the one that samples uniformly. */
export function firstPlaces(runs) {
  const used = runs.filter((run) => run.step > 0);
  const uniform = used.find((run) => run.strategy === "uniform");
  const others = used.filter((run) => run !== uniform).slice(0, uniform ? MOST - 1 : MOST);
  const chosen = uniform ? [...others, uniform] : others;
  return chosen.toSorted((one, other) => one.created_at.localeCompare(other.created_at)).map((run) => run.run);
}

/**
 * Return the places with a run more; the same ones if none is free.
 * @param {number} home the place that it had before, which it gets again if it is free; otherwise the first free one.
 */
export function withRun(places, name, home = -1) {
  if (places.includes(name)) return places;
  const all = Array.from({ length: MOST }, (_, place) => places[place] ?? "");
  const place = all[home] === "" ? home : all.indexOf("");
  return place < 0 ? places : tidy(all.with(place, name));
}

/**
 * Return the places with as many more of these runs as fit. Runs that had a place before get theirs first.
 * @param {string[]} names those that are wanted most come first.
 * @param {Map<string, number>} homes the places that runs had before.
 */
export function withRuns(places, names, homes) {
  const more = [...new Set(names)].filter((name) => !places.includes(name)).slice(0, MOST - chosenOf(places).length);
  const known = more.filter((name) => homes.has(name));
  const others = more.filter((name) => !homes.has(name));
  return [...known, ...others].reduce((filled, name) => withRun(filled, name, homes.get(name)), places);
}

/** Return the places without a run. */
export const withoutRun = (places, name) => tidy(places.map((one) => (one === name ? "" : one)));

export const chosenOf = (places) => places.filter((name) => name !== "");

export const isFull = (places) => chosenOf(places).length === MOST;

function tidy(names) {
  const once = names.map((name, place) => (names.indexOf(name) === place ? name : ""));
  return once.slice(0, once.findLastIndex((name) => name !== "") + 1);
}

/** Return the run that others are compared with: the pinned one, otherwise one that samples uniformly. */
export function baselineOf(chosen, pinned) {
  return (
    chosen.find((run) => run.run === pinned) ??
    chosen.find((run) => run.strategy === "uniform" && run.reported > 0) ??
    chosen[0] ??
    null
  );
}

/** Return the runs' settings that differ: [{name, values}], a value for each run. */
export function differingSettings(runs) {
  const names = new Set(runs.flatMap((run) => Object.keys(run.settings)));
  return ordered([...names])
    .map((name) => ({ name, values: runs.map((run) => run.settings[name] ?? null) }))
    .filter(({ values }) => new Set(values.map((value) => JSON.stringify(value))).size > 1);
}
