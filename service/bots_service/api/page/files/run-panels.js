// What stands around a run's charts: its numbers, its tags and its history. What it gained is computed by the service alone,
// so that every page agrees.

import { card, element, fill, pairs, table } from "./dom.js";
import { bar } from "./drawings.js";
import { UNKNOWN, ago, compact, count, decimal, factor, percent, signed } from "./format.js";
import { RECENT, before, calibrationError, recentRates, recentRatios } from "./series.js";
import { written } from "./settings.js";
import { helpLink } from "./verdict.js";

const NOT_YET = "no step has closed yet";
const SHOWN_TAGS = 12; // the others open with a click

/** Return the numbers: {node, show}. */
export function runNumbers() {
  const waiting = ["Effective task ratio", "vs uniform", "Rollouts saved", "Tasks met"];
  const node = element(
    "div",
    { class: "wide stack" },
    pairs(
      "tiles",
      waiting.map((name) => tile(name, "\u00a0", "\u00a0")),
    ),
  );
  let [known, shown] = ["", null];

  /** Show a summary, and what completes it. found: {run, points, calibration}; null until it is there. */
  function show(summary, found) {
    const version = JSON.stringify(summary);
    if (version === known && found === shown) return;
    [known, shown] = [version, found];
    const tiles = [
      ratioTile(summary, found),
      ...(summary.strategy === "uniform" ? [] : gainTiles(summary)),
      metTile(found),
      ...(summary.evaluation ? [evaluationTile(summary.evaluation)] : []),
    ];
    fill(node, summary.step ? pairs("tiles", tiles) : null, pairs("facts", found ? factsOf(summary, found) : []));
  }
  return { node, show };
}

const explained = (name) => helpLink(name.replace(" (estimate)", ""), name);

/** Return a number with how it is to be read, and how it has changed. */
const tile = (name, value, about, change = "") => [
  explained(name),
  element("span", { class: "value" }, value),
  element("span", { class: "soft" }, change),
  element("span", { class: "soft" }, about),
];

/** Say by how many percentage points a share has changed in the last steps; nothing where that is unknown. */
function changeOf(now, earlier) {
  if ((now ?? null) === null || (earlier ?? null) === null) return "";
  const size = Math.abs(100 * (now - earlier)).toFixed(1);
  const change = Number(size) === 0 ? "no change" : `${now > earlier ? "▲" : "▼"} ${size} points`;
  return `${change} vs the ${RECENT} steps before`;
}

function ratioTile({ effective_task_ratio: ratio, step }, found) {
  const earlier = found && before(found.points, recentRatios(found.points));
  return tile(
    "Effective task ratio",
    percent(ratio),
    `last ${count(Math.min(step, RECENT))} steps`,
    changeOf(ratio, earlier),
  );
}

/**
 * Return what selecting gained: measured against a run that samples uniformly if there is one, otherwise estimated. All of
 * their numbers are over the same steps.
 */
function gainTiles({ gain }) {
  const { baseline, factor: times, rollouts_saved: saved, rollouts_spent: spent, steps } = gain ?? {};
  const isMeasured = (baseline ?? null) !== null;
  if (!steps) return [tile("vs uniform", UNKNOWN, NOT_YET), tile("Rollouts saved", UNKNOWN, NOT_YET)];
  const over = `over ${count(steps)} ${steps === 1 ? "step" : "steps"}`;
  const how = isMeasured ? `measured: run ${baseline}` : "no run samples uniformly";
  const ratios = `${percent(gain.own_ratio)}, uniform ${percent(gain.uniform_ratio)}`;
  return [
    tile(isMeasured ? "vs uniform" : "vs uniform (estimate)", factor(times), `${over}; ${how}`, ratios),
    tile(
      "Rollouts saved",
      compact(saved),
      isMeasured ? "measured" : "estimate",
      `used ${compact(spent)}; uniform sampling would have needed ${compact(spent + saved)}`,
    ),
  ];
}

function evaluationTile({ name, step, value, baseline, compared_step: at, difference }) {
  const compared = difference === null ? "" : `${signed(difference)} vs ${baseline} at step ${count(at)}`;
  return tile(name, decimal(value), `measured after step ${count(step)}`, compared);
}

function metTile(found) {
  if (found === null) return tile("Tasks met", "\u00a0", "\u00a0");
  const { distinct_tasks: met, available_tasks: all, reached_share: share } = found.run.coverage;
  return tile("Tasks met", percent(share), `${count(met)} different, ${count(all)} available`);
}

