// Charts of lines, dots and heat maps: a figure with its gist in words, and its data as a table and as a file.
//
// A view makes its charts once, and draws them again whenever it knows more. A drawing has:
//   x, y     axes, {name, format, tick, integer, zero, most, range}. format: of a value, where it is read; tick: on the axis;
//            zero: x begins at 0 (y always does); most: y never ends above; range: [low, high] whatever the values are.
//   series   [{name, x, y, paint, dash, width, sizes, isGuide, isHidden, format}]. Each has x of its own, ascending; y may
//            hold null. sizes: radii of dots, drawn besides the line; isGuide: a line that only guides the eye; isHidden: it
//            is only read, not drawn; format: its own, otherwise that of y.
//   cells    a heat map: {x, values: [column][bin]}. Bins divide y's range evenly.
//   marks    [{at, name}], what happened at an x. targets: [{at, name}], lines across.
//   words    the gist: it stands below, and is what a screen reader reads in the chart's place.

import { element, fill, saveAs, say, table } from "./dom.js";
import { swatch } from "./drawings.js";
import { compact, count, percent, unbroken } from "./format.js";
import { plotOf } from "./plot.js";

/** The axis of steps, which all courses share. */
export const STEPS = { name: "step", format: count, integer: true };

export const ROLLOUTS = { name: "rollouts", format: compact, zero: true };

/** An axis of shares, from 0 to at most 1. */
export const SHARES = { name: "", format: percent, tick: (value) => unbroken(`${Math.round(100 * value)} %`), most: 1 };

const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
const MOST_ROWS = 200; // of the table; the file has all
const NEAR = 7; // pixels from a mark, within which it is read

/**
 * Return a chart: {node, draw}.
 * @param {string} title what it shows.
 * @param {string} about how to read it.
 * @param {string} look a class: "wide" is over both columns.
 */
export function chart(title, about, look = "") {
  const csv = element("button", { type: "button", "aria-label": `CSV: ${title}`, disabled: true }, "CSV");
  const legend = element("ul", { class: "legend" });
  const surface = element("div", {
    class: "plot",
    role: "img",
    tabindex: "0",
    "aria-label": title,
    "aria-busy": "true",
  });
  const spoken = element("p", { class: "unseen", role: "status" });
  const gist = element("figcaption", { class: "soft" });
  const rows = element("div");
  const data = element("details", {}, element("summary", {}, "Data"), rows);
  const node = element(
    "figure",
    { class: `card chart ${look}` },
    element("div", { class: "heading" }, element("h2", {}, title), csv),
    element("p", { class: "soft" }, about),
    legend,
    surface,
    spoken,
    gist,
    data,
  );
  let present = null; // the drawing, with the rows of its table
  let plot = null;
  let place = null; // of the row that is read; null: the last one

  /** Draw it, or draw it again. */
  function draw(drawing) {
    const told = drawing.series.filter((one) => !one.isGuide);
    present = { marks: [], targets: [], ...drawing, told, rows: joined(told) };
    say(gist, drawing.words);
    surface.setAttribute("aria-label", `${title}: ${drawing.words} Arrow keys read its values.`);
    csv.disabled = false;
    paint();
    showData();
  }

  function paint() {
    if (present === null || !surface.clientWidth) return;
    plot = plotOf(present, surface.clientWidth, surface.clientHeight);
    fill(surface, plot.node);
    surface.removeAttribute("aria-busy");
    read(place);
  }

  /** Show the values of a row; null: of the last one. */
  function read(wanted) {
    place = wanted;
    const row = present.rows.at(place ?? -1);
    plot.point(place === null || !row ? null : row[0]);
    fill(legend, row ? legendOf(present, row, plot.scale) : []);
  }

  function showData() {
    const shown = present.rows.slice(-MOST_ROWS).toReversed();
    const formats = [present.x.format, ...present.told.map((one) => one.format ?? present.y.format)];
    const written = shown.map((row) => row.map((value, column) => formats[column](value)));
    const columns = namesOf(present).map((name) => ({ name, number: true }));
    const left = `The last ${count(shown.length)} of ${count(present.rows.length)} rows; the CSV file has all.`;
    const rest = shown.length < present.rows.length ? element("p", { class: "soft" }, left) : null;
    if (data.open) fill(rows, table(`Data of ${title}`, columns, written), rest);
  }

  surface.addEventListener("pointermove", ({ clientX }) => {
    if (plot !== null && present.rows.length)
      read(nearest(present.rows, clientX - surface.getBoundingClientRect().left, plot.scale));
  });
  for (const leaving of ["pointerleave", "blur"]) surface.addEventListener(leaving, () => plot !== null && read(null));
  surface.addEventListener("keydown", (event) => {
    if (!(event.key in MOVES) || plot === null || !present.rows.length) return;
    event.preventDefault();
    const last = present.rows.length - 1;
    read(Math.max(0, Math.min(last, (place ?? last + 1) + MOVES[event.key])));
    say(spoken, legend.innerText.replaceAll("\n", " "));
  });
  data.addEventListener("toggle", () => present !== null && showData());
  csv.addEventListener("click", () => saveTable(title, namesOf(present), present.rows));
  new ResizeObserver(paint).observe(surface);
  return { node, draw };
}

const namesOf = ({ x, told }) => [x.name, ...told.map(({ name }) => name)];

/** Return rows of x and each series' value at it, null where it has none. */
function joined(series) {
  const rows = new Map();
  for (const [place, one] of series.entries())
    for (const [index, at] of one.x.entries()) {
      if (!rows.has(at)) rows.set(at, [at, ...Array(series.length).fill(null)]);
      rows.get(at)[place + 1] = one.y[index] ?? null;
    }
  return [...rows.values()].toSorted((one, other) => one[0] - other[0]);
}

function nearest(rows, left, { x }) {
  const far = rows.map(([at]) => Math.abs(x(at) - left));
  return far.indexOf(Math.min(...far));
}

const item = (...parts) => element("li", {}, parts);

/** Return what a row says: its x, each line's value, and what happened there. */
function legendOf({ x, y, told, marks }, [at, ...values], scale) {
  const near = marks.filter((mark) => Math.abs(scale.x(mark.at) - scale.x(at)) < NEAR);
  return [
    item(`${x.name} ${x.format(at)}`),
    told.map((one, place) =>
      item(
        one.isHidden ? null : swatch(one),
        ` ${one.name} `,
        element("b", {}, (one.format ?? y.format)(values[place])),
      ),
    ),
    near.map((mark) => item(`${mark.name} (${x.name} ${x.format(mark.at)})`)),
  ];
}

/** Save a table as a file of comma-separated values. */
function saveTable(title, names, rows) {
  const lines = [names.map(quoted), ...rows.map((row) => row.map((value) => value ?? ""))];
  const text = lines.map((line) => `${line.join(",")}\n`).join("");
  saveAs(`${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.csv`, new Blob([text], { type: "text/csv" }));
}

/** A spreadsheet must not take a name for a formula. */
const quoted = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
