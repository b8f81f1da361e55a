// The settings of a run: those that differ from the defaults first, each with its meaning.

import { element, fill } from "./dom.js";

// A test compares names, defaults and beliefs with the service's. only: where the setting means something.
const BOTS = { belief: ["bots"] };
export const SETTINGS = {
  belief: { usual: "tracker", meaning: "estimates each task's success probability" },
  strategy: { usual: "pass", usualOf: { bots: "thompson" }, meaning: "selects the tasks" },
  target: { usual: 0.5, meaning: "success probability that selection aims for" },
  rollouts_per_task: { usual: null, meaning: "rollouts of a task in a step", none: "mean of the reports" },
  tasks_per_step: { usual: null, meaning: "reported tasks that close a step", none: "each report closes one" },
  forgetting: { usual: 0.1, meaning: "share of the old evidence that each step forgets", only: BOTS },
  implicit_weight: { usual: 0.1, meaning: "weight of what other tasks' outcomes imply", only: BOTS },
  prior: { usual: [1, 1], meaning: "Beta distribution of a task without evidence", only: BOTS },
  capability: { usual: "least_squares", meaning: "how the model's capability is estimated", only: BOTS },
  capability_momentum: {
    usual: 0.9,
    meaning: "share of earlier evidence of the capability that each step keeps",
    only: BOTS,
  },
  mix: { usual: {}, meaning: "weight of each tag among the selected tasks", none: "no mix" },
  reward_range: { usual: [0, 1], meaning: "rewards that count as 0 and as 1" },
  lease_seconds: { usual: 3600, meaning: "how long a selected task is reserved, in seconds" },
  seed: { usual: 0, meaning: "random seed" },
};

const places = Object.keys(SETTINGS);

/** Return names of settings in the order in which people look for them. */
export const ordered = (names) => names.toSorted((one, other) => places.indexOf(one) - places.indexOf(other));

/** Return the settings that mean something to a run, changed ones apart: {changed, usual} of [name, value] pairs. */
export function sorted(settings) {
  const names = ordered(Object.keys(settings)).filter((name) => isUsed(name, settings));
  const pairs = names.map((name) => [name, settings[name]]);
  const isUsual = ([name, value]) => name in SETTINGS && same(value, usualOf(name, settings));
  return { changed: pairs.filter((pair) => !isUsual(pair)), usual: pairs.filter(isUsual) };
}

function isUsed(name, settings) {
  const conditions = Object.entries(SETTINGS[name]?.only ?? {});
  return conditions.every(([other, values]) => values.includes(settings[other]));
}

const usualOf = (name, { belief }) => SETTINGS[name].usualOf?.[belief] ?? SETTINGS[name].usual;
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Return the settings as a card's content: {node, show}. */
export function settingsPanel() {
  const changed = element("div");
  const summary = element("summary", {}, "Other settings");
  const rest = element("div");
  const details = element("details", { hidden: true }, summary, rest);
  const node = element("div", {}, changed, details);

  function show(settings) {
    const found = sorted(settings);
    fill(changed, found.changed.length ? list(found.changed) : none());
    fill(summary, `${found.usual.length} ${found.changed.length ? "more have their default" : "settings"}`);
    fill(rest, list(found.usual));
    details.hidden = false;
  }
  return { node, show };
}

const none = () => element("p", { class: "soft" }, "Every setting has its default.");

function list(pairs) {
  return element(
    "dl",
    { class: "settings" },
    pairs.map(([name, value]) =>
      element(
        "div",
        {},
        element("dt", {}, element("code", {}, name), element("span", { class: "soft" }, SETTINGS[name]?.meaning ?? "")),
        element("dd", {}, written(name, value)),
      ),
    ),
  );
}

/** Return a setting's value in words. */
export function written(name, value) {
  if (value === null) return SETTINGS[name]?.none ?? "none";
  if (name === "mix") return weights(value) || SETTINGS.mix.none;
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** Return the weights of a mix in words: "code 1; math 3". */
const weights = (mix) =>
  Object.entries(mix)
    .map(([tag, weight]) => `${tag} ${weight}`)
    .join("; ");
