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

/** Return what uniform choice could expect at a step: as the last outlook before it says, else the first. */
export function uniformAt(outlooks, step) {
  let found = null;
  for (const outlook of outlooks) {
    if (found !== null && outlook.step > step) break;
    found = outlook.uniform_effective_task_ratio;
  }
  return found;
}

/**
 * Return how many more rollouts uniform choice would have needed for as many effective tasks, by the belief.
 * Null where no outlook says what uniform choice could expect.
 */
export function rolloutsSaved(points, outlooks) {
  if (!outlooks.length || !points.length) return null;
  return points.reduce((saved, point) => {
    const uniform = uniformAt(outlooks, point.last_step);
    if (!point.reported || !uniform) return saved;
    return saved + (point.effective / uniform - point.reported) * (point.rollouts / point.reported);
  }, 0);
}

/** Return a mean over the rollouts of the last RECENT steps, null without any. name: of a property of points. */
export function recentMean(points, name) {
  const last = points.at(-1)?.last_step ?? 0;
  const told = points.filter((point) => point.last_step > last - RECENT && point[name] !== null);
  const rollouts = told.reduce((sum, point) => sum + point.rollouts, 0);
  return rollouts ? told.reduce((sum, point) => sum + point[name] * point.rollouts, 0) / rollouts : null;
}
