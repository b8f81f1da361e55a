// How a run does, in a word, with the reason in numbers and what to do about it.

import { element, fill } from "./dom.js";
import { unbroken } from "./format.js";

const KINDS = {
  starting: { name: "Starting", tone: "plain" },
  healthy: { name: "Healthy", tone: "good" },
  learning_slowly: { name: "Learning slowly", tone: "warning" },
  pool_exhausted: { name: "Pool exhausted", tone: "warning" },
  miscalibrated: { name: "Belief miscalibrated", tone: "warning" },
  narrow: { name: "Selection narrow", tone: "warning" },
  stalled: { name: "Stalled", tone: "bad" },
  verifier_suspect: { name: "Verifier suspect", tone: "bad" },
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

  /** verdict: {kind, reason, advice}, of /summary. */
  function show({ kind, reason, advice }) {
    if (shown === `${kind} ${reason} ${advice}`) return;
    shown = `${kind} ${reason} ${advice}`;
    const { name, tone } = KINDS[kind];
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

const icon = (tone) =>
  element(
    "svg:svg",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    element("svg:path", { d: ICONS[tone], "fill-rule": "evenodd" }),
  );
