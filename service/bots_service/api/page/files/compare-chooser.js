// The list of a dataset's runs: which are compared, and which one is the baseline.

import { swatch } from "./chart-parts.js";
import { styleOf } from "./charts.js";
import { MOST, chosenOf, isFull } from "./compare-choice.js";
import { element, fill, say } from "./dom.js";
import { count, percent } from "./format.js";
import { RECENT } from "./series.js";
import { doubtOf, icon } from "./verdict.js";

const TYPED_MS = 250; // after the last letter of the filter

/**
 * Return the list: {node, show}.
 * @param {object} on what to call: toggle(name, isChosen), pin(name), filter(text), all(runs), none().
 */
export function chooser(on) {
  const field = element("input", {
    type: "search",
    placeholder: "Filter runs",
    "aria-label": "Filter runs",
    maxlength: "128",
  });
  const list = element("ul", { class: "choice-list" });
  const status = element("p", { class: "soft", role: "status" });
  let listed = [];
  const all = element("button", { type: "button", onclick: () => on.all(listed) }, "All");
  const none = element("button", { type: "button", onclick: on.none }, "None");
  const node = element(
    "section",
    { class: "card chooser", "aria-labelledby": "chooser-title" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "chooser-title" }, "Runs"),
      element("span", { class: "grow" }),
      all,
      none,
    ),
    field,
    element("div", { class: "choice-scroll", tabindex: "0", role: "region", "aria-label": "Runs to compare" }, list),
    status,
  );
  let typed = 0;
  field.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => on.filter(field.value.trim()), TYPED_MS);
  });

  /** Show runs, of which `matching` match the filter. places: of those compared; baseline: the name of one; note: more to say. */
  function show({ runs, matching, places, baseline, filter, note }) {
    if (document.activeElement !== field) field.value = filter;
    listed = runs;
    say(all, runs.length > MOST ? `First ${MOST}` : "All");
    fill(
      list,
      runs.map((run) => choice(run, { places, baseline, on })),
    );
    none.disabled = !chosenOf(places).length;
    say(status, [note, ...sentences(runs.length, matching, places)].filter(Boolean).join(" "));
  }
  return { node, show };
}

function sentences(listed, matching, places) {
  return [
    isFull(places)
      ? `Comparing ${MOST} of ${MOST}. Deselect one to add another.`
      : `${chosenOf(places).length} of at most ${MOST} runs.`,
    listed < matching ? `Listed are ${count(listed)} of ${count(matching)} runs; the filter finds the others.` : "",
    matching ? `Their effective task ratios are over the last ${RECENT} steps.` : "No run matches.",
  ];
}

function choice(run, { places, baseline, on }) {
  const place = places.indexOf(run.run);
  const isChosen = place >= 0;
  const box = element("input", {
    type: "checkbox",
    value: run.run,
    "aria-label": run.run,
    checked: isChosen,
    disabled: !isChosen && isFull(places),
    onchange: (event) => on.toggle(run.run, event.target.checked),
  });
  return element(
    "li",
    { class: isChosen ? "choice-row chosen" : "choice-row" },
    element(
      "label",
      { title: run.run },
      box,
      element("span", { class: "style" }, isChosen ? swatch(styleOf(place)) : null),
      element("span", { class: "name" }, run.run),
    ),
    run.attention ? element("span", { class: "doubt", title: doubtOf(run) }, icon("warning", 13)) : null,
    element("span", { class: "soft number" }, percent(run.effective_task_ratio)),
    isChosen ? pinButton(run.run, run.run === baseline, on.pin) : element("span", { class: "pin" }),
  );
}

const PIN = "M5 1h6v1.2l-.9.8v3.6L12 8.4V10H8.7v4.2L8 15.5l-.7-1.3V10H4V8.4l1.9-1.8V3L5 2.2Z";

function pinButton(name, isBaseline, pin) {
  const attributes = {
    type: "button",
    class: "pin",
    "aria-pressed": String(isBaseline),
    "aria-label": `Baseline: ${name}`,
    title: isBaseline ? "The baseline: others are compared with this run" : "Make this run the baseline",
    onclick: () => pin(name),
  };
  const box = { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" };
  return element("button", attributes, element("svg:svg", box, element("svg:path", { d: PIN })));
}