function factsOf({ step, strategy, belief, leased, last_step_at: at, refused }, { run, points, calibration }) {
  const [name, place] =
    "ability" in run.estimates ? ["Ability", run.estimates.ability] : ["Capability", run.estimates.capability ?? null];
  return [
    ["Step", count(step)],
    at && ["Last step", ago(at)],
    [explained("Success rate"), percent(recentRates(points).at(-1))],
    [explained("Strategy"), strategy],
    [explained("Belief"), belief],
    [explained(name), decimal(place, 2)],
    [explained("Calibration error"), decimal(calibrationError(calibration))],
    [explained("In flight"), `${count(leased)} tasks`],
    refused && [
      explained("Refused reports"),
      `${count(refused.count)}, last `,
      ago(refused.last_at),
      `: ${refused.reason}`,
    ],
    run.totals.tokens && ["Tokens", compact(run.totals.tokens)],
    run.totals.seconds && ["GPU hours", compact(run.totals.seconds / 3600)],
    run.pending && ["Open step", `${count(run.pending)} tasks`],
    run.epoch && ["Rewound", `${count(run.epoch)} ${run.epoch === 1 ? "time" : "times"}`],
  ];
}

/** Return the card of a run's tags, null without any. found: the answer of /tags; mix: the tags of the run's mix. */
export function tagsCard({ first_step: first, last_step: last, tags }, mix) {
  if (!tags.length) return null;
  const columns = [
    { name: "Tag" },
    { name: "Tasks", number: true },
    { name: "Share selected" },
    { name: "Effective task ratio" },
    { name: "Mean reward" },
    { name: "Rollouts", number: true },
  ];
  const owed = Object.fromEntries(mix.map(({ tag, share }) => [tag, share]));
  const rows = tags
    .toSorted((one, other) => other.reported - one.reported || other.tasks - one.tasks)
    .map((tag) => [
      tag.tag,
      count(tag.tasks),
      tag.tag in owed
        ? bar(tag.selected_share, owed[tag.tag], "owed by the mix")
        : bar(tag.selected_share, tag.pool_share, "of the pool"),
      bar(tag.effective_task_ratio),
      bar(tag.success_rate, tag.earlier_success_rate, "before"),
      count(tag.rollouts),
    ]);
  const ticks = mix.length
    ? "the share that the mix owes the tag, for other tags their share of the pool"
    : "the tag's share of the pool";
  const about = `Steps ${count(first)} to ${count(last)}. The tick on a bar: ${ticks}; or the mean reward in as many steps before.`;
  const more = `${count(rows.length - SHOWN_TAGS)} more tags`;
  return card(
    "Tags",
    null,
    element("p", { class: "soft" }, about),
    table("Numbers by tag", columns, rows.slice(0, SHOWN_TAGS)),
    rows.length > SHOWN_TAGS
      ? element("details", {}, element("summary", {}, more), table(more, columns, rows.slice(SHOWN_TAGS)))
      : null,
  );
}

const plain = (name) => name.replaceAll("_", " ");
const WORDS = {
  rewind: ({ to_step: to }) => `Rewind to step ${count(to)}`,
  settings: ({ changed }) =>
    `Settings changed: ${Object.entries(changed ?? {})
      .map(([name, value]) => `${plain(name)} ${written(value)}`)
      .join(", ")}`,
};

/** Return the card of what happened to a run besides its reports. entries: of its journal, newest first. */
export function historyCard(path, entries, { guarded }) {
  const journal = `${path.map(encodeURIComponent).join("/")}/journal`; // a link carries no key
  const rows = entries.map((entry) => {
    const words = WORDS[entry.kind]?.(entry) ?? entry.kind;
    return [entry.hidden ? [element("s", {}, words), " (undone)"] : words, count(entry.step), ago(entry.time)];
  });
  return card(
    "History",
    guarded ? null : element("a", { href: journal }, "Journal with all reports"),
    rows.length
      ? table("History", [{ name: "Change" }, { name: "Step", number: true }, { name: "When" }], rows)
      : element("p", { class: "soft" }, "No rewind, and no change of settings."),
  );
}

/** Return where charts mark rewinds and changes of settings: [{at, name}], by step. */
export function marksOf(entries) {
  return entries
    .filter(({ kind, hidden }) => !hidden && (kind === "rewind" || kind === "settings"))
    .map(({ kind, step, to_step: to, changed }) => {
      const names = Object.keys(changed ?? {});
      const settings = names.length > 2 ? `${names.length} settings` : names.map(plain).join(", ");
      return kind === "rewind" ? { at: to, name: "rewind" } : { at: step, name: settings };
    })
    .filter(({ at }) => at !== null)
    .toSorted((one, other) => one.at - other.at);
}
