// What a run's rollouts cost: a tile for tokens and one for GPU time, each only where outcomes said it.

import { UNKNOWN, compact, count, percent } from "./format.js";
import { RECENT } from "./series.js";
import { bars, tile } from "./tiles.js";

/**
 * The resources: how the service calls each, how many of its units make one that is shown of a whole run, and what heads
 * the cost of one effective task, which is in the service's units.
 */
export const RESOURCES = [
  { name: "tokens", title: "Tokens", unit: "tokens", size: 1, each: "Tokens per effective task" },
  { name: "seconds", title: "GPU hours", unit: "GPU hours", size: 3600, each: "GPU seconds per effective task" },
];

/** 5529600 -> "5.5M", 0.00123 -> "0.00123": an amount, whatever its size. */
export function amount(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return Math.abs(value) >= 100 ? compact(value) : String(Number(value.toPrecision(3)));
}

/** Return the tiles of a summary, none without a cost. */
export const costTiles = (summary) =>
  RESOURCES.filter(({ name }) => summary[name])
    .flatMap((resource) => [effectiveTile(summary, resource), savedTile(summary, resource)])
    .filter((made) => made !== null);

function effectiveTile(summary, { name, unit, size, each }) {
  const { [name]: whole, [`recent_${name}`]: recent, rollouts, step } = summary;
  const share = rollouts ? whole.rollouts / rollouts : 0;
  const known = share < 0.9995 ? `, known for ${percent(share)} of the rollouts` : "";
  const about = `last ${count(Math.min(step, RECENT))} steps; ${amount(whole.spent / size)} ${unit} spent${known}`;
  const label = `${each}: ${amount(recent?.per_effective)} in the last steps, ${amount(whole.per_effective)} in all`;
  return tile(each, amount(recent?.per_effective), about, {
    delta: { text: `all steps: ${amount(whole.per_effective)}`, direction: "even" },
    drawing: bars(recent?.per_effective, whole.per_effective, label),
  });
}

/** Return what selecting saved, by the gain of the summary; null for a run that has none. */
function savedTile({ gain }, { name, title, size }) {
  const saving = gain?.[name];
  if (!saving) return null;
  const [spent, saved] = [saving.spent / size, saving.saved === null ? null : saving.saved / size];
  const isMeasured = gain.source === "measured" && saving.source === "measured";
  const needed = saved === null ? null : spent + saved;
  const label = `${amount(spent)} spent; uniform sampling would have needed ${amount(needed)}`;
  return tile(`${title} saved`, amount(saved), `of ${amount(spent)} spent (${isMeasured ? "measured" : "estimate"})`, {
    delta: { text: `uniform would need ${amount(needed)}`, direction: "even" },
    drawing: bars(spent, needed, label),
  });
}
