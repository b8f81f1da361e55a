// A task's details at the side of the table: its estimates, its counts, and each time that it was tried.

import { element, fill, say } from "./dom.js";
import { count, decimal, percent, unbroken } from "./format.js";
import { taskHistory } from "./task-history.js";
import { interval, lastTried, segmentOf, tagsOf } from "./tasks-table.js";
import { WHY_NOT } from "./retiring.js";
import { get } from "./service.js";

/**
 * Return the drawer: {node, show, refresh}.
 * @param {string[]} path of the run.
 * @param {() => void} leave called when it is closed by its reader.
 * @param {(way: number) => void} move called to show the task before (-1) or after (1) this one.
 * @param {((how: string, id: string) => void)|null} retire asks to retire or restore; null: the key may not.
 */
export function taskDrawer(path, { leave, move, retire }) {
  const parts = frame();
  let id = "";
  let history = null;

  async function load(target) {
    const asked = id;
    try {
      const task = await oneTask(path, asked);
      if (asked !== id) return;
      if (task === null) say(parts.status, "No task of this dataset has this id.");
      else draw(task, target);
    } catch (error) {
      if (asked === id) say(parts.status, error.message);
    }
  }

  function draw(task, target) {
    say(parts.status, "");
    const isRetired = task.segment === "retired";
    const how = isRetired ? "restore" : "retire";
    fill(parts.pills, segmentOf(task), tagsOf(task));
    fill(parts.facts, ...factsOf(task, target));
    fill(
      parts.acts,
      element(
        "button",
        {
          type: "button",
          disabled: !retire,
          title: retire ? null : WHY_NOT,
          onclick: () => retire(how, task.id),
        },
        isRetired ? "Restore…" : "Retire…",
      ),
    );
    history.refresh(`${task.visits}.${task.last_step}`);
  }

  /** Show a task; an empty id closes the drawer. around: {before, after} whether the table has a neighbour. */
  function show(wanted, target, around) {
    parts.before.disabled = !around.before;
    parts.after.disabled = !around.after;
    if (wanted === id) return;
    id = wanted;
    if (id === "") {
      parts.node.close();
      return;
    }
    say(parts.title, id);
    say(parts.status, "Loading…");
    for (const part of [parts.pills, parts.facts, parts.acts]) fill(part);
    history = taskHistory([...path, "tasks", id, "history"]);
    fill(parts.history, history.node);
    if (!parts.node.open) parts.node.showModal();
    parts.node.scrollTop = 0;
    load(target);
  }

  parts.shut.addEventListener("click", () => parts.node.close());
  parts.before.addEventListener("click", () => move(-1));
  parts.after.addEventListener("click", () => move(1));
  parts.node.addEventListener("click", (event) => event.target === parts.node && parts.node.close()); // outside
  parts.node.addEventListener("close", () => {
    const isOwnWish = id !== "";
    id = "";
    if (isOwnWish) leave();
  });
  const refresh = (target) => id !== "" && load(target);
  return { node: parts.node, show, refresh };
}

/** Return a task as the run knows it, null where there is none. Retired tasks are in no other segment. */
async function oneTask(path, id) {
  const query = { ids: id, limit: 1 };
  const { tasks, segments } = await get([...path, "tasks"], query);
  if (tasks.length || !segments.retired) return tasks[0] ?? null;
  const retired = await get([...path, "tasks"], { ...query, segment: "retired" });
  return retired.tasks[0] ?? null;
}

function frame() {
  const title = element("h2", { id: "task-title", class: "id", tabindex: "-1", autofocus: true });
  const before = element("button", { type: "button", "aria-label": "Previous task" }, "↑");
  const after = element("button", { type: "button", "aria-label": "Next task" }, "↓");
  const shut = element("button", { type: "button", "aria-label": "Close" }, "✕");
  const status = element("p", { class: "soft", role: "status" });
  const [pills, facts, acts, history] = ["pills", "task-facts", "tools", "visits"].map((name) =>
    element(name === "task-facts" ? "dl" : "div", { class: name }),
  );
  const inside = element(
    "div",
    { class: "drawer-body" },
    element("div", { class: "drawer-head" }, title, element("div", { class: "tools" }, before, after, shut)),
    element("div", { class: "heading" }, pills, element("span", { class: "grow" }), acts),
    status,
    facts,
    history,
  );
  const node = element("dialog", { class: "drawer", "aria-labelledby": "task-title" }, inside);
  return { node, title, before, after, shut, status, pills, facts, acts, history };
}

function factsOf(task, target) {
  const isTried = task.attempts > 0;
  const pairs = [
    [
      "Success probability",
      [
        element("strong", {}, decimal(task.mean, 2)),
        unbroken(` (90 %: ${decimal(task.interval[0], 2)} to ${decimal(task.interval[1], 2)})`),
        interval(task, target),
      ],
    ],
    ["Distance to target", `${decimal(Math.abs(task.mean - target), 2)} (target ${decimal(target, 2)})`],
    ["Probability of an effective group", percent(task.effective)],
    ["Attempts", isTried ? `${count(task.attempts)} rollouts in ${count(task.visits)} visits` : "never tried"],
    ["Successes", isTried ? `${count(task.successes)} (${percent(task.successes / task.attempts)})` : "–"],
    ["Last tried", lastTried(task)],
  ];
  return pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
}
