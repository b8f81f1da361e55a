// Groups of rollouts that wait outside the belief, because their rewards look wrong: release them, or drop them.

import { ask } from "./dialogs.js";
import { element, fill } from "./dom.js";
import { count } from "./format.js";
import { post } from "./service.js";

const NEEDED = "admin";
const WHY_NOT = "This needs a key with the scope admin.";

const DECISIONS = {
  release: {
    name: "Release",
    title: "Release the held groups?",
    text: "The rewards were right: the belief learns from these groups, and takes such rewards for usual from now on.",
  },
  drop: {
    name: "Drop",
    title: "Drop the held groups?",
    text: "The rewards were wrong: the belief never learns from these groups. The journal keeps them.",
  },
};

/** Return the line: {node, show}. path: of the run; decided: called after a decision. */
export function heldGroups(path, caller, decided) {
  const node = element("section", { class: "card wide held", "aria-label": "Held groups", hidden: true });
  const may = caller.scopes.includes(NEEDED);
  const buttons = Object.entries(DECISIONS).map(([decision, { name }]) =>
    element(
      "button",
      { type: "button", disabled: !may, title: may ? null : WHY_NOT, onclick: () => askFor(decision) },
      `${name}…`,
    ),
  );

  function askFor(decision) {
    const { name, title, text } = DECISIONS[decision];
    const act = async () => {
      await post([...path, "held"], { decision });
      node.hidden = true;
      decided();
    };
    ask({ title, text, action: name, act });
  }

  /** suspicions: of the run. */
  function show(suspicions) {
    const held = suspicions.filter((one) => one.held);
    node.hidden = !held.length;
    const lines = held.map((one) =>
      element("li", {}, `${tagOf(one)}: ${count(one.held)} groups since step ${count(one.since_step)}${ended(one)}`),
    );
    fill(
      node,
      element("p", {}, "These groups of rollouts wait outside the belief until you decide about them."),
      element("ul", {}, lines),
      element("div", { class: "tools" }, ...buttons),
    );
  }
  return { node, show };
}

const tagOf = ({ tag }) => (tag === null ? "All tasks" : `Tag ${tag}`);
const ended = ({ ongoing }) => (ongoing ? "" : ", over by now");
