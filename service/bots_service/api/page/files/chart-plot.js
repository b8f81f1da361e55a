// A drawing on a canvas, by uPlot. It is loaded after the numbers of a view: without it, charts show their tables.

import UPlot from "./uPlot.esm.js";
import { joined, save } from "./chart-data.js";
import { labelRoom, paintBelow, paintOver, picture } from "./chart-painting.js";
import { followCursor } from "./chart-readout.js";
import { DASHES, fontOf, linesOf, showLegend, tickOf } from "./chart-parts.js";
import { color } from "./themes.js";

const NARROW = 520; // pixels: below, names stand in a legend, since labels at the lines' ends would take too much
const INTEGERS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const ROOM = 0.08; // of the values' range, above and below

/**
 * Return what draws within a chart: {draw, save}. It ends once the chart has left the page.
 * @param {object} parts of the chart: {surface, legend, spoken}.
 * @param {object} zoom the range of x to show.
 */
export function openPlot(parts, zoom) {
  const seen = { drawing: null, rows: [], narrow: false, zoom };
  let plot = null;
  let shape = "";
  const moved = followCursor(parts, seen, () => plot);

  function draw(drawing) {
    Object.assign(seen, { drawing, rows: joined(linesOf(drawing)), narrow: parts.surface.clientWidth < NARROW });
    showLegend(parts.legend, seen);
    const wanted = shapeOf(drawing);
    if (plot === null || wanted !== shape) {
      plot?.destroy();
      plot = new UPlot(optionsOf(seen, parts, moved), columnsOf(seen), parts.surface);
      shape = wanted;
    } else plot.setData(columnsOf(seen));
  }

  function resized() {
    const { clientWidth: width, clientHeight: height, isConnected } = parts.surface;
    if (!isConnected) end();
    else if (width && plot !== null) {
      seen.narrow = width < NARROW;
      showLegend(parts.legend, seen);
      plot.setSize({ width, height });
    }
  }

  function end() {
    observer.disconnect();
    document.removeEventListener("bots-theme", redraw);
    plot?.destroy();
  }
  const redraw = () => plot?.redraw();
  const observer = new ResizeObserver(resized);
  observer.observe(parts.surface);
  document.addEventListener("bots-theme", redraw);
  zoom.follow(() => plot?.setData(columnsOf(seen)));
  return { draw, save: (title) => picture(title, plot, seen).toBlob((blob) => save(blob, title, "png")) };
}

/** What of a drawing asks for another plot: all but its values. */
function shapeOf(drawing) {
  const styles = linesOf(drawing).map((one) => [
    one.name,
    one.paint,
    one.dash,
    one.width,
    Boolean(one.sizes),
    one.x.length > 1,
  ]);
  return JSON.stringify([drawing.x.name, drawing.y.name, styles]);
}

/** Return uPlot's columns: x, and each series' values. A heat map has a column of nothing, and is painted over it. */
function columnsOf({ drawing, rows }) {
  if (drawing.cells) return [drawing.cells.x, drawing.cells.x.map(() => null)];
  const width = linesOf(drawing).length + 1;
  return Array.from({ length: width }, (_, place) => rows.map((row) => row[place]));
}

function optionsOf(seen, { surface }, moved) {
  const { x, y } = seen.drawing;
  return {
    width: surface.clientWidth,
    height: surface.clientHeight,
    legend: { show: false },
    padding: [10, () => labelRoom(seen), 0, 0],
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      points: { size: 7 },
      bind: { dblclick: () => () => (seen.zoom.set(null), null) },
    },
    scales: {
      x: { time: false, range: () => seen.zoom.range ?? extentOf(seen) },
      y: { range: (_, low, high) => rangeOf(seen.drawing, low, high) },
    },
    axes: [
      { ...axisOf(x), space: 64, size: 28 },
      { ...axisOf(y), space: 36, size: tickRoom },
    ],
    series: [{}, ...seriesOf(seen.drawing)],
    hooks: {
      drawAxes: [(plot) => paintBelow(plot, seen)],
      draw: [(plot) => paintOver(plot, seen)],
      setCursor: [moved],
      setSelect: [(plot) => zoomIn(plot, seen)],
    },
  };
}

function axisOf(axis) {
  return {
    label: axis.name || null,
    labelFont: fontOf(),
    labelSize: 18,
    labelGap: 0,
    font: fontOf(),
    stroke: () => color("soft"),
    grid: { stroke: () => color("rule"), width: 1 },
    ticks: { show: false },
    values: (_, ticks) => ticks.map((tick) => tickOf(axis, tick)),
    ...(axis.integer ? { incrs: INTEGERS } : {}),
  };
}

/** The room that an axis' longest number needs. */
function tickRoom(plot, ticks) {
  if (!ticks) return 40;
  plot.ctx.save();
  plot.ctx.font = fontOf();
  const widest = Math.max(...ticks.map((text) => plot.ctx.measureText(text).width));
  plot.ctx.restore();
  return Math.ceil(widest) + 14;
}

function seriesOf(drawing) {
  if (drawing.cells) return [{ paths: () => null, points: { show: false } }];
  return linesOf(drawing).map((one) => ({
    label: one.name,
    stroke: () => color(one.paint),
    width: one.width ?? 2,
    dash: DASHES[one.dash ?? "solid"],
    spanGaps: true,
    points: { show: one.x.length === 1 && !one.sizes, size: 7, fill: () => color(one.paint) },
  }));
}

function extentOf({ drawing, rows }) {
  if (drawing.x.range) return drawing.x.range;
  const all = drawing.cells ? drawing.cells.x : rows.map(([x]) => x);
  const [first, last] = [drawing.x.zero ? 0 : (all[0] ?? 0), all.at(-1) ?? 1];
  return first === last ? [first - 1, last + 1] : [first, last];
}

function rangeOf({ y, targets = [] }, low, high) {
  if (y.range) return y.range;
  if (low === null || low === undefined) return [0, y.most ?? 1];
  const [least, most] = [Math.min(low, ...targets.map(({ at }) => at)), Math.max(high, ...targets.map(({ at }) => at))];
  const room = ROOM * (most - least || Math.abs(most) || 1);
  return [y.zero && least >= 0 ? 0 : least - room, Math.min(most + room, y.most ?? Infinity)];
}

/** Show what was dragged over, if that is more than a click. */
function zoomIn(plot, { zoom }) {
  const { left, width } = plot.select;
  if (width < 6) return;
  const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoom.set(range);
}
