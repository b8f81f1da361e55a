// The actions on a run: store a snapshot, or rewind to an earlier step. They need a key with the scope for it.

import { ask } from "./dialogs.js";
import { element, say } from "./dom.js";
import { count } from "./format.js";
import { post } from "./service.js";

const MAY = new Set(["admin", "report"]); // one of these scopes is needed
const WHY_NOT = "Your key is read-only: this needs the scope report.";
const REWINDING =
  "Restores the belief of an earlier step. Use it when the trainer resumes from its own checkpoint. The journal keeps all entries. Reports on selections from before the rewind will be rejected.";

/** Return the buttons: {node, refresh}. path: of the run; caller: who would press them. */
export function actions(path, caller) {
  const status = element("span", { role: "status", class: "soft" });
  const mayNot = !caller.scopes.some((scope) => MAY.has(scope));
  const denied = { type: "button", disabled: mayNot, title: mayNot ? WHY_NOT : null };
  const snapshot = element("button", denied, "Snapshot");
  const rewind = element("button", { ...denied, disabled: true }, "Rewind…"); // until its step is known
  let last = null; // the step that the run is at

  snapshot.addEventListener("click", async () => {
    snapshot.disabled = true;
    try {
      const kept = await post([...path, "snapshots"]);
      say(status, `Snapshot of step ${count(kept.step)} stored permanently.`);
    } catch (error) {
      say(status, `No snapshot was stored: ${error.message}`);
    } finally {
      snapshot.disabled = false;
    }
  });
  rewind.addEventListener("click", () =>
    askForStep(path, last, (run) => say(status, `Now at step ${count(run.step)}.`)),
  );

  const refresh = (run) => {
    last = run.step;
    rewind.disabled = mayNot;
  };
  const node = element("div", { class: "tools" }, status, snapshot, rewind);
  return { node, refresh };
}

function askForStep(path, last, done) {
  const step = element("input", { id: "to-step", type: "number", min: "0", max: last, step: "1", required: true });
  const range = last === null ? "Rewind to step" : `Rewind to step (0 to ${count(last)})`;
  ask({
    title: "Rewind this run",
    text: REWINDING,
    action: "Rewind",
    fields: [element("label", { for: "to-step" }, range), step],
    act: async () => done(await post([...path, "rewind"], { step: step.valueAsNumber })),
  });
}
