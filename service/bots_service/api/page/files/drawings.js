// Small pictures within tables and lines of text.

import { element } from "./dom.js";
import { UNKNOWN, decimal, percent } from "./format.js";

const PAINTS = ["accent", "other", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];
const DASHES = { solid: null, dash: "8 5", dot: "2 4", dashdot: "9 4 2 4" };

/** How many lines a chart can tell apart. */
export const STYLES = PAINTS.length;

/** Return how the line at a place is drawn, {paint, dash}: neighbours differ in both. */
export const styleOf = (place) => ({ paint: PAINTS[place % STYLES], dash: Object.keys(DASHES)[place % 4] });

/** Return a line's look as attributes. paint: the name of a colour; dash: solid, dash, dot or dashdot. */
export const stroke = ({ paint, dash = "solid", width = 2 }) => ({
  stroke: `var(--${paint})`,
  "stroke-width": width,
  "stroke-dasharray": DASHES[dash],
  fill: "none",
});

function picture(width, height, label, ...shapes) {
  const named = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  const title = label ? element("svg:title", {}, label) : null;
  return element("svg:svg", { viewBox: `0 0 ${width} ${height}`, width, height, ...named }, title, shapes);
}

/** Return a small piece of a line. */
export const swatch = (style) => picture(22, 10, "", element("svg:path", { d: "M0 5H22", ...stroke(style) }));

const shape = (kind, x, width, y = 3, height = 8) => element("svg:rect", { class: kind, x, y, width, height, rx: 2 });

/** Return a share as a bar with its number, and a tick at what it is compared with, null for none. what: names that. */
export function bar(share, other = null, what = "") {
  if (share === null) return UNKNOWN;
  const label = other === null ? "" : `${what}: ${percent(other)}`;
  const tick = other === null ? null : shape("tick", other * 85, 3, 0, 14);
  return [picture(88, 14, label, shape("whole", 0, 88), shape("part", 0, share * 88), tick), ` ${percent(share)}`];
}

/** Return a course of shares as a line between 0 and 1, as those of other rows; a dash where there are none. */
export function sparkline(shares) {
  const known = shares.filter((share) => share !== null);
  if (!known.length) return UNKNOWN;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const across = (place) => 2 + (place / Math.max(known.length - 1, 1)) * 92;
  const points = known.map((share, place) => `${across(place).toFixed(1)},${(23 - 20 * share).toFixed(1)}`).join(" ");
  const label = `from ${percent(known[0])} to ${percent(known.at(-1))}, between ${percent(low)} and ${percent(high)}`;
  return picture(96, 26, label, element("svg:polyline", { points, ...stroke({ paint: "accent", width: 1.75 }) }));
}

const onScale = (value) => 4 + 172 * value; // with room for a mark at either end

/** Return a task's interval as a bar, with its mean as a dot, and the target. */
export function interval({ interval: [low, high], mean }, target) {
  const label = `between ${decimal(low, 2)} and ${decimal(high, 2)}, mean ${decimal(mean, 2)}`;
  return picture(
    180,
    16,
    label,
    element("svg:path", { d: "M4 8H176", ...stroke({ paint: "rule" }) }),
    element("svg:rect", {
      class: "range",
      x: onScale(low),
      y: 4,
      width: Math.max(onScale(high) - onScale(low), 2),
      height: 8,
      rx: 4,
    }),
    element("svg:path", { d: `M${onScale(target)} 0V16`, ...stroke({ paint: "other", dash: "dot" }) }),
    element("svg:circle", { class: "part", cx: onScale(mean), cy: 8, r: 4.5 }),
  );
}

/** Return amounts as parts of one bar. parts: [{kind, amount}], of which each can be seen, however small it is. */
export function stacked(parts, label) {
  const present = parts.filter(({ amount }) => amount > 0);
  const whole = present.reduce((sum, { amount }) => sum + amount, 0);
  const room = 1000 - 7 * present.length;
  let x = 0;
  const shapes = present.map(({ kind, amount }) => {
    const width = 4 + (room * amount) / whole;
    const part = element("svg:rect", { "data-segment": kind, x, width, height: 10 });
    x += width + 3;
    return part;
  });
  const node = picture(1000, 10, label, shapes);
  node.setAttribute("preserveAspectRatio", "none");
  node.setAttribute("class", "stacked");
  return node;
}
