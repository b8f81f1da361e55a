// Whether a run is training, as an icon and a word: colour alone says nothing to many.

import { element } from "./dom.js";

export const STATUSES = ["running", "stalled", "idle", "new"];

const MEANINGS = {
  running: "The last step is as recent as usual.",
  stalled: "The last step is much older than usual. Look at the trainer.",
  idle: "No step for a long time.",
  new: "No step has closed yet.",
};
const ICONS = {
  running: "M3 1.5 10.5 6 3 10.5Z",
  stalled: "M6 .8 11.6 11H.4ZM5.4 4.4l.2 3.2h.8l.2-3.2ZM6 8.4a.7.7 0 1 0 0 1.4.7.7 0 1 0 0-1.4Z",
  idle: "M2.5 2h2.6v8H2.5ZM6.9 2h2.6v8H6.9Z",
  new: "M6 0 7.4 4.6 12 6 7.4 7.4 6 12 4.6 7.4 0 6 4.6 4.6Z",
};

/** Return a run's status as a chip. */
export const statusChip = (status) =>
  element("span", { class: "status", "data-status": status, title: MEANINGS[status] }, statusIcon(status), status);

/** Return the icon of a status; the word next to it is for the reader. */
export const statusIcon = (status) =>
  element(
    "svg:svg",
    { class: "status-icon", "data-status": status, viewBox: "0 0 12 12", width: 11, height: 11, "aria-hidden": "true" },
    element("svg:path", { d: ICONS[status], "fill-rule": "evenodd" }),
  );
