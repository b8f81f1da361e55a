// A chart's drawing as SVG: axes, lines, dots, heat maps, marks and targets.

import { element } from "./dom.js";
import { stroke } from "./drawings.js";
import { compact } from "./format.js";

const SHADES = 16; // of a heat map
const LETTER = 7; // pixels, about

/**
 * Return a drawing in a size: {node, scale, point}. drawing: as charts.js has it; scale: {x, y}, from a value to its pixel;
 * point: draws a line at an x; null takes it away.
 */
export function plotOf(drawing, width, height) {
  const { x, y, rows, marks, targets, cells } = drawing;
  const drawn = drawing.series.filter((one) => !one.isHidden);
  const ranges = { x: across(x, rows), y: upwards(y, drawn) };
  const upTicks = ticks(ranges.y, height / 50, false).map((at) => ({ at, text: tickText(y, at) }));
  const box = { left: 12 + LETTER * Math.max(...upTicks.map(({ text }) => text.length)), top: y.name ? 24 : 8 };
  Object.assign(box, { right: width - 14, bottom: height - 40 });
  const scale = { x: between(ranges.x, box.left, box.right), y: between(ranges.y, box.bottom, box.top) };
  const pointer = line("pointer", "");
  const node = element(
    "svg:svg",
    { width, height, "aria-hidden": "true" },
    cells ? heat(cells, scale, ranges.y) : null,
    upTicks.map(({ at, text: words }) => [
      line("grid", `M${box.left} ${scale.y(at)}H${box.right}`),
      text("end", box.left - 6, scale.y(at) + 4, words),
    ]),
    ticks(ranges.x, width / 75, x.integer).map((at) => [
      line("grid", `M${scale.x(at)} ${box.top}V${box.bottom}`),
      text("middle", scale.x(at), box.bottom + 16, tickText(x, at)),
    ]),
    text("middle", (box.left + box.right) / 2, box.bottom + 34, x.name),
    text("", 4, 14, y.name),
    drawn.map((one) => courseOf(one, scale)),
    targets.map(({ at, name }) => [
      line("", `M${box.left} ${scale.y(at)}H${box.right}`, stroke({ paint: "other", dash: "dot" })),
      text("named", box.left + 6, scale.y(at) - 6, name),
    ]),
    marks.map(({ at, name }, place) => [
      line("pointer", `M${scale.x(at)} ${box.top}V${box.bottom}`),
      text("named", scale.x(at) + 4, box.top + 12 + 14 * (place % 3), name),
    ]),
    pointer,
  );
  const point = (at) => pointer.setAttribute("d", at === null ? "" : `M${scale.x(at)} ${box.top}V${box.bottom}`);
  return { node, scale, point };
}

/** Return the scale from a range to another one. */
const between =
  ([low, high], from, to) =>
  (value) =>
    Math.round(10 * (from + ((value - low) / (high - low)) * (to - from))) / 10;

const line = (look, d, attributes = {}) => element("svg:path", { class: look, d, ...attributes });
const text = (look, left, top, words) => element("svg:text", { class: look, x: left, y: top }, words);

function across(axis, rows) {
  if (axis.range) return axis.range;
  const [first, last] = [axis.zero ? 0 : (rows[0]?.[0] ?? 0), rows.at(-1)?.[0] ?? 1];
  return first === last ? [first - 1, last + 1] : [first, last];
}

function upwards(axis, drawn) {
  const most = drawn.reduce((high, one) => one.y.reduce((higher, value) => Math.max(higher, value ?? 0), high), 0);
  return axis.range ?? [0, Math.min(axis.most ?? Infinity, 1.08 * most || 1)];
}

/** Return round numbers within a range, at most so many. */
function ticks([low, high], most, isInteger) {
  const least = (high - low) / Math.max(most, 2);
  const power = 10 ** Math.floor(Math.log10(least));
  const found = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= least);
  const size = isInteger ? Math.max(found, 1) : found;
  const first = Math.ceil(low / size);
  return Array.from({ length: Math.floor(high / size) - first + 1 }, (_, place) => (first + place) * size);
}

function tickText(axis, value) {
  if (axis.tick) return axis.tick(value);
  return Math.abs(value) >= 10000 ? compact(value) : String(Number(value.toFixed(4)));
}

function courseOf({ x, y, sizes, ...style }, scale) {
  const points = x.map((at, place) => [at, y[place], place]).filter(([, value]) => (value ?? null) !== null);
  const dot = ([at, value, place]) =>
    element("svg:circle", {
      cx: scale.x(at),
      cy: scale.y(value),
      r: sizes?.[place] ?? 4,
      fill: `var(--${style.paint})`,
    });
  const course = points.map(([at, value]) => `${scale.x(at)} ${scale.y(value)}`).join("L");
  return [
    element("svg:path", { d: course && `M${course}`, ...stroke(style) }),
    sizes || points.length === 1 ? points.map(dot) : null,
  ];
}

/** Return a heat map: a column reaches halfway to its neighbours, and the stronger its colour, the larger the value. */
function heat({ x, values }, scale, [low, high]) {
  const most = Math.max(...values.flat(), 0);
  const shapes = Array(SHADES + 1).fill("");
  const edge = (place) => scale.x(place === 0 ? x[0] : place === x.length ? x.at(-1) : (x[place - 1] + x[place]) / 2);
  for (const [place, column] of values.entries())
    for (const [bin, value] of column.entries()) {
      const [bottom, top] = [bin, bin + 1].map((part) => scale.y(low + ((high - low) * part) / column.length));
      const shape = `M${edge(place)} ${top}H${edge(place + 1)}V${bottom}H${edge(place)}Z`;
      shapes[Math.round(SHADES * Math.sqrt(value / most || 0))] += shape;
    }
  return shapes.map((d, shade) => element("svg:path", { class: "part", d, "fill-opacity": shade / SHADES }));
}
