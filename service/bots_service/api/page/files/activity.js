// The activity of a run: selections in flight, the newest entries of its journal, its estimates and settings.

import { element, fill, table } from "./dom.js";
import { ago, count, moment, percent, precise, tellTimes } from "./format.js";
import { get } from "./service.js";

const ENTRIES = 20;
const GROUPS = 8;
const ORIGINS = { fork: "fork of", warm_start: "warm start from", replay: "replay of" };

/** Return the four cards: {nodes, refresh}. path: of the run. */
export function activity(path) {
  const flight = card("In flight");
  const journal = card("Journal");
  const estimates = card("Estimates");
  const settings = card("Settings");
  let shown = "";

  async function refresh(run) {
    const version = `${run.epoch}.${run.seq}.${run.leased}.${run.created_at}`;
    if (version !== shown) {
      const [leases, { entries }] = await Promise.all([
        get([...path, "leases"], { limit: GROUPS }),
        get([...path, "journal"], { limit: ENTRIES }),
      ]);
      fill(flight.body, leased(leases));
      fill(journal.body, journalTable(entries));
      fill(estimates.body, estimatesList(run));
      fill(settings.body, settingsList(run));
      shown = version;
    }
    tellTimes(flight.body);
    tellTimes(journal.body);
  }
  const left = element("div", { class: "stack" }, flight.node, estimates.node, settings.node);
  return { nodes: [left, journal.node], refresh };
}

function card(title) {
  const body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title });
  return { node: element("section", { class: "card" }, element("h2", {}, title), body), body };
}

function leased({ leased: tasks, leases }) {
  if (!tasks) return element("p", { class: "soft" }, "No task is in flight.");
  const rows = leases.map((lease) => [
    count(lease.tasks),
    ago(lease.expires_at),
    lease.first.join(", ") + (lease.tasks > lease.first.length ? ", …" : ""),
  ]);
  return table(
    "Selections in flight",
    [{ name: "Tasks", number: true }, { name: "Lease ends" }, { name: "Task ids" }],
    rows,
  );
}

function journalTable(entries) {
  if (!entries.length) return element("p", { class: "soft" }, "No reports yet.");
  const columns = [{ name: "Entry", number: true }, { name: "What" }, { name: "Step", number: true }, { name: "When" }];
  const rows = entries.map((entry) => [
    count(entry.seq),
    element(
      "span",
      { class: entry.hidden ? "hidden" : null, title: entry.hidden ? "Undone by a rewind" : null },
      whatHappened(entry),
    ),
    entry.step === null ? "–" : count(entry.step),
    ago(entry.time),
  ]);
  return table("Newest entries", columns, rows);
}

function whatHappened(entry) {
  if (entry.kind === "report")
    return `${count(entry.tasks)} tasks, ${count(entry.effective)} effective, ${count(entry.rollouts)} rollouts`;
  if (entry.kind === "past_evidence") return `${count(entry.rollouts)} rollouts from old logs`;
  if (entry.kind === "past_evidence")
    return `old logs: ${count(entry.tasks)} outcomes, ${count(entry.rollouts)} rollouts`;
  if (entry.kind === "rewind") return `rewind to step ${count(entry.to_step)}`;
  if (entry.kind === "settings")
    return `settings: ${Object.entries(entry.changed ?? {})
      .map(([name, value]) => `${name} ${value}`)
      .join(", ")}`;
  return entry.kind === "fork" ? "start from another run" : entry.kind;
}

function settingsList({ settings, forked_from: parent, created_at: created }) {
  const pairs = Object.entries(settings).map(([name, value]) => [
    name.replaceAll("_", " "),
    value === null ? "–" : Array.isArray(value) ? value.join(", ") : String(value),
  ]);
  if (parent) pairs.push([ORIGINS[parent.how], originOf(parent)]);
  pairs.push(["made", moment(created)]);
  return pairsList(pairs);
}

function originOf({ run, step, discount }) {
  const dropped = discount ? `, ${percent(discount)} of its evidence dropped` : "";
  return `${run}, step ${count(step)}${dropped}`;
}

function estimatesList({ estimates }) {
  const pairs = Object.entries(estimates).map(([name, value]) => [name.replaceAll("_", " "), precise(value)]);
  return pairs.length ? pairsList(pairs) : element("p", { class: "soft" }, "No estimates yet.");
}

function pairsList(pairs) {
  return element(
    "dl",
    { class: "pairs" },
    pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}
