// How far two runs' effective task ratios are apart, with a 95 % interval. No page, no service.

const Z = 1.959964; // standard deviations of a 95 % interval

const total = (points, name) => points.reduce((sum, point) => sum + point[name], 0);

/**
 * Return the difference of two runs' effective task ratios on the steps that both have closed: {mean, low, high, steps};
 * null without such steps. Both are points of curves; of a point that lies only partly within those steps the same part
 * counts. Each reported task counts as one independent observation.
 */
export function ratioDifference(points, baseline) {
  const first = Math.max(...[points, baseline].map((course) => course[0]?.first_step ?? Infinity));
  const last = Math.min(...[points, baseline].map((course) => course.at(-1)?.last_step ?? 0));
  const [own, other] = [points, baseline].map((course) => within(course, first, last));
  if (last < first || !own.reported || !other.reported) return null;
  return { ...difference(own, other), steps: last - first + 1 };
}

function within(points, first, last) {
  const parts = points.flatMap((point) => {
    const steps = Math.min(point.last_step, last) - Math.max(point.first_step, first) + 1;
    const share = steps / (point.last_step - point.first_step + 1);
    return steps > 0 ? [{ reported: point.reported * share, effective: point.effective * share }] : [];
  });
  return { reported: total(parts, "reported"), effective: total(parts, "effective") };
}

/** Return the difference of two proportions with Newcombe's interval (1998, method 10): it holds for few tasks too. */
function difference(own, other) {
  const [one, two] = [own, other].map(wilson);
  const mean = one.ratio - two.ratio;
  const below = Math.hypot(one.ratio - one.low, two.high - two.ratio);
  const above = Math.hypot(one.high - one.ratio, two.ratio - two.low);
  return { mean, low: mean - below, high: mean + above };
}

/** Return a proportion with Wilson's score interval. */
function wilson({ reported, effective }) {
  const ratio = effective / reported;
  const middle = (ratio + Z ** 2 / (2 * reported)) / (1 + Z ** 2 / reported);
  const spread = Math.sqrt((ratio * (1 - ratio)) / reported + Z ** 2 / (4 * reported ** 2));
  const half = (Z * spread) / (1 + Z ** 2 / reported);
  return { ratio, low: middle - half, high: middle + half };
}
