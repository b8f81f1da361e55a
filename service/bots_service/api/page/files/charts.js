// Charts by plotly, which index.html loads before this module: in the theme's colours, with their gist in words.

import { element, say } from "./dom.js";
import { color } from "./themes.js";

const OPTIONS = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };

const drawings = new WeakMap(); // plot -> what draws it again
document.addEventListener("bots-theme", () => {
  for (const plot of document.querySelectorAll(".plot")) drawings.get(plot)?.();
});

/**
 * Return a chart: {node, draw}. Its gist stands below it, and is what a screen reader reads in its place.
 * @param {string} title what it shows.
 * @param {string} about how to read it.
 */
export function chart(title, about, { wide = false } = {}) {
  const plot = element("div", { class: "plot", role: "img", "aria-label": title });
  const gist = element("figcaption", { class: "gist" });
  const node = element(
    "figure",
    { class: wide ? "card chart wide" : "card chart" },
    element("h2", {}, title),
    element("p", { class: "soft" }, about),
    plot,
    gist,
  );
  /** Draw it. made: returns {traces, layout} in the present colours; words: its gist. */
  function draw(made, words) {
    if (!plot.isConnected) return; // its view is gone, and plotly would never let go of it
    const drawn = () => {
      const { traces, layout } = made();
      globalThis.Plotly.react(
        plot,
        traces,
        { ...frame(), ...layout, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) },
        OPTIONS,
      );
    };
    drawings.set(plot, drawn);
    drawn();
    say(gist, words);
    plot.setAttribute("aria-label", `${title}: ${words}`);
  }
  return { node, draw };
}

/** Return a line. points: {x, y}. */
export function line(name, points, { paint, dash = "solid", width = 2, ...rest }) {
  return {
    type: "scatter",
    mode: points.x.length > 1 ? "lines" : "markers",
    name,
    x: points.x,
    y: points.y,
    line: { color: paint, dash, width },
    marker: { color: paint },
    connectgaps: true,
    ...rest,
  };
}

/** The axis of steps, which all courses share. */
export const STEPS = { title: { text: "step", standoff: 8 }, rangemode: "tozero" };

/** An axis of shares, from 0 to 1. */
export const SHARES = { range: [0, 1], tickformat: ".0%" };

function frame() {
  return {
    autosize: true,
    height: 280,
    margin: { l: 52, r: 16, t: 8, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "inherit", size: 12, color: color("soft") },
    hovermode: "x unified",
    hoverlabel: { bgcolor: color("card"), bordercolor: color("rule"), font: { color: color("text") } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("text") } },
    dragmode: false,
  };
}

function axis(own) {
  return {
    gridcolor: color("rule"),
    linecolor: color("rule"),
    zeroline: false,
    fixedrange: true,
    automargin: true,
    ...own,
  };
}
