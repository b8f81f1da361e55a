// What a chart draws, as a table: to read, and to save.

import { element, table } from "./dom.js";
import { count } from "./format.js";

const MOST_ROWS = 200; // of a table on the page; the saved one has all

/**
 * Return a drawing as a table: {columns: [{name, format}], rows: [[number|null]]}, by x.
 * Guides are left out: they are the same at every x, or tell nothing of the run.
 */
export function tableOf({ x, y, series = [], cells = null }) {
  if (cells) return cellsTable(x, cells);
  const listed = series.filter((one) => one.listed !== false);
  const columns = [x, ...listed.map((one) => ({ name: one.name, format: one.format ?? y.format }))];
  return { columns, rows: joined(listed) };
}

/** Return rows of x and each series' value at it, null where it has none. */
export function joined(series) {
  const rows = new Map();
  for (const [place, one] of series.entries())
    for (const [index, at] of one.x.entries()) {
      if (!rows.has(at)) rows.set(at, [at, ...Array(series.length).fill(null)]);
      rows.get(at)[place + 1] = one.y[index] ?? null;
    }
  return [...rows.values()].toSorted((one, other) => one[0] - other[0]);
}

function cellsTable(x, { x: at, bins, values, format }) {
  const edge = (bin) => (bin / bins).toFixed(2);
  const columns = [x, ...values.map((_, bin) => ({ name: `${edge(bin)} to ${edge(bin + 1)}`, format }))];
  return { columns, rows: at.map((step, column) => [step, ...values.map((row) => row[column])]) };
}

/** Return a table's newest rows within a range of x, as elements. */
export function showTable(title, { columns, rows }, range) {
  const within = range === null ? rows : rows.filter(([x]) => x >= range[0] && x <= range[1]);
  const shown = within.slice(-MOST_ROWS).toReversed();
  const written = shown.map((row) => row.map((value, place) => columns[place].format(value)));
  const head = columns.map(({ name }) => ({ name, number: true }));
  const region = { class: "scroll rows", tabindex: "0", role: "region", "aria-label": `Data of ${title}` };
  const left = within.length - shown.length;
  return [
    element("div", region, table(`Data of ${title}`, head, written)),
    left
      ? element(
          "p",
          { class: "soft" },
          `The last ${count(shown.length)} of ${count(within.length)} rows; the CSV file has all.`,
        )
      : null,
  ];
}

/** Save a table as a file of comma-separated values. */
export function saveTable(title, { columns, rows }) {
  const lines = [columns.map(({ name }) => quoted(name)), ...rows.map((row) => row.map((value) => value ?? ""))];
  save(new Blob([lines.map((line) => `${line.join(",")}\n`).join("")], { type: "text/csv" }), title, "csv");
}

/** A spreadsheet must not take a name for a formula. */
const quoted = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;

/** Let the browser save a file under a chart's title. */
export function save(blob, title, ending) {
  const href = URL.createObjectURL(blob);
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  element("a", { href, download: `${name}.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(href));
}
