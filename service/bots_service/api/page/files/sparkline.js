// Small drawings of effective task ratios, for tables.

import { element } from "./dom.js";
import { UNKNOWN, percent } from "./format.js";

const WIDTH = 96;
const HEIGHT = 26;
const LEFT = 11; // of the line: the gauge is left of it
const GAUGE = 6; // its width
const LEAST_SPAN = 0.1; // of the scale: noise of a percent must not look like a leap

/**
 * Return a line of shares in [0, 1], over the range that they have; a dash where there are none. The gauge at its left
 * shows where that range lies between 0 and 100 %.
 */
export function sparkline(shares) {
  const known = shares.filter((share) => share !== null);
  if (!known.length) return element("span", { class: "soft unknown" }, UNKNOWN);
  const [low, high] = rangeOf(known);
  const across = (place) => LEFT + (place / Math.max(known.length - 1, 1)) * (WIDTH - LEFT - 4);
  const down = (share) => 3 + ((high - share) / (high - low)) * (HEIGHT - 6);
  const points = known.map((share, place) => `${across(place).toFixed(1)},${down(share).toFixed(1)}`);
  const course = `effective task ratio, from ${percent(known[0])} to ${percent(known.at(-1))}`;
  const label = `${course}; gauge: its range, ${percent(low)} to ${percent(high)}, between 0 and ${percent(1)}`;
  return element(
    "svg:svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      width: WIDTH,
      height: HEIGHT,
      role: "img",
      "aria-label": label,
    },
    element("svg:title", {}, label),
    element("svg:rect", { class: "band", x: LEFT - 2, y: 0, width: WIDTH - LEFT + 2, height: HEIGHT, rx: 3 }),
    gaugeBars(low, high),
    element("svg:polyline", { points: points.join(" ") }),
    element("svg:circle", { cx: across(known.length - 1), cy: down(known.at(-1)), r: 2.5 }),
  );
}

/** Return where a range lies between 0 and 100 %, as two bars. */
const gaugeBars = (low, high) => [
  gaugeBar("gauge", 0, HEIGHT),
  gaugeBar("range", (1 - high) * HEIGHT, (high - low) * HEIGHT),
];
const gaugeBar = (kind, y, height) => element("svg:rect", { class: kind, x: 0, y, width: GAUGE, height, rx: 2 });

/** Return the gauge of a trend alone, for the table's key. */
export const gauge = (low, high) => keyPicture("sparkline", GAUGE, HEIGHT, gaugeBars(low, high));

/** Return the tick of a ratio's bar alone, for the table's key. */
export const ratioTick = () =>
  keyPicture("ratio-bar", 3, BAR.height, element("svg:rect", { class: "tick", width: 3, height: BAR.height, rx: 1 }));

const keyPicture = (kind, width, height, shapes) =>
  element("svg:svg", { class: kind, viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, shapes);

/** Return the ends of a scale within [0, 1] on which shares fill the height. */
function rangeOf(shares) {
  const [low, high] = [Math.min(...shares), Math.max(...shares)];
  const rest = Math.max(LEAST_SPAN - (high - low), 0) / 2;
  const start = Math.min(Math.max(low - rest, 0), 1 - LEAST_SPAN);
  return [start, Math.min(Math.max(high + rest, start + LEAST_SPAN), 1)];
}

const BAR = { width: 88, height: 14 };

/** Return a ratio as a bar between 0 and 100 %, with a tick for uniform sampling; either may be null. */
export function ratioBar(ratio, uniform) {
  const { width, height } = BAR;
  const label = uniform === null ? "no value for uniform sampling" : `uniform sampling: ${percent(uniform)}`;
  const tick =
    uniform === null
      ? null
      : element("svg:rect", { class: "tick", x: uniform * (width - 3), y: 0, width: 3, height, rx: 1 });
  return element(
    "svg:svg",
    { class: "ratio-bar", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    element("svg:title", {}, label),
    element("svg:rect", { class: "band", x: 0, y: 3, width, height: height - 6, rx: 4 }),
    element("svg:rect", { class: "filled", x: 0, y: 3, width: (ratio ?? 0) * width, height: height - 6, rx: 4 }),
    tick,
  );
}
