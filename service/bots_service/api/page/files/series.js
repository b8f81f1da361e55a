// What charts show, computed from a run's curve and outlooks. No page, no service.

export const RECENT = 50; // steps; fewer are too noisy to see where a run stands

/**
 * Return the effective task ratio along a curve, each time over the last steps: RECENT of them, or as few more as points
 * can tell apart.
 * @param {object[]} points as /curve tells them, in order.
 * @returns {{ratio: number|null, steps: number}[]} one for each point.
 */
export function recent(points) {
  let first = 0;
  let reported = 0;
  let effective = 0;
  return points.map((point) => {
    reported += point.reported;
    effective += point.effective;
    while (first + 1 < points.length && points[first + 1].first_step <= point.last_step - RECENT + 1) {
      reported -= points[first].reported;
      effective -= points[first].effective;
      first += 1;
    }
    const steps = point.last_step - points[first].first_step + 1;
    return { ratio: reported ? effective / reported : null, steps };
  });
}

/** Return the ratios alone. */
export const recentRatios = (points) => recent(points).map(({ ratio }) => ratio);

/** Return the sums of a property along a curve. */
export function sums(points, name) {
  let sum = 0;
  return points.map((point) => (sum += point[name]));
}

/** Return the estimate for uniform sampling at a step: from the last outlook before it, otherwise from the first. */
export function uniformAt(outlooks, step) {
  let found = null;
  for (const outlook of outlooks) {
    if (found !== null && outlook.step > step) break;
    found = outlook.uniform_effective_task_ratio;
  }
  return found;
}

const total = (points, value) => points.reduce((sum, point) => sum + value(point), 0);

/**
 * Return the run with uniform sampling that another run of its dataset is measured against: of several, the one created
 * at nearly the same time. Null if there is none, or if the run itself samples uniformly.
 */
export function baselineOf(run, runs) {
  if (run.settings.strategy === "uniform") return null;
  const apart = (other) => Math.abs(new Date(other.created_at) - new Date(run.created_at));
  const uniform = runs.filter((other) => other.settings.strategy === "uniform" && other.totals.reported > 0);
  return uniform.toSorted((one, other) => apart(one) - apart(other))[0] ?? null;
}

/**
 * Return what a run gained over another run, on the steps that both have closed. Both are points of curves; of a point
 * that lies only partly within those steps the same part counts.
 */
export function measuredGain(points, baseline) {
  const first = Math.max(...[points, baseline].map((course) => course[0]?.first_step ?? Infinity));
  const last = Math.min(...[points, baseline].map((course) => course.at(-1)?.last_step ?? 0));
  const [own, other] = [points, baseline].map((course) => within(course, first, last));
  const ratio = total(other, (point) => point.effective) / total(other, (point) => point.reported);
  return { ...gain(own, () => ratio), steps: Math.max(0, last - first + 1) };
}

function within(points, first, last) {
  return points.flatMap((point) => {
    const steps = Math.min(point.last_step, last) - Math.max(point.first_step, first) + 1;
    const share = steps / (point.last_step - point.first_step + 1);
    const { reported, effective, rollouts } = point;
    return steps > 0 ? [{ reported: reported * share, effective: effective * share, rollouts: rollouts * share }] : [];
  });
}

/** Return what a run gained over the estimate for uniform sampling from its own belief. */
export function modelledGain(points, outlooks) {
  const known = outlooks.length ? points : [];
  return { ...gain(known, (point) => uniformAt(outlooks, point.last_step)), steps: points.at(-1)?.last_step ?? 0 };
}

/**
 * Return the gain over uniform sampling: how many times as many effective tasks were found, how many rollouts were spent,
 * and how many more uniform sampling would have needed; null where it would have found none.
 */
function gain(points, uniform) {
  const expected = total(points, (point) => point.reported * uniform(point));
  const spent = total(points, (point) => point.rollouts);
  if (!expected) return { times: null, saved: null, spent };
  const times = total(points, (point) => point.effective) / expected;
  return { times, saved: spent * (times - 1), spent };
}

/** Return by how much predicted success rates were off, on average over the rollouts of /calibration; null without any. */
export function calibrationError({ bins }) {
  const filled = bins.filter((bin) => bin.rollouts > 0);
  const rollouts = total(filled, (bin) => bin.rollouts);
  const off = total(filled, (bin) => bin.rollouts * Math.abs(bin.mean_prediction - bin.success_rate));
  return rollouts ? off / rollouts : null;
}
