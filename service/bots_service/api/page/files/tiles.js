// The numbers at the top of a run: four that say what it brings, and the rest on a line.

import { element } from "./dom.js";
import { UNKNOWN } from "./format.js";

/**
 * Return a tile.
 * @param {string} name what it tells.
 * @param {string} value in words.
 * @param {string} about how it is to be read.
 * @param {object} more delta: {text, direction: up|down|even}, against an earlier time; drawing: a small picture.
 */
export function tile(name, value, about, { delta = null, drawing = null } = {}) {
  return element(
    "div",
    { class: "tile" },
    element("dt", {}, name),
    element(
      "dd",
      {},
      element("span", { class: "value" }, value),
      delta && element("span", { class: "delta", "data-direction": delta.direction }, delta.text),
      drawing,
      element("span", { class: "soft" }, about),
    ),
  );
}

const ARROWS = { up: "▲", down: "▼" };

/** Return by how many percentage points a share has changed; null where either is unknown. */
export function pointsDelta(now, before, about) {
  if ((now ?? null) === null || (before ?? null) === null) return null;
  const size = Math.abs(100 * (now - before)).toFixed(1);
  if (Number(size) === 0) return { text: `no change ${about}`, direction: "even" };
  const direction = now > before ? "up" : "down";
  return { text: `${ARROWS[direction]} ${size} points ${about}`, direction };
}

/** Return a name and a value for the line of facts; without a value a dash. */
export const fact = (name, value, about = null) =>
  element("div", { title: about }, element("dt", {}, name), element("dd", {}, value ?? UNKNOWN));

const WIDTH = 200;
const HEIGHT = 36;

/** Return a course as a line over the range that it has, with its last point; null where it has no two points. */
export function course(values, label) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const across = (place) => (place / (known.length - 1)) * WIDTH;
  const down = (value) => 3 + ((high - value) / (high - low || 1)) * (HEIGHT - 6);
  const points = known.map((value, place) => `${across(place).toFixed(1)},${down(value).toFixed(1)}`).join(" ");
  return picture(
    label,
    element("svg:polygon", { points: `0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}` }),
    element("svg:polyline", { points }),
  );
}

/** Return two amounts as bars from a common zero. */
export function bars(own, other, label) {
  if ((own ?? null) === null || (other ?? null) === null) return null;
  const scale = WIDTH / (Math.max(own, other) || 1);
  const bar = (kind, value, top) =>
    element("svg:rect", { class: kind, x: 0, y: top, width: Math.max(1, value * scale), height: 12, rx: 2 });
  return picture(label, bar("own", own, 4), bar("other", other, 20));
}

function picture(label, ...shapes) {
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
  return element("svg:svg", { class: "drawing", ...size, role: "img", "aria-label": label }, shapes);
}
