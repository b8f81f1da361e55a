// One task of a run: its estimates, its counts, and each time that the run tried it.

import { tasksHref } from "./addresses.js";
import { ask, card, element, fill, pairs, say, soft, table } from "./dom.js";
import { bar, interval } from "./drawings.js";
import { UNKNOWN, ago, count, decimal, percent, unbroken } from "./format.js";
import { segmentMark } from "./segments.js";
import { get, send } from "./service.js";
import { lastTried, tagsOf, trailOf } from "./tasks.js";

const PAGE = 50;
const COLUMNS = [
  { name: "Step" },
  { name: "Success rate" },
  { name: "Rollouts", number: true },
  { name: "When" },
  { name: "Notes" },
];

/** Return the view. caller: who looks. */
export function showTask(dataset, run, id, caller) {
  const path = ["datasets", dataset, "runs", run];
  const visits = new Map(); // seq -> visit
  const retire = element("button", { type: "button", disabled: true });
  const [facts, history] = [element("div"), element("div")];
  const status = element("p", { class: "soft", role: "status" });
  const older = element(
    "button",
    { type: "button", hidden: true, onclick: () => more().catch((error) => say(status, error.message)) },
    "Load older visits",
  );
  const node = element(
    "div",
    { class: "stack" },
    element("div", { class: "heading" }, element("h1", {}, id), retire),
    facts,
    card("Visits, newest first", null, history, status, older),
  );
  let [shown, next, segment] = ["", null, ""];
  retire.addEventListener("click", () => askToRetire(dataset, id, segment === "retired", again));

  async function refresh() {
    const now = await get(path);
    const version = `${now.epoch}.${now.seq}.${now.created_at}`;
    if (version === shown) return;
    const task = await find(path, id);
    retire.hidden = task === null;
    if (task === null) {
      say(status, "No task of this dataset has this id.");
      return;
    }
    segment = task.segment;
    retire.disabled = !caller.scopes.includes("admin");
    retire.title = retire.disabled ? "This needs a key with the scope admin." : "";
    say(retire, segment === "retired" ? "Restore…" : "Retire…");
    const beside = element("span", {}, segmentMark(segment), tagsOf(task));
    fill(facts, card("Estimates", beside, pairs("tiles", factsOf(task, now.settings.target))));
    visits.clear();
    await more(null);
    shown = version;
  }

  function again() {
    shown = "";
    return refresh();
  }

  /** Load older visits. The service reads a part of the journal at a time, where there may be none. */
  async function more(cursor = next) {
    const page = await get([...path, "tasks", id, "history"], { limit: PAGE, cursor });
    for (const visit of page.history) visits.set(visit.seq, visit);
    next = page.next_cursor;
    older.hidden = next === null;
    const none = next === null ? "Never tried in this run." : "None in the newest part of the journal.";
    say(status, visits.size ? "" : none);
    fill(history, visits.size ? table("Visits", COLUMNS, [...visits.values()].map(rowOf)) : []);
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

function rowOf({ step, successes, trials, time, late, hidden, group_size: size }) {
  const amount = Number.isInteger(successes) ? count(successes) : decimal(successes, 2); // a shaped reward counts in part
  const notes = [
    size !== null && `of a group of ${count(size)}`,
    late && "after its step had closed",
    hidden && "undone by a rewind",
  ];
  return [
    `step ${count(step)}`,
    bar(trials ? successes / trials : null),
    `${amount} of ${count(trials)}`,
    ago(time),
    notes.filter(Boolean).join(", "),
  ];
}
