// The read-out: what all series are at the step under the pointer, or where the arrow keys went.

import { scaled } from "./chart-zoom.js";
import { swatch, valueAt } from "./chart-parts.js";
import { element, fill, say } from "./dom.js";

const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
const NEAR = 6; // pixels from a mark, within which the read-out names it

/** Let the pointer and the keyboard read a plot. plot: returns the present one. Returns what uPlot calls at each move. */
export function followCursor({ surface, spoken }, seen, plot) {
  const box = element("div", { class: "readout", hidden: true });
  surface.append(box);

  function show(moved) {
    const { idx: index, left } = moved.cursor;
    box.hidden = index === null || index === undefined || left < 0;
    if (box.hidden) return;
    fill(box, ...linesAt(moved, seen, index));
    place(box, moved, surface);
  }
  surface.addEventListener("blur", () => (box.hidden = true));
  surface.addEventListener("keydown", (event) => {
    if (plot() === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!pressed(event.key, plot(), seen)) return;
    event.preventDefault();
    say(spoken, box.hidden ? "" : box.innerText.replaceAll("\n", " "));
  });
  return show;
}

/** Do what a key means; returns whether it means anything. */
function pressed(key, plot, { zoom, drawing }) {
  if (key === "Escape") zoom.set(null);
  else if (key === "+" || key === "-") zoom.set(scaled(zoom.range, ends(plot), key === "+" ? 0.5 : 2));
  else if (key in MOVES) moveAcross(plot, MOVES[key]);
  else if (drawing.cells && (key === "ArrowUp" || key === "ArrowDown"))
    moveUp(plot, drawing.cells.bins, key === "ArrowUp" ? 1 : -1);
  else return false;
  return true;
}

const ends = (plot) => [plot.data[0][0], plot.data[0].at(-1)];

/** Go so many points on, within what is shown. */
function moveAcross(plot, points) {
  const [xs, { min, max }] = [plot.data[0], plot.scales.x];
  const first = xs.findIndex((x) => x >= min);
  const last = xs.findLastIndex((x) => x <= max);
  const present = plot.cursor.left >= 0 ? plot.cursor.idx : points > 0 ? first - 1 : last + 1;
  const index = Math.max(first, Math.min(last, present + points));
  const top = plot.cursor.top >= 0 ? plot.cursor.top : plot.over.clientHeight / 2;
  if (index >= 0 && first >= 0) plot.setCursor({ left: plot.valToPos(xs[index], "x"), top });
}

function moveUp(plot, bins, by) {
  const height = plot.over.clientHeight;
  const bin = Math.max(0, Math.min(bins - 1, binAt(plot, bins) + by));
  plot.setCursor({ left: Math.max(plot.cursor.left, 0), top: height * (1 - (bin + 0.5) / bins) });
}

/** The bin of a heat map that the cursor is in. */
function binAt({ cursor, over }, bins) {
  const share = 1 - Math.max(cursor.top, 0) / over.clientHeight;
  return Math.min(bins - 1, Math.max(0, Math.floor(share * bins)));
}

function linesAt(plot, { drawing }, index) {
  const { x, y, series = [], cells, marks = [] } = drawing;
  const at = plot.data[0][index];
  const near = marks.filter((mark) => Math.abs(plot.valToPos(mark.at, "x") - plot.valToPos(at, "x")) <= NEAR);
  const listed = series.filter((one) => one.listed !== false);
  return [
    element("p", { class: "soft" }, `${x.name} ${x.format(at)}`),
    ...(cells ? [cellAt(plot, cells, index)] : listed.map((one) => seriesAt(one, y, at))),
    ...near.map((mark) => element("p", {}, `${mark.name} (${x.name} ${x.format(mark.at)})`)),
  ];
}

function seriesAt(one, y, at) {
  const value = (one.format ?? y.format)(valueAt(one, at));
  return element("p", {}, one.drawn === false ? null : swatch(one), `${one.name} `, element("b", {}, value));
}

function cellAt(plot, { bins, values, name, format }, index) {
  const bin = binAt(plot, bins);
  const edges = [bin, bin + 1].map((edge) => (edge / bins).toFixed(2)).join(" to ");
  return element("p", {}, `${edges} `, element("b", {}, format(values[bin][index])), ` ${name}`);
}

/** Put the box next to the cursor, on the side with more room. */
function place(box, plot, surface) {
  const shift = plot.over.offsetLeft + plot.cursor.left;
  const isRight = plot.cursor.left > plot.over.clientWidth / 2;
  const left = isRight ? shift - box.offsetWidth - 14 : shift + 14;
  const most = surface.clientWidth - box.offsetWidth;
  box.style.transform = `translate(${Math.max(0, Math.min(most, left))}px, 8px)`;
}
