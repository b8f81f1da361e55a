// A heat map: how many tasks have which success probability, step by step, with the scale of its colours.

import { across, write } from "./chart-parts.js";
import { color } from "./themes.js";

/** The pixels that the scale needs at the right. */
export const SCALE_ROOM = 86;

const SHADES = 64;
const STOPS = [
  [0, "card"],
  [0.05, "heat-low"],
  [0.4, "accent"],
  [1, "heat-high"],
];

/** Return the colour of a share of a scale. */
function shade(share) {
  const above = Math.max(
    1,
    STOPS.findIndex(([end]) => share <= end),
  );
  const [[from, low], [to, high]] = [STOPS[above - 1], STOPS[above]];
  return mixed(channels(color(low)), channels(color(high)), (share - from) / (to - from));
}

const channels = (hex) => [1, 3, 5].map((place) => Number.parseInt(hex.slice(place, place + 2), 16));
const mixed = (low, high, part) =>
  `rgb(${low.map((value, place) => Math.round(value + part * (high[place] - value))).join(" ")})`;

const shades = () => Array.from({ length: SHADES + 1 }, (_, place) => shade(place / SHADES));
const highest = ({ values }) =>
  Math.max(...values.map((row) => row.reduce((most, value) => Math.max(most, value), 0))) || 1;

/** Paint a heat map: a column reaches halfway to its neighbours. */
export function paintCells(context, box, plot, cells) {
  const { x, bins, values } = cells;
  const [paints, most, height] = [shades(), highest(cells), box.height / bins];
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  const centers = x.map((at) => across(plot, at));
  const edge = (place) => {
    if (x.length === 1) return place ? box.right : box.left;
    if (place === 0 || place === x.length) return centers[Math.min(place, x.length - 1)];
    return (centers[place - 1] + centers[place]) / 2;
  };
  for (const place of x.keys()) {
    const [left, right] = [edge(place), edge(place + 1)];
    if (right < box.left || left > box.right) continue;
    for (let bin = 0; bin < bins; bin += 1) {
      context.fillStyle = paints[Math.round((SHADES * values[bin][place]) / most)];
      context.fillRect(left, box.bottom - (bin + 1) * height, right - left + 0.5, height - 1);
    }
  }
}

/** Paint the scale at the right, from nothing up to the highest share. */
export function paintScale(context, box, cells) {
  const [left, width] = [box.right + 14, 12];
  const height = box.bottom - box.top;
  for (const [place, paint] of shades().entries()) {
    context.fillStyle = paint;
    context.fillRect(left, box.bottom - ((place + 1) * height) / (SHADES + 1), width, height / (SHADES + 1) + 0.5);
  }
  Object.assign(context, { strokeStyle: color("edge"), lineWidth: 1 });
  context.strokeRect(left - 0.5, box.top - 0.5, width + 1, height + 1);
  write(context, cells.format(highest(cells)), left + width + 6, box.top + 6);
  write(context, cells.format(0), left + width + 6, box.bottom - 6);
}
