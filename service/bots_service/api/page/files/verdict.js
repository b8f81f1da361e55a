// How a run does, in a word, with the reason in numbers and what to do about it.

import { element, fill } from "./dom.js";
import { factor, unbroken } from "./format.js";

const KINDS = {
  starting: { name: "Starting", tone: "plain" },
  healthy: { name: "Healthy", tone: "good" },
  learning_slowly: { name: "Learning slowly", tone: "warning" },
  pool_exhausted: { name: "Pool exhausted", tone: "warning" },
  miscalibrated: { name: "Miscalibrated", tone: "warning" },
  aborting: { name: "Tasks abort", tone: "warning" },
  narrow: { name: "Narrow", tone: "warning" },
  stalled: { name: "Stalled", tone: "bad" },
  verifier_suspect: { name: "Verifier suspect", tone: "bad" },
  reports_refused: { name: "Reports refused", tone: "bad" },
};
const STATUSES = {
  running: "The last step is as recent as usual.",
  stalled: "The last step is much older than usual. Look at the trainer.",
  idle: "No step for a long time.",
  new: "No step has closed yet.",
  finished: "Its trainer said that training has ended.",
};
export const STATUS_NAMES = Object.keys(STATUSES);

/** Return a link to what the help says of a term. */
export const helpLink = (term, shown) =>
  element("a", { class: "help", href: `page/help.html#${term.toLowerCase().replaceAll(/[ _]/g, "-")}` }, shown);

const described = (verdict) => ({ ...KINDS[verdict.kind], ...verdict });

/** Return a verdict in a word. verdict: {kind, reason, advice}. */
export function verdictMark(verdict) {
  const { name, tone, reason, advice } = described(verdict);
  return element("span", { class: "tone", "data-tone": tone, title: unbroken(`${reason} ${advice}`.trim()) }, name);
}

/** Return the line at the top of a run: {node, show}. */
export function verdictLine() {
  const node = element("section", { class: "card verdict wide", role: "note", "aria-label": "Verdict" });
  let shown = "";

  /** verdict: {kind, reason, advice}, of /summary. */
  function show(verdict) {
    const { reason, advice, tone } = described(verdict);
    const version = JSON.stringify(verdict);
    if (shown === version) return;
    shown = version;
    node.dataset.tone = tone;
    fill(
      node,
      helpLink(verdict.kind, verdictMark(verdict)),
      element("p", {}, unbroken(reason)),
      element("p", { class: "soft" }, unbroken(advice)),
    );
  }
  return { node, show };
}

/** Return why a run's gain is no good news, as in "Narrow: Few tasks take most visits."; null where it is healthy. */
export function doubtOf({ verdict }) {
  if (verdict.kind === "healthy") return null;
  const { name, reason } = described(verdict);
  return unbroken(`${name}: ${reason}`);
}

/** Return whether a run is training, in a word. */
export const statusMark = (status) =>
  element("span", { class: "tone", "data-tone": status, title: STATUSES[status] }, status);

/**
 * Return how many times as many effective tasks as uniform sampling a run found, and how that is known; null where that is
 * unknown. It is grey where the run is not healthy: more effective tasks are then no better training.
 */
export function gainOf(summary) {
  const { gain } = summary;
  if ((gain?.factor ?? null) === null) return null;
  const doubt = doubtOf(summary);
  const times = element("b", { class: doubt && "soft", title: doubt }, factor(gain.factor));
  return { times, how: gain.baseline === null ? "estimate" : "measured" };
}
