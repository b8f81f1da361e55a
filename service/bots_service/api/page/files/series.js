// What charts and tables show, computed from a run's curve and calibration. No page, no service.

export const RECENT = 50; // steps; fewer are too noisy to see where a run stands
const Z = 1.959964; // standard deviations of a 95 % interval

const total = (points, value) => points.reduce((sum, point) => sum + value(point), 0);

/** Return the steps of a curve's points: each one's last. */
export const stepsOf = (points) => points.map((point) => point.last_step);

/** Return the sums of a property along a curve. */
export function sums(points, name) {
  let sum = 0;
  return points.map((point) => (sum += point[name]));
}

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

const reported = (point) => point.reported;
const rollouts = (point) => point.rollouts;

/** Return the effective task ratio along a curve, over the last steps. */
export const recentRatios = (points) => recent(points, (point) => point.effective, reported);

/** Return the success rate of rollouts along a curve, over the last steps. */
export const recentRates = (points) => recent(points, (point) => (point.success_rate ?? 0) * point.rollouts, rollouts);

/** Return what uniform sampling is estimated to reach along a curve, over the last steps. */
export const recentEstimates = (points) =>
  recent(points, (point) => point.reported * point.uniform_effective_task_ratio, reported);

/** Return what was RECENT steps before the end of a curve; null if it is shorter. values: one for each point. */
export function before(points, values) {
  const place = points.findLastIndex((point) => point.last_step <= (points.at(-1)?.last_step ?? 0) - RECENT);
  return values[place] ?? null;
}

/** Return by how much predicted success rates were off, on average over the rollouts of /calibration; null without any. */
export function calibrationError({ bins }) {
  const filled = bins.filter((bin) => bin.rollouts > 0);
  const off = total(filled, (bin) => bin.rollouts * Math.abs(bin.mean_prediction - bin.success_rate));
  return filled.length ? off / total(filled, rollouts) : null;
}

/**
 * Return the difference of two runs' effective task ratios on the steps that both have closed: {mean, low, high, steps};
 * null without such steps. Both are points of curves; of a point that lies only partly within those steps the same part
 * counts. Each reported task counts as one independent observation. The interval is Newcombe's (1998, method 10): it
 * holds for few tasks too.
 */
export function ratioDifference(points, baseline) {
  const first = Math.max(...[points, baseline].map((course) => course[0]?.first_step ?? Infinity));
  const last = Math.min(...[points, baseline].map((course) => course.at(-1)?.last_step ?? 0));
  const [own, other] = [points, baseline].map((course) => within(course, first, last));
  if (last < first || !own.reported || !other.reported) return null;
  const [one, two] = [own, other].map(wilson);
  const mean = one.ratio - two.ratio;
  const below = Math.hypot(one.ratio - one.low, two.high - two.ratio);
  const above = Math.hypot(one.high - one.ratio, two.ratio - two.low);
  return { mean, low: mean - below, high: mean + above, steps: last - first + 1 };
}

function within(points, first, last) {
  const parts = points.flatMap((point) => {
    const steps = Math.min(point.last_step, last) - Math.max(point.first_step, first) + 1;
    const share = steps / (point.last_step - point.first_step + 1);
    return steps > 0 ? [{ reported: point.reported * share, effective: point.effective * share }] : [];
  });
  return { reported: total(parts, reported), effective: total(parts, (point) => point.effective) };
}

/** Return a proportion with Wilson's score interval. */
function wilson({ reported: all, effective }) {
  const ratio = effective / all;
  const middle = (ratio + Z ** 2 / (2 * all)) / (1 + Z ** 2 / all);
  const spread = Math.sqrt((ratio * (1 - ratio)) / all + Z ** 2 / (4 * all ** 2));
  const half = (Z * spread) / (1 + Z ** 2 / all);
  return { ratio, low: middle - half, high: middle + half };
}
