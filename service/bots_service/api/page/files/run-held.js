// Groups of rollouts that wait outside the belief, because their rewards look wrong: release them, or drop them.

import { ask } from "./dialogs.js";
import { element, fill } from "./dom.js";
import { count } from "./format.js";
import { WHY_NOT } from "./retiring.js";
import { post } from "./service.js";

const DECISIONS = {
  release: {
    name: "Release",
    title: "Release the held groups?",
    text: "The rewards were right: the belief learns from these groups, and from more of them until rewards vary again.",
  },
  drop: {
    name: "Drop",
    title: "Drop the held groups?",
    text: "The rewards were wrong: the belief never learns from these groups. The journal keeps them. While the rewards stay so, later groups wait, too.",
  },
};

/** Return the line: {node, show}. path: of the run; decided: called after a decision. */
export function heldGroups(path, caller, decided) {
  const node = element("section", { class: "card wide held", "aria-label": "Held groups", hidden: true });
  const may = caller.scopes.includes("admin");
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

  /** alarms: of the run's verifier guard. */
  function show(alarms) {
    const held = alarms.filter((one) => one.held);
    node.hidden = !held.length;
    const lines = held.map((one) => element("li", {}, `${tagOf(one)}: ${count(one.held)} groups, ${spanOf(one)}`));
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
const spanOf = (one) =>
  one.ongoing
    ? `since step ${count(one.since_step)}`
    : `steps ${count(one.since_step)} to ${count(one.last_step)}; rewards vary again`;
