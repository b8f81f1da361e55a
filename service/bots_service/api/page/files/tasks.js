// A run's tasks: their segments, and a table that the service searches, sorts and pages, so a million are as fast as ten.

import { datasetHref, listing, runHref, tasksHref } from "./addresses.js";
import { card, element, fill, isBeingRead, say, searchField, table } from "./dom.js";
import { interval } from "./drawings.js";
import { UNKNOWN, count, decimal, percent, unbroken } from "./format.js";
import { meaningOf, segmentList } from "./segments.js";
import { get } from "./service.js";

const PAGE = 25;
const AGAIN_MS = 10000; // a page that nobody touches is loaded again this often, if the run has changed
const COLUMNS = [
  { name: "Task", sort: "index", about: "In the order of the dataset" },
  { name: "Success probability", below: unbroken("90 % interval; dotted: target"), sort: "mean" },
  { name: "To target", sort: "distance", number: true, about: "Distance of the expected value from the target" },
  { name: "Effective", sort: "-effective", number: true, about: "Probability that a group's rewards differ" },
  { name: "Attempts", sort: "-attempts", number: true, about: "Rollouts in this run" },
  { name: "Successes", sort: "-successes", number: true, about: "Successful rollouts in this run" },
  { name: "Visits", sort: "-visits", number: true, about: "Steps that reported the task" },
  { name: "Last tried", sort: "-last_step", number: true, about: "The last step that reported the task" },
  { name: "Tags" },
];

/** Return the view. query: of its address. */
export function showTasks(dataset, run, query) {
  const path = ["datasets", dataset, "runs", run];
  const hrefOf = (asked) => tasksHref(dataset, run, asked);
  const usual = { segment: "", search: "", tag: "", sort: "index" };
  const list = listing(query, usual, hrefOf, load);
  const search = searchField("Search tasks by id", (text) => list.change({ search: text }, true));
  const tag = element("select", { "aria-label": "Only tasks with this tag" });
  tag.addEventListener("change", () => list.change({ tag: tag.value }));
  const about = element("p", { class: "soft" });
  const meaning = element("p", { class: "soft", role: "status" });
  const [segments, rows] = [element("div"), element("div")];
  let [now, shown, at, turn] = [null, "", 0, 0];

  async function load() {
    const mine = (turn += 1);
    const { asked } = list;
    const page = await get([...path, "tasks"], { ...asked, cursor: list.page.cursor, limit: PAGE });
    if (mine !== turn || isBeingRead(rows)) return;
    const { target } = now.settings;
    search.show(asked.search);
    tag.value = asked.tag;
    const link = (segment) => ({
      href: hrefOf({ ...asked, segment }),
      "aria-current": segment === asked.segment ? "true" : null,
    });
    fill(segments, segmentList(page.segments, link));
    say(meaning, meaningOf(asked.segment));
    const order = { sort: asked.sort, sortBy: (sort) => list.change({ sort }) };
    const written = page.tasks.map((task) => rowOf(task, target, hrefOf({ task: task.id })));
    fill(rows, table("Tasks", COLUMNS, written, order));
    list.show(page.tasks.length, page.matching, page.next_cursor);
  }

  async function refresh() {
    const [found, row] = await Promise.all([get(path), now === null ? get(["datasets", dataset]) : null]);
    now = found;
    if (row) offer(Object.keys(row.tags));
    const version = `${now.epoch}.${now.seq}.${now.created_at}`;
    if (version === shown || Date.now() - at < AGAIN_MS) return;
    const target = decimal(now.settings.target, 2);
    say(about, `Run ${run} of ${dataset}, at step ${count(now.step)}. Target success probability: ${target}.`);
    await load();
    [shown, at] = [version, Date.now()];
  }

  function offer(tags) {
    fill(tag, ["", ...new Set([...tags, list.asked.tag].filter(Boolean))].map(option));
    tag.hidden = tag.options.length === 1;
  }

  const filters = element("div", { class: "heading" }, search.node, tag);
  const node = element(
    "div",
    { class: "stack" },
    element("div", {}, element("h1", {}, "Tasks"), about),
    card("Segments", null, segments, meaning),
    element("section", { class: "card", "aria-label": "List" }, filters, rows, list.pager),
  );
  return { node, trail: trailOf(dataset, run), refresh, follow: list.follow };
}

const option = (value) => element("option", { value }, value || "all tags");

/** Return the way to a run's tasks. */
export const trailOf = (dataset, run) => [
  [dataset, datasetHref(dataset)],
  [run, runHref(dataset, run)],
  ["Tasks", tasksHref(dataset, run)],
];

function rowOf(task, target, href) {
  const isTried = task.attempts > 0;
  return [
    element("a", { href }, task.id),
    [interval(task, target), ` ${decimal(task.mean, 2)}`],
    decimal(Math.abs(task.mean - target), 2),
    percent(task.effective),
    count(task.attempts),
    isTried ? count(task.successes) : UNKNOWN,
    isTried ? count(task.visits) : UNKNOWN,
    lastTried(task),
    tagsOf(task),
  ];
}

/** Return in words when a task was tried last. */
export const lastTried = (task) => (task.attempts > 0 ? `step ${count(task.last_step)}` : "never tried");

export const tagsOf = (task) => task.tags.map((tag) => element("span", { class: "tag" }, tag));
