// A run's numbers: four tiles, and a line of facts. What it gained is computed by the service alone, so that every page
// agrees.

import { element, fill } from "./dom.js";
import { UNKNOWN, ago, compact, count, decimal, factor, percent } from "./format.js";
import { RECENT, before, calibrationError, recentRates, recentRatios } from "./series.js";
import { bars, course, fact, pointsDelta, tile } from "./tiles.js";

const WITHIN = `vs the ${RECENT} steps before`;

/** Return the numbers: {nodes, show}. */
export function runNumbers() {
  const tiles = element("dl", { class: "tiles wide" }, waiting());
  const facts = element("dl", { class: "facts wide" });

  let known = "";
  let shown = null;

  /** Show a summary, and what completes it. found: {run, row, points, calibration}; null until it is there. */
  function show(summary, found) {
    const version = JSON.stringify(summary);
    if (version === known && found === shown) return;
    [known, shown] = [version, found];
    fill(tiles, tilesOf(summary, found));
    if (found) fill(facts, factsOf(summary, found));
  }
  return { nodes: [tiles, facts], show };
}

/** Stand in for numbers that are under way, as large as they are. */
const waiting = () =>
  ["Effective task ratio", "vs uniform", "Rollouts saved", "Tasks met"].map((name) => tile(name, "\u00a0", "\u00a0"));

function tilesOf(summary, found) {
  return [ratioTile(summary, found), ...(summary.strategy === "uniform" ? [] : gainTiles(summary)), metTile(found)];
}

const NOT_YET = "no step has closed yet";

function ratioTile({ effective_task_ratio: ratio, trend, step }, found) {
  if (!step) return tile("Effective task ratio", UNKNOWN, NOT_YET);
  const earlier = found && before(found.points, recentRatios(found.points), RECENT);
  return tile("Effective task ratio", percent(ratio), `last ${count(Math.min(step, RECENT))} steps`, {
    delta: pointsDelta(ratio, earlier, WITHIN),
    drawing: course(trend, "Effective task ratio over all steps"),
  });
}

/**
 * Return what selecting gained: measured against a run that samples uniformly if there is one, otherwise estimated. All of
 * their numbers are over the same steps.
 */
function gainTiles({ gain }) {
  const { source, baseline, factor: times, rollouts_saved: saved, rollouts_spent: spent, steps } = gain ?? {};
  const isMeasured = source === "measured";
  if (!steps) return [tile("vs uniform", UNKNOWN, NOT_YET), tile("Rollouts saved", UNKNOWN, NOT_YET)];
  const [own, uniform] = [gain?.own_ratio ?? null, gain?.uniform_ratio ?? null];
  const how = isMeasured ? `measured: run ${baseline}` : "no run samples uniformly";
  const compared = `${percent(own)} effective tasks, and ${percent(uniform)} by uniform sampling`;
  const needed = `${compact(spent)} rollouts spent; uniform sampling would have needed ${compact(spent + saved)}`;
  return [
    tile(isMeasured ? "vs uniform" : "vs uniform (estimate)", factor(times), `${overSteps(steps)}; ${how}`, {
      delta: { text: `${percent(own)}, uniform ${percent(uniform)}`, direction: "even" },
      drawing: bars(own, uniform, compared),
    }),
    tile("Rollouts saved", compact(saved), `of ${compact(spent)} spent (${isMeasured ? "measured" : "estimate"})`, {
      delta: { text: `uniform would need ${compact(spent + saved)}`, direction: "even" },
      drawing: bars(spent, (saved ?? null) === null ? null : spent + saved, needed),
    }),
  ];
}

const overSteps = (steps) => `over ${count(steps)} ${steps === 1 ? "step" : "steps"}`;

function metTile(found) {
  if (found === null) return tile("Tasks met", "\u00a0", "\u00a0");
  const { distinct_tasks: met, available_tasks: all, reached_share: share } = found.run.coverage;
  const shares = found.points.map((point) => point.distinct_tasks / Math.max(all, 1));
  return tile("Tasks met", percent(share), `${count(met)} different, ${count(all)} available`, {
    delta: pointsDelta(shares.at(-1), before(found.points, shares, RECENT), WITHIN),
    drawing: course(shares, "Share of tasks met over all steps"),
  });
}

function factsOf(summary, { run, row, points, calibration }) {
  const { step, strategy, belief, leased, last_step_at: at, refused } = summary;
  return [
    fact("Step", count(step)),
    at && fact("Last step", ago(at)),
    fact("Success rate", percent(recentRates(points).at(-1)), `of the rollouts of the last ${RECENT} steps`),
    fact("Strategy", strategy),
    fact("Belief", belief),
    "ability" in run.estimates
      ? fact("Ability", decimal(run.estimates.ability, 2), "in logits, by the tracker")
      : fact("Capability", decimal(run.capability, 2), capabilityWords(row.reference_models)),
    fact(
      "Calibration error",
      decimal(calibrationError(calibration)),
      `of predicted success rates, last ${count(calibration.steps)} steps`,
    ),
    fact("In flight", `${count(leased)} tasks`),
    refused && fact("Refused reports", [count(refused.count), ", last ", ago(refused.last_at)], refused.reason),
    run.totals.tokens ? fact("Tokens", compact(run.totals.tokens)) : null,
    run.totals.seconds ? fact("GPU hours", compact(run.totals.seconds / 3600)) : null,
    run.pending ? fact("Open step", `${count(run.pending)} tasks`) : null,
    run.epoch ? fact("Rewound", `${count(run.epoch)} ${run.epoch === 1 ? "time" : "times"}`) : null,
  ];
}

/** Say what the ends of the scale of capability are. models: the names of the reference models. */
export function capabilityWords(models) {
  if (!models.length) return "no reference models";
  return models.length === 1 ? "1: the reference model" : `0: weakest, ${models.length - 1}: strongest reference`;
}
