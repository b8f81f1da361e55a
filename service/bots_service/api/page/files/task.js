// One task of a run: its estimates, and its counts.

import { tasksHref } from "./addresses.js";
import { ask, card, element, fill, pairs, say, soft } from "./dom.js";
import { interval } from "./drawings.js";
import { UNKNOWN, count, decimal, percent, unbroken } from "./format.js";
import { segmentMark } from "./segments.js";
import { get, send } from "./service.js";
import { lastTried, tagsOf, trailOf } from "./tasks.js";

/** Return the view. caller: who looks. */
export function showTask(dataset, run, id, caller) {
  const path = ["datasets", dataset, "runs", run];
  const retire = element("button", { type: "button", disabled: true });
  const facts = element("div");
  const status = element("p", { class: "soft", role: "status" });
  const node = element(
    "div",
    { class: "stack" },
    element("div", { class: "heading" }, element("h1", {}, id), retire),
    facts,
    status,
  );
  let [shown, segment] = ["", ""];
  retire.addEventListener("click", () => askToRetire(dataset, id, segment === "retired", again));

  async function refresh() {
    const now = await get(path);
    const version = `${now.epoch}.${now.seq}.${now.created_at}`;
    if (version === shown) return;
    const task = await find(path, id);
    retire.hidden = task === null;
    say(status, task === null ? "No task of this dataset has this id." : "");
    if (task === null) return;
    segment = task.segment;
    retire.disabled = !caller.scopes.includes("admin");
    retire.title = retire.disabled ? "This needs a key with the scope admin." : "";
    say(retire, segment === "retired" ? "Restore…" : "Retire…");
    const beside = element("span", {}, segmentMark(segment), tagsOf(task));
    fill(facts, card("Estimates", beside, pairs("tiles", factsOf(task, now.settings.target))));
    shown = version;
  }

  function again() {
    shown = "";
    return refresh();
  }

  return { node, trail: [...trailOf(dataset, run), [id, tasksHref(dataset, run, { task: id })]], refresh };
}

/** Return the task as the run knows it, null where there is none. Retired tasks are in no other segment. */
async function find(path, id) {
  const query = { ids: id, limit: 1 };
  const { tasks, segments } = await get([...path, "tasks"], query);
  if (tasks.length || !segments.retired) return tasks[0] ?? null;
  return (await get([...path, "tasks"], { ...query, segment: "retired" })).tasks[0] ?? null;
}

/** Ask whether to retire a task, or to restore it. */
function askToRetire(dataset, id, isRetired, done) {
  const tasks = ["datasets", dataset, "tasks"];
  const word = isRetired ? "Restore" : "Retire";
  ask({
    title: `${word} task ${id}?`,
    text: isRetired
      ? "Every run of this dataset can select it again, with what it knew about it before."
      : "No run of this dataset selects it again. The journal and the beliefs keep what is known about it, and you can restore it.",
    action: word,
    act: async () => {
      await (isRetired ? send([...tasks, "restore"], { ids: [id] }) : send(tasks, { ids: [id] }, "DELETE"));
      await done();
    },
  });
}

const value = (text) => element("span", { class: "value" }, text);

function factsOf(task, target) {
  const isTried = task.attempts > 0;
  const [low, high] = task.interval.map((edge) => decimal(edge, 2));
  return [
    [
      "Success probability",
      value(decimal(task.mean, 2)),
      interval(task, target),
      soft(unbroken(`90 %: ${low} to ${high}`)),
    ],
    ["Distance to target", value(decimal(Math.abs(task.mean - target), 2)), soft(`target ${decimal(target, 2)}`)],
    ["Probability of an effective group", value(percent(task.effective))],
    [
      "Successes",
      value(isTried ? count(task.successes) : UNKNOWN),
      soft(`of ${count(task.attempts)} rollouts in ${count(task.visits)} visits`),
    ],
    ["Last tried", value(lastTried(task))],
  ];
}
