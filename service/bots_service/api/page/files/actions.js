// What can be done to a run: kept as it stands, or taken back to an earlier step. By keys that may.

import { element, say } from "./dom.js";
import { count } from "./format.js";
import { get, post } from "./service.js";

const MAY = new Set(["admin", "report"]); // one of these scopes is needed
const WHY_NOT = "Your key may only look: this takes one with scope report.";

/** Return the buttons. path: of the run. */
export function actions(path) {
  const told = element("span", { role: "status", class: "soft" });
  const snapshot = element("button", { type: "button", disabled: true }, "Snapshot");
  const rewind = element("button", { type: "button", disabled: true }, "Rewind…");
  const dialog = rewindDialog(path, (run) => say(told, `Now at step ${count(run.step)}.`));
  snapshot.addEventListener("click", async () => {
    try {
      const kept = await post([...path, "snapshots"]);
      say(told, `Step ${count(kept.step)} is kept for ever.`);
    } catch (error) {
      say(told, error.message);
    }
  });
  rewind.addEventListener("click", () => dialog.open());
  permit([snapshot, rewind]);
  return element("div", { class: "tools" }, told, snapshot, rewind, dialog.node);
}

async function permit(buttons) {
  const { scopes } = await get(["whoami"]);
  const may = scopes.some((scope) => MAY.has(scope));
  for (const button of buttons) {
    button.disabled = !may;
    if (!may) button.title = WHY_NOT;
  }
}

function rewindDialog(path, done) {
  const step = element("input", { id: "to-step", type: "number", min: "0", step: "1", required: true });
  const refusal = element("p", { class: "bad", role: "alert" });
  const form = element(
    "form",
    {},
    element("h2", { id: "rewind-title" }, "Rewind this run"),
    element(
      "p",
      {},
      "The belief goes back to how it stood after a step, for a trainer that goes back to its own checkpoint. Nothing is lost: the journal keeps what came since. Reports on selections from before the rewind will be refused.",
    ),
    element("label", { for: "to-step" }, "Back to step"),
    step,
    refusal,
    element(
      "div",
      { class: "tools end" },
      element("button", { type: "button", onclick: () => node.close() }, "Cancel"),
      element("button", { type: "submit", class: "main" }, "Rewind"),
    ),
  );
  const node = element("dialog", { "aria-labelledby": "rewind-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      done(await post([...path, "rewind"], { step: step.valueAsNumber }));
      node.close();
    } catch (error) {
      say(refusal, error.message);
    }
  });
  const open = () => (say(refusal, ""), node.showModal());
  return { node, open };
}
