// Charts: a figure with a title, its gist in words, its data as a table, and buttons to save it.
//
// A view makes its charts once, and draws them again whenever it knows more:
//
//   const zoom = sharedZoom();                                  // one for all charts of a view whose x means the same
//   const ratios = chart("Effective task ratio", "How to read it.", { wide: true, zoom });
//   view.append(ratios.node);
//   ratios.draw({ x: STEPS, y: SHARES, series: [{ name: "this run", x: [1, 2], y: [0.4, 0.5], ...styleOf(0) }], words });
//
// A drawing has:
//   x, y     axes, {name, format, tick, integer, zero, most, range}. format: of a value, in read-outs and tables; tick: on the axis;
//            zero: it begins at 0; most: it never ends above; range: [low, high] whatever the values are.
//   series   [{name, x, y, paint, dash, width, quiet, sizes, listed, drawn, format}]. Each has x of its own, ascending; y may
//            hold null. paint: a name in colors.css; dash: solid, dash, dot or dashdot; quiet: no label at its end;
//            sizes: radii of dots, drawn besides the line; listed: false for a line that only guides the eye;
//            drawn: false for what only read-outs and tables tell; format: its own, otherwise that of y.
//   cells    a heat map in place of series: {x, bins, values: [bin][column], name, format}. Bins divide y's range evenly.
//   marks    [{at, name}], what happened at an x. targets: [{at, name}], lines across.
//   words    the gist: it stands below, and is what a screen reader reads in the chart's place.

import { saveTable, showTable, tableOf } from "./chart-data.js";
import { sharedZoom } from "./chart-zoom.js";
import { element, fill, say } from "./dom.js";
import { compact, count, decimal, percent, unbroken } from "./format.js";

export { sharedZoom };

/** The axis of steps, which all courses share. */
export const STEPS = { name: "step", format: count, integer: true };

export const ROLLOUTS = { name: "rollouts", format: compact, zero: true };

/** An axis of shares, from 0 to at most 1. */
export const SHARES = {
  name: "",
  format: percent,
  tick: (value) => unbroken(`${Math.round(100 * value)} %`),
  zero: true,
  most: 1,
};

/** An axis of plain numbers. */
export const NUMBERS = { name: "", format: decimal };

const PAINTS = ["accent", "other", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];
const DASHES = ["solid", "dash", "dot", "dashdot"];

/** How many runs a chart can tell apart. */
export const STYLES = PAINTS.length;

/** Return how the series at a place is drawn, {paint, dash}: neighbours differ in both. */
export const styleOf = (place) => ({ paint: PAINTS[place % STYLES], dash: DASHES[place % DASHES.length] });

const KEYS = "Arrow keys read its values, plus and minus zoom, Escape shows all.";
const LOST = "The part that draws charts did not load. Here are the numbers; reload the page to try again.";

/**
 * Return a chart: {node, draw}.
 * @param {string} title what it shows.
 * @param {string} about how to read it.
 * @param {object} options wide: over both columns; zoom: a range of x that other charts share.
 */
export function chart(title, about, { wide = false, zoom = sharedZoom() } = {}) {
  const parts = frame(title, about, wide);
  let present = null; // the drawing
  let plot = null;

  /** Draw it, or draw it again. */
  async function draw(drawing) {
    present = drawing;
    say(parts.gist, drawing.words);
    parts.surface.setAttribute("aria-label", `${title}: ${drawing.words} ${KEYS}`);
    showData();
    try {
      const { openPlot } = await import("./chart-plot.js");
      if (!parts.surface.isConnected || present !== drawing) return; // its view is gone, or knows more by now
      plot ??= openPlot(parts, zoom);
      plot.draw(drawing);
    } catch {
      say(parts.surface, LOST);
      parts.data.open = true;
    }
    parts.surface.removeAttribute("aria-busy");
    for (const button of parts.buttons) button.disabled = false;
    parts.png.disabled = plot === null;
  }

  function showData() {
    if (present === null || !parts.data.open) fill(parts.rows);
    else fill(parts.rows, ...showTable(title, tableOf(present), zoom.range));
  }
  parts.data.addEventListener("toggle", showData);
  parts.csv.addEventListener("click", () => saveTable(title, tableOf(present)));
  parts.png.addEventListener("click", () => plot.save(title));
  parts.reset.addEventListener("click", () => zoom.set(null));
  zoom.follow(() => {
    parts.reset.hidden = zoom.range === null;
    showData();
  });
  return { node: parts.node, draw };
}

function frame(title, about, wide) {
  const button = (name, attributes = {}) =>
    element("button", { type: "button", class: "small", "aria-label": `${name}: ${title}`, ...attributes }, name);
  const reset = button("Reset zoom", { hidden: true });
  const [csv, png] = [button("CSV", { disabled: true }), button("PNG", { disabled: true })];
  const spoken = element("p", { class: "unseen", role: "status" });
  const legend = element("ul", { class: "legend", hidden: true });
  const surface = element("div", {
    class: "plot",
    role: "img",
    tabindex: "0",
    "aria-label": title,
    "aria-busy": "true",
  });
  const gist = element("figcaption", { class: "gist" });
  const rows = element("div");
  const data = element("details", { class: "data" }, element("summary", {}, "Data"), rows);
  const heading = element(
    "div",
    { class: "heading" },
    element("h2", {}, title),
    element("span", { class: "grow" }),
    reset,
    csv,
    png,
  );
  const node = element(
    "figure",
    { class: wide ? "card chart wide" : "card chart" },
    heading,
    element("p", { class: "soft" }, about),
    surface,
    legend,
    spoken,
    gist,
    data,
  );
  return { node, surface, legend, spoken, gist, data, rows, reset, csv, png, buttons: [csv, png] };
}
