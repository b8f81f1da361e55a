// The actions on a run: store a snapshot, or rewind to an earlier step. They need a key with the scope for it.

import { element, say } from "./dom.js";
import { count } from "./format.js";
import { post } from "./service.js";

const MAY = new Set(["admin", "report"]); // one of these scopes is needed
const WHY_NOT = "Your key is read-only: this needs the scope report.";

/** Return the buttons: {node, refresh}. path: of the run; caller: who would press them. */
export function actions(path, caller) {
  const status = element("span", { role: "status", class: "soft" });
  const mayNot = !caller.scopes.some((scope) => MAY.has(scope));
  const denied = { type: "button", disabled: mayNot, title: mayNot ? WHY_NOT : null };
  const snapshot = element("button", denied, "Snapshot");
  const rewind = element("button", denied, "Rewind…");
  const dialog = rewindDialog(path, (run) => say(status, `Now at step ${count(run.step)}.`));
  snapshot.addEventListener("click", async () => {
    try {
      const kept = await post([...path, "snapshots"]);
      say(status, `Snapshot of step ${count(kept.step)} stored permanently.`);
    } catch (error) {
      say(status, error.message);
    }
  });
  rewind.addEventListener("click", () => dialog.open());
  const node = element("div", { class: "tools" }, status, snapshot, rewind, dialog.node);
  return { node, refresh: dialog.refresh };
}

function rewindDialog(path, done) {
  const send = element("button", { type: "submit", class: "main" }, "Rewind");
  const step = element("input", { id: "to-step", type: "number", min: "0", step: "1", required: true });
  const refusal = element("p", { class: "bad", role: "alert" });
  const form = element(
    "form",
    {},
    element("h2", { id: "rewind-title" }, "Rewind this run"),
    element(
      "p",
      {},
      "Restores the belief of an earlier step. Use it when the trainer resumes from its own checkpoint. The journal keeps all entries. Reports on selections from before the rewind will be rejected.",
    ),
    element("label", { for: "to-step" }, "Rewind to step"),
    step,
    refusal,
    element(
      "div",
      { class: "tools end" },
      element("button", { type: "button", onclick: () => node.close() }, "Cancel"),
      send,
    ),
  );
  const node = element("dialog", { "aria-labelledby": "rewind-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return; // a second click would rewind a second time
    send.disabled = true;
    try {
      done(await post([...path, "rewind"], { step: step.valueAsNumber }));
      node.close();
    } catch (error) {
      say(refusal, error.message);
    } finally {
      send.disabled = false;
    }
  });
  const open = () => (say(refusal, ""), node.showModal());
  const refresh = (run) => step.setAttribute("max", run.step);
  return { node, open, refresh };
}
