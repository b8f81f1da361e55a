// Retiring tasks, and taking that back. Both ask first, and need a key with the scope for it.

import { ask } from "./dialogs.js";
import { element, fill, say } from "./dom.js";
import { count } from "./format.js";
import { post, remove } from "./service.js";

const NEEDED = "admin";
export const WHY_NOT = "This needs a key with the scope admin.";

export const mayRetire = (caller) => caller.scopes.includes(NEEDED);

const WORDS = {
  retire: {
    title: "Retire",
    text: "No run of this dataset selects them again. The journal and the beliefs keep what is known about them, and you can restore them.",
    textOfOne:
      "No run of this dataset selects it again. The journal and the beliefs keep what is known about it, and you can restore it.",
    done: "retired",
  },
  restore: {
    title: "Restore",
    text: "Every run of this dataset can select them again, with what it knew about them before.",
    textOfOne: "Every run of this dataset can select it again, with what it knew about it before.",
    done: "restored",
  },
};
const OPPOSITE = { retire: "restore", restore: "retire" };

/**
 * Return what retires and restores: {node, ask}. The node says what was done, and offers to undo it.
 * @param {string} dataset the tasks' dataset.
 * @param {() => void} changed called after each change.
 */
export function retiring(dataset, changed) {
  const said = element("span", { role: "status" });
  const undo = element("button", { type: "button", hidden: true }, "Undo");
  const node = element("div", { class: "tools" }, said, undo);
  let last = null; // what was done: {how, ids}
  undo.addEventListener("click", () => askFor(OPPOSITE[last.how], last.ids));

  /** Retire or restore tasks, once that is confirmed. how: "retire" or "restore". */
  function askFor(how, ids) {
    const words = WORDS[how];
    ask({
      title: `${words.title} ${named(ids)}?`,
      text: ids.length === 1 ? words.textOfOne : words.text,
      action: words.title,
      act: () => act(how, ids),
    });
  }

  async function act(how, ids) {
    const path = ["datasets", dataset, "tasks"];
    await (how === "retire" ? remove(path, { ids }) : post([...path, "restore"], { ids }));
    say(said, `${capital(named(ids))} ${WORDS[how].done}.`);
    undo.hidden = false;
    last = { how, ids };
    changed();
  }
  return { node, ask: askFor };
}

const named = (ids) => (ids.length === 1 ? `task ${ids[0]}` : `${count(ids.length)} tasks`);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Return a bar about the marked tasks: {node, show}. act: called for its button; clear: to unmark all. */
export function markedBar(act, clear) {
  const many = element("strong", { role: "status" });
  const button = element("button", { type: "button", class: "main", onclick: act });
  const none = element("button", { type: "button", onclick: clear }, "Unmark all");
  const node = element("div", { class: "marked", role: "group", "aria-label": "Marked tasks" }, many, button, none);

  /** Show how many are marked, and what can be done with them. how: "retire" or "restore". */
  function show(marked, how) {
    node.hidden = marked === 0;
    say(many, `${count(marked)} marked`);
    fill(button, `${WORDS[how].title}…`);
  }
  show(0, "retire");
  return { node, show };
}
