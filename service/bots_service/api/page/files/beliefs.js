// Which belief fits a run: its journal folded again under others, when somebody asks for it.

import { element, fill, say, table } from "./dom.js";
import { count, decimal, signed, unbroken } from "./format.js";
import { get } from "./service.js";

const WAITED_S = 1; // for the end, before the service says how far it is

const COLUMNS = [
  { name: "Belief" },
  { name: "Log loss", number: true },
  { name: unbroken("Difference to this run (95 % interval)"), number: true },
  { name: "Brier score", number: true },
  { name: "Calibration error", number: true },
  { name: "Calibration slope", number: true },
];

/** Return the card: {node, refresh}. path: of the run. */
export function beliefComparison(path) {
  const button = element("button", { type: "button", disabled: true }, "Compare beliefs");
  const status = element("span", { role: "status", class: "soft" });
  const bar = element("progress", { "aria-label": "Comparing beliefs", max: 1, value: 0, hidden: true });
  const body = element("div");
  const node = element(
    "section",
    { class: "card wide", "aria-labelledby": "beliefs" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "beliefs" }, "Which belief fits this run?"),
      element("span", { class: "grow" }),
      status,
      bar,
      button,
    ),
    element(
      "p",
      { class: "soft" },
      "Folds the journal again under other beliefs, and compares what each would have predicted before every step. It takes seconds, and changes nothing.",
    ),
    body,
  );
  let isBusy = false;

  button.addEventListener("click", async () => {
    working(true);
    say(status, "Comparing…");
    try {
      await show();
    } catch (error) {
      say(status, error.message);
    } finally {
      working(false);
    }
  });

  /** Ask until the comparison has come to its end, or nobody looks at it any more. seq: what the last answer said. */
  async function show(seq = null) {
    const found = await get([...path, "comparison"], { seq, wait_s: WAITED_S });
    bar.value = found.entries ? found.folded / found.entries : 0;
    if (!node.isConnected) return;
    if (found.comparison === null) {
      await show(found.seq);
      return;
    }
    const { steps, first_step: first, last_step: last } = found.comparison;
    fill(body, ...answer(found.comparison));
    say(status, steps ? `Steps ${count(first)} to ${count(last)}` : "");
  }

  function working(yes) {
    isBusy = yes;
    button.disabled = yes;
    bar.hidden = !yes;
  }

  function refresh(run) {
    button.disabled = isBusy || run.step === 0;
    button.title = run.step ? "" : "No step has closed yet.";
  }
  return { node, refresh };
}

function answer({ advice, remarks, beliefs, recommended, rollouts, begins_after: before }) {
  const rows = (scores) => scores.map((score) => cells(score, recommended));
  const [grid, named] = [true, false].map((is) => beliefs.filter((score) => (score.role === "grid") === is));
  return [
    element("p", { class: "verdict" }, unbroken(advice)),
    ...remarks.map((remark) => element("p", { class: "soft" }, unbroken(remark))),
    beliefs.length ? scored("Beliefs compared", rows(named)) : null,
    grid.length ? folded(grid, rows) : null,
    beliefs.length
      ? element("p", { class: "soft" }, `Means over ${count(rollouts)} rollouts; smaller is better.${begins(before)}`)
      : null,
  ];
}

const begins = (before) => (before ? ` It begins after step ${count(before)}, with every belief fresh.` : "");

/** Return the table of the grid's points behind a line that opens it. */
function folded(grid, rows) {
  const title = `${count(grid.length)} other values of forgetting and implicit weight`;
  return element("details", {}, element("summary", {}, title), scored(title, rows(grid)));
}

function scored(caption, rows) {
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return element("div", region, table(caption, COLUMNS, rows));
}

function cells(score, recommended) {
  const isRecommended = score.name === recommended;
  return [
    isRecommended ? element("strong", {}, score.name, " (recommended)") : score.name,
    decimal(score.log_loss),
    difference(score.log_loss_difference),
    decimal(score.brier),
    decimal(score.calibration_error),
    decimal(score.calibration_slope, 2),
  ];
}

const difference = (found) =>
  found ? `${signed(found.mean)} (${signed(found.low)} to ${signed(found.high)})` : signed(null);
