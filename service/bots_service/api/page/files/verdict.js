// How a run does, in a word, with the reason in numbers and what to do about it.

import { element, fill } from "./dom.js";
import { unbroken } from "./format.js";

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
const UNJUDGED = {
  name: "Not judged yet",
  tone: "plain",
  reason: "The service judges this run in a moment.",
  advice: "",
};

const ICONS = {
  plain:
    "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 1.6a4.9 4.9 0 1 1 0 9.8 4.9 4.9 0 0 1 0-9.8ZM7.2 4.6v3.8l2.8 1.7.8-1.3-2-1.2v-3Z",
  good: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm3.1 4.3L7.3 11 4.6 8.6l1-1.2 1.5 1.3 2.7-3.8Z",
  warning: "M8 1.2 15.2 14H.8ZM7.2 5.6l.2 4.2h1.2l.2-4.2ZM8 10.6a.9.9 0 1 0 0 1.8.9.9 0 0 0 0-1.8Z",
  bad: "M5.2 1.2h5.6l4 4v5.6l-4 4H5.2l-4-4V5.2ZM7.2 4.2l.2 5h1.2l.2-5ZM8 10a.9.9 0 1 0 0 1.8A.9.9 0 0 0 8 10Z",
};

/** Return the line at the top of a run: {node, show}. */
export function verdictLine() {
  const node = element("section", {
    class: "run-verdict wide",
    role: "note",
    "aria-label": "Verdict",
    "aria-busy": "true",
  });
  let shown = "";

  /** verdict: {kind, reason, advice}, of /summary; null: not judged yet. */
  function show(verdict) {
    const { name, tone, reason, advice } = described(verdict);
    if (shown === `${name} ${reason} ${advice}`) return;
    shown = `${name} ${reason} ${advice}`;
    node.dataset.tone = tone;
    node.removeAttribute("aria-busy");
    fill(
      node,
      element("strong", { class: "chip", "data-tone": tone }, icon(tone), name),
      element("p", {}, unbroken(reason), element("span", { class: "advice" }, unbroken(advice))),
    );
  }
  return { node, show };
}

const described = (verdict) => (verdict === null ? UNJUDGED : { ...KINDS[verdict.kind], ...verdict });

/** Return a verdict as an icon and a word, for lists; null: not judged yet. */
export function verdictMark(verdict) {
  const { name, tone, reason, advice } = described(verdict);
  return element(
    "span",
    { class: "verdict-mark", "data-tone": tone, title: unbroken(`${reason} ${advice}`.trim()) },
    icon(tone, 13),
    name,
  );
}

/** Return why a run's gain is no good news, as in "Narrow: Few tasks take most visits."; null where it is healthy. */
export function doubtOf({ verdict }) {
  if (verdict?.kind === "healthy") return null;
  const { name, reason } = described(verdict);
  return unbroken(`${name}: ${reason}`);
}

/** Return the icon of a tone: plain, good, warning or bad; the word next to it is for the reader. */
export const icon = (tone, size = 16) =>
  element(
    "svg:svg",
    { viewBox: "0 0 16 16", width: size, height: size, "aria-hidden": "true", "data-tone": tone },
    element("svg:path", { d: ICONS[tone], "fill-rule": "evenodd" }),
  );
