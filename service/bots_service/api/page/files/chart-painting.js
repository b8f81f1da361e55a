// What uPlot does not draw: labels at lines' ends, marks, targets, dots, heat maps with their scale; and the picture to save.

import { SCALE_ROOM, paintCells, paintScale } from "./chart-heat.js";
import { DASHES, across, down, fontOf, linesOf, namedOf, valueAt, write } from "./chart-parts.js";
import { color } from "./themes.js";

const LINE = 15; // pixels from a label to the next one
const GAP = 8;
const measuring = document.createElement("canvas").getContext("2d");

/** Return the pixels that labels, or the scale, need at the right. */
export function labelRoom({ drawing, narrow }) {
  if (drawing.cells) return SCALE_ROOM;
  const named = namedOf(drawing);
  if (narrow || !named.length) return 16;
  measuring.font = fontOf(12, 600);
  return Math.ceil(Math.max(...named.map(({ name }) => measuring.measureText(cut(name)).width))) + 2 * GAP;
}

const cut = (name) => (name.length > 26 ? `${name.slice(0, 25)}…` : name);

/** Paint what lies below the lines. */
export function paintBelow(plot, { drawing }) {
  painting(plot, (context, box) => {
    if (drawing.cells) paintCells(context, box, plot, drawing.cells);
  });
}

/** Paint what lies over the lines. */
export function paintOver(plot, { drawing, narrow }) {
  painting(plot, (context, box) => {
    for (const target of drawing.targets ?? []) paintTarget(context, box, plot, target);
    for (const one of linesOf(drawing)) if (one.sizes) paintDots(context, plot, one);
    paintMarks(context, box, plot, drawing.marks ?? []);
    if (drawing.cells) paintScale(context, box, drawing.cells);
    else if (!narrow) paintLabels(context, box, plot, drawing);
  });
}

/** Paint in CSS pixels; box: of the plot without its axes. */
function painting(plot, paint) {
  const { ctx: context, bbox } = plot;
  const ratio = devicePixelRatio;
  const box = {
    left: bbox.left / ratio,
    top: bbox.top / ratio,
    width: bbox.width / ratio,
    height: bbox.height / ratio,
  };
  context.save();
  context.scale(ratio, ratio);
  paint(context, { ...box, right: box.left + box.width, bottom: box.top + box.height });
  context.restore();
}

function stroke(context, paint, dash, width, points) {
  Object.assign(context, { strokeStyle: color(paint), lineWidth: width });
  context.setLineDash(DASHES[dash]);
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
  context.setLineDash([]);
}

function paintTarget(context, box, plot, { at, name }) {
  const y = down(plot, at);
  stroke(context, "other", "dot", 2, [
    [box.left, y],
    [box.right, y],
  ]);
  write(context, name, box.left + 6, y - 9, { paint: "other", weight: 600 });
}

function paintDots(context, plot, { x, y, sizes, paint }) {
  context.fillStyle = color(paint);
  for (const [place, at] of x.entries()) {
    context.beginPath();
    context.arc(across(plot, at), down(plot, y[place]), sizes[place], 0, 2 * Math.PI);
    context.fill();
  }
}

/** Paint what happened; a name stands next to its line where the one before leaves room for it. */
function paintMarks(context, box, plot, marks) {
  let taken = box.left;
  for (const { at, name } of marks) {
    const x = across(plot, at);
    if (x < box.left || x > box.right) continue;
    stroke(context, "soft", "dash", 1, [
      [x, box.top],
      [x, box.bottom],
    ]);
    context.font = fontOf();
    const end = x + 4 + context.measureText(name).width;
    if (x < taken || end > box.right) continue;
    write(context, name, x + 4, box.top + 8);
    taken = end + GAP;
  }
}

/** Write each line's name at its end, apart from each other. */
function paintLabels(context, box, plot, drawing) {
  const { max } = plot.scales.x;
  const labels = namedOf(drawing).flatMap((one) => {
    const value = valueAt(one, Math.min(max, one.x.at(-1)));
    return value === null ? [] : [{ one, y: down(plot, value) }];
  });
  for (const { one, y } of apart(labels, box))
    write(context, cut(one.name), box.right + GAP, y, { paint: one.paint, weight: 600 });
}

/** Move labels down, and where that leaves the box up again, until none covers another. */
function apart(labels, { top, bottom }) {
  const sorted = labels.toSorted((one, other) => one.y - other.y);
  let least = top + LINE / 2;
  for (const label of sorted) {
    label.y = Math.max(label.y, least);
    least = label.y + LINE;
  }
  let most = bottom - LINE / 2;
  for (const label of sorted.toReversed()) {
    label.y = Math.min(label.y, most);
    most = label.y - LINE;
  }
  return sorted;
}

/** Return a canvas with a plot as it is shown, under its title and on the card's colour. */
export function picture(title, plot, { drawing, narrow }) {
  const [source, ratio] = [plot.ctx.canvas, devicePixelRatio];
  const named = narrow ? namedOf(drawing) : [];
  const head = 36 + LINE * named.length;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: source.width, height: source.height + head * ratio });
  const context = canvas.getContext("2d");
  context.fillStyle = color("card");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, head * ratio);
  context.scale(ratio, ratio);
  write(context, title, GAP, 18, { paint: "text", weight: 600 });
  for (const [place, one] of named.entries())
    write(context, one.name, GAP, 36 + LINE * place, { paint: one.paint, weight: 600 });
  return canvas;
}
