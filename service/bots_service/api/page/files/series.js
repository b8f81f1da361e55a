// What charts show, computed from a run's curve and outlooks. No page, no service.

export const RECENT = 50; // steps; fewer are too noisy to see where a run stands
const OUTER = 0.02; // of the values, at either end

/**
 * Return a ratio of two sums along a curve, each time over the last steps: RECENT of them, or as few more as points can
 * tell apart.
 * @param {object[]} points as /curve tells them, in order.
 * @returns {(number|null)[]} one for each point.
 */
function recent(points, part, whole) {
  let first = 0;
  let parts = 0;
  let wholes = 0;
  return points.map((point) => {
    parts += part(point);
    wholes += whole(point);
    while (first + 1 < points.length && points[first + 1].first_step <= point.last_step - RECENT + 1) {
      parts -= part(points[first]);
      wholes -= whole(points[first]);
      first += 1;
    }
    return wholes > 0 ? parts / wholes : null;
  });
}

/** Return the effective task ratio along a curve, over the last steps. */
export const recentRatios = (points) =>
  recent(
    points,
    (point) => point.effective,
    (point) => point.reported,
  );

/** Return what uniform sampling is estimated to reach along a curve, over the last steps. outlooks: in order; at least one. */
export function recentEstimates(points, outlooks) {
  let place = 0;
  const expected = points.map((point) => {
    while (outlooks[place + 1]?.step <= point.last_step) place += 1;
    return { ...point, expected: point.reported * outlooks[place].uniform_effective_task_ratio };
  });
  return recent(
    expected,
    (point) => point.expected,
    (point) => point.reported,
  );
}

/** Return the success rate of rollouts along a curve, over the last steps. */
export const recentRates = (points) =>
  recent(
    points,
    (point) => (point.success_rate ?? 0) * point.rollouts,
    (point) => point.rollouts,
  );

/** Return what was so many steps before the end of a curve; null if it is shorter. values: one for each point. */
export function before(points, values, steps) {
  const place = points.findLastIndex((point) => point.last_step <= (points.at(-1)?.last_step ?? 0) - steps);
  return values[place] ?? null;
}

/** Return the range of values without the outermost ones: few steps of few tasks can throw an estimate far off. */
export function innerRange(values) {
  const known = values.filter((value) => value !== null).toSorted((one, other) => one - other);
  if (!known.length) return null;
  const [low, high] = [OUTER, 1 - OUTER].map((share) => known[Math.round(share * (known.length - 1))]);
  const room = 0.08 * (high - low) || 0.5;
  return [low - room, high + room];
}

/** Return the sums of a property along a curve. */
export function sums(points, name) {
  let sum = 0;
  return points.map((point) => (sum += point[name]));
}

const total = (points, value) => points.reduce((sum, point) => sum + value(point), 0);

/** Return by how much predicted success rates were off, on average over the rollouts of /calibration; null without any. */
export function calibrationError({ bins }) {
  const filled = bins.filter((bin) => bin.rollouts > 0);
  const rollouts = total(filled, (bin) => bin.rollouts);
  const off = total(filled, (bin) => bin.rollouts * Math.abs(bin.mean_prediction - bin.success_rate));
  return rollouts ? off / rollouts : null;
}
