// A journal's lines, as its readers see them.

import { element, table } from "./dom.js";
import { ago, compact, count, percent } from "./format.js";
import { stepsOf, sum } from "./journal-entries.js";
import { written } from "./settings.js";

/** Return a line of a journal, as journal-entries.js has it, as a list item. opened: entries whose groups are open. */
export function lineItem(line, opened) {
  if (line.kind === "gap") return gap(line);
  const [newest] = line.entries;
  const content = line.entries.length > 1 ? group(line, opened) : single(newest);
  const undone = newest.hidden ? element("span", { class: "tag" }, "undone") : null;
  return element(
    "li",
    { class: newest.hidden ? "entry undone" : "entry", "data-kind": line.kind },
    content,
    undone,
    ago(newest.time),
  );
}

function gap({ first, last }) {
  const reports = last - first + 1;
  return element("li", { class: "entry", "data-kind": "gap" }, `${many(reports, "report")}, not loaded`);
}

function single(entry) {
  const [what, words] = WORDS[entry.kind]?.(entry) ?? [entry.kind, ""];
  const about = entry.skipped ? `${words}; skipped: ${entry.skipped}` : words;
  return element(
    "span",
    { class: "what" },
    element("strong", {}, what),
    " ",
    element("span", { class: "soft" }, about),
  );
}

const many = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;
const atStep = ({ step }) => (step === null ? null : `step ${count(step)}`);
const joined = (...parts) => parts.filter((part) => part).join(", ");

const WORDS = {
  report: (entry) => [
    many(entry.tasks, "task"),
    joined(atStep(entry), `${count(entry.effective)} effective`, many(entry.rollouts, "rollout")),
  ],
  rewind: (entry) => [`Rewind to step ${count(entry.to_step)}`, `entry ${count(entry.seq)}`],
  settings: (entry) => ["Settings changed", joined(changes(entry.changed ?? {}), atStep(entry))],
  forget: (entry) => [`${many(entry.tasks, "task")} forgotten`, atStep(entry) ?? ""],
  fork: (entry) => ["Start from another run", atStep(entry) ?? ""],
};

const changes = (changed) =>
  Object.entries(changed)
    .map(([name, value]) => `${name} ${written(name, value)}`)
    .join(", ");

/** Return many entries as one line, which opens. opened: the entries whose groups are open. */
function group({ kind, entries }, opened) {
  const details = element("details", { open: entries.some((entry) => opened.has(entry.seq)) });
  const rollouts = compact(sum(entries, "rollouts"));
  const steps = stepsOf(entries);
  const range = steps && `steps ${count(steps.first)} to ${count(steps.last)}`;
  const ratio = percent(sum(entries, "effective") / sum(entries, "tasks"));
  const about = joined(range, `${rollouts} rollouts`, `${ratio} effective`);
  const title = many(entries.length, "report");
  const summary = element(
    "summary",
    { "data-name": `${kind} ${entries.at(-1).seq}` },
    element("strong", {}, title),
    " ",
    element("span", { class: "soft" }, about),
  );
  const fillIn = () => details.children.length === 1 && details.append(entriesTable(title, entries));
  details.append(summary);
  if (details.open) fillIn();
  details.addEventListener("toggle", () => {
    if (details.open) fillIn();
    for (const { seq } of entries) opened.delete(seq);
    if (details.open) opened.add(entries.at(-1).seq);
  });
  return details;
}

const COLUMNS = ["Entry", "Step", "Tasks", "Effective", "Rollouts", "When"].map((name) => ({ name, number: true }));

function entriesTable(title, entries) {
  const rows = entries.map((entry) => [
    count(entry.seq),
    entry.step === null ? "–" : count(entry.step),
    count(entry.tasks),
    count(entry.effective),
    count(entry.rollouts),
    ago(entry.time),
  ]);
  return table(title, COLUMNS, rows);
}
