// A course as a small line, for tables.

import { element } from "./dom.js";
import { percent } from "./format.js";

const WIDTH = 120;
const HEIGHT = 24;

/** Return a line of shares in [0, 1]; a dash where there are none. */
export function sparkline(shares) {
  const known = shares.filter((share) => share !== null);
  if (!known.length) return element("span", { class: "soft" }, "–");
  const across = (place) => 2 + (place / Math.max(known.length - 1, 1)) * (WIDTH - 4);
  const down = (share) => 2 + (1 - share) * (HEIGHT - 4);
  const points = known.map((share, place) => `${across(place).toFixed(1)},${down(share).toFixed(1)}`);
  const label = `effective task ratio, from ${percent(known[0])} to ${percent(known.at(-1))}`;
  return element(
    "svg:svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      width: WIDTH,
      height: HEIGHT,
      role: "img",
      "aria-label": label,
    },
    element("svg:polyline", { points: points.join(" ") }),
    element("svg:circle", { cx: across(known.length - 1), cy: down(known.at(-1)), r: 2.5 }),
  );
}
