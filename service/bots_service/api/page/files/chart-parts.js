// What painting, reading out and plotting a drawing have in common.

import { element, fill } from "./dom.js";
import { color } from "./themes.js";

export const DASHES = { solid: [], dash: [8, 5], dot: [2, 4], dashdot: [9, 4, 2, 4] };

/** Return a canvas' font, in CSS pixels. */
export const fontOf = (size = 12, weight = 400) => `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;

/** Return the series that are drawn. */
export const linesOf = ({ series = [] }) => series.filter((one) => one.drawn !== false);

/** Return the lines whose names stand at their ends, or in a legend; the only one of a chart needs none. */
export function namedOf(drawing) {
  const named = linesOf(drawing).filter((one) => !one.quiet && one.listed !== false && one.x.length > 0);
  return linesOf(drawing).length > 1 ? named : [];
}

/** Return a series' value at an x: the last one up to it; null before its first and beyond its last. */
export function valueAt({ x, y }, at) {
  if (!x.length || at < x[0] || at > x.at(-1)) return null;
  let [low, high] = [0, x.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (x[middle] <= at) low = middle;
    else high = middle - 1;
  }
  while (low > 0 && (y[low] ?? null) === null) low -= 1;
  return y[low] ?? null;
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Return a tick's text: as short as it may be. */
export function tickOf(axis, value) {
  if (axis.tick) return axis.tick(value);
  return Math.abs(value) >= 10000 ? short.format(value) : plain.format(value);
}

/** Write the names into the legend, which narrow charts show in place of labels. */
export function showLegend(legend, { drawing, narrow }) {
  legend.hidden = !narrow;
  fill(legend, ...namedOf(drawing).map((one) => element("li", {}, swatch(one), one.name)));
}

/** Return a small piece of a series' line. */
export function swatch({ paint, dash = "solid" }) {
  const line = element("svg:line", {
    x1: 0,
    x2: 22,
    y1: 5,
    y2: 5,
    "stroke-width": 2.5,
    "stroke-dasharray": DASHES[dash].join(" ") || null,
  });
  line.style.stroke = `var(--${paint})`;
  return element("svg:svg", { class: "swatch", width: 22, height: 10, "aria-hidden": "true" }, line);
}

/** Where a value lies on the canvas, in CSS pixels. */
export const across = (plot, x) => plot.valToPos(x, "x", true) / devicePixelRatio;
export const down = (plot, y) => plot.valToPos(y, "y", true) / devicePixelRatio;

/** Write text with a rim in the card's colour, so that it can be read over lines. */
export function write(context, text, x, y, { paint = "soft", align = "left", weight = 400 } = {}) {
  Object.assign(context, { font: fontOf(12, weight), textAlign: align, textBaseline: "middle", lineJoin: "round" });
  Object.assign(context, { strokeStyle: color("card"), lineWidth: 3, fillStyle: color(paint) });
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}
