// The activity of a run: selections in flight, its estimates, settings and journal.

import { element, fill, table } from "./dom.js";
import { ago, count, moment, precise } from "./format.js";
import { journal } from "./journal.js";
import { get } from "./service.js";
import { settingsPanel } from "./settings.js";

const GROUPS = 8;

/** Return the four cards: {nodes, refresh}. path: of the run. */
export function activity(path) {
  const flight = card("In flight");
  const estimates = card("Estimates");
  const settings = card("Settings");
  const panel = settingsPanel();
  const origin = element("p", { class: "soft" });
  const entries = journal(path);
  settings.body.append(panel.node, origin);
  let shown = "";

  async function refresh(run) {
    const version = `${run.epoch}.${run.seq}.${run.leased}.${run.created_at}`;
    if (version !== shown) {
      fill(flight.body, leased(await get([...path, "leases"], { limit: GROUPS })));
      fill(estimates.body, estimatesList(run));
      panel.show(run.settings);
      fill(origin, originOf(run));
      shown = version;
    }
    await entries.refresh(run);
  }
  const left = element("div", { class: "stack" }, flight.node, estimates.node, settings.node);
  return { nodes: [left, entries.node], refresh };
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

/** Return where a run comes from, and when it was created. */
function originOf({ forked_from: parent, created_at: created }) {
  const made = `Created ${moment(created)}.`;
  if (!parent) return made;
  return `Fork of ${parent.run}, step ${count(parent.step)}. ${made}`;
}

function estimatesList({ estimates }) {
  const pairs = Object.entries(estimates);
  if (!pairs.length) return element("p", { class: "soft" }, "No estimates yet.");
  return element(
    "dl",
    { class: "pairs" },
    pairs.flatMap(([name, value]) => [element("dt", {}, name.replaceAll("_", " ")), element("dd", {}, precise(value))]),
  );
}
