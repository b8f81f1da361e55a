// The table of a run's tasks: a row for each, and what its columns are sorted by.

import { element, fill } from "./dom.js";
import { count, decimal, percent, unbroken } from "./format.js";
import { titleOf, dotOf } from "./segments.js";

const COLUMNS = [
  { name: "Task", sort: "index", about: "In the order of the dataset" },
  {
    name: "Success probability",
    below: unbroken("90 % interval"),
    sort: "mean",
    about: "Dot: the expected value. Dotted line: the target.",
  },
  { name: "To target", sort: "distance", number: true, about: "Distance of the expected value from the target" },
  {
    name: "Effective",
    sort: "-effective",
    number: true,
    about: "Probability that the rollouts of a group get different rewards",
  },
  { name: "Attempts", sort: "-attempts", number: true, about: "Rollouts in this run" },
  { name: "Successes", sort: "-successes", number: true, about: "Successful rollouts in this run" },
  { name: "Visits", sort: "-visits", number: true, about: "Steps that reported the task" },
  { name: "Last tried", sort: "-last_step", number: true, about: "The last step that reported the task" },
  { name: "Tags" },
];

/**
 * Return the table: {node, show, focus}.
 * @param {(sort: string) => void} sortBy called with the order that a column's heading was clicked for.
 * @param {(task: string) => string} hrefOf the address that shows a task's details.
 * @param {object|null} picks which tasks are marked: {has, set}; null: no task can be marked.
 */
export function tasksTable(sortBy, hrefOf, picks) {
  const head = element("tr");
  const body = element("tbody");
  const node = element(
    "div",
    { class: "scroll sideways", tabindex: "0", role: "region", "aria-label": "Tasks" },
    element("table", { class: "tasks" }, element("thead", {}, head), body),
  );
  let shown = [];

  /** Show some tasks. target: of the run; sort: the order they are in. */
  function show(tasks, target, sort) {
    shown = tasks;
    fill(head, picks ? pickAll(tasks) : null, ...COLUMNS.map((column) => heading(column, sort, sortBy)));
    fill(body, ...tasks.map((task) => row(task, target, hrefOf, picks)));
  }

  function pickAll(tasks) {
    const isAll = tasks.length > 0 && tasks.every((task) => picks.has(task.id));
    const box = element("input", { type: "checkbox", "aria-label": "Mark all tasks of this page", checked: isAll });
    box.addEventListener("change", () => {
      picks.set(
        tasks.map((task) => task.id),
        box.checked,
      );
    });
    return element("td", { class: "pick" }, box);
  }

  /** Bring the boxes in line with what is marked. */
  function mark() {
    for (const box of body.querySelectorAll("input")) box.checked = picks.has(box.value);
    const all = head.querySelector("input");
    if (all) all.checked = shown.length > 0 && shown.every((task) => picks.has(task.id));
  }

  /** Give a task's link the focus, where the task is shown. */
  function focus(id) {
    [...body.querySelectorAll("th a")].find((link) => link.textContent === id)?.focus();
  }
  return { node, show, mark, focus };
}

/** A click sorts by a column; another one turns it round. */
function heading(column, sort, sortBy) {
  const attributes = { scope: "col", class: column.number ? "number" : null };
  if (!column.sort) return element("th", attributes, column.name);
  const key = column.sort.replace("-", "");
  const isSorted = sort.replace("-", "") === key;
  const isDown = sort.startsWith("-");
  const next = isSorted ? (isDown ? key : `-${key}`) : column.sort;
  const order = isDown ? "descending" : "ascending";
  const arrow = isSorted ? (isDown ? " ▾" : " ▴") : "";
  return element(
    "th",
    { ...attributes, "aria-sort": isSorted ? order : "none" },
    element(
      "button",
      { type: "button", class: "sort", "data-name": column.name, title: column.about, onclick: () => sortBy(next) },
      column.name,
      element("span", { "aria-hidden": "true" }, arrow),
    ),
    column.below ? element("span", { class: "below" }, column.below) : null,
  );
}

function row(task, target, hrefOf, picks) {
  const isTried = task.attempts > 0;
  const number = { class: isTried ? "number" : "number soft" };
  const link = element("a", { href: hrefOf(task.id), title: task.id }, task.id);
  return element(
    "tr",
    { onclick: (event) => isMeantForRow(event) && link.click() },
    picks ? element("td", { class: "pick" }, pick(task, picks)) : null,
    element("th", { scope: "row", class: "id" }, link),
    element("td", {}, element("span", { class: "chance" }, interval(task, target), decimal(task.mean, 2))),
    element("td", { class: "number" }, decimal(Math.abs(task.mean - target), 2)),
    element("td", { class: "number" }, percent(task.effective)),
    element("td", number, count(task.attempts)),
    element("td", number, isTried ? count(task.successes) : "–"),
    element("td", number, isTried ? count(task.visits) : "–"),
    element("td", number, lastTried(task)),
    element("td", { class: "tags" }, tagsOf(task)),
  );
}

/** Say whether a click is about a row as a whole. One that ends the marking of text is not: that is to be copied. */
const isMeantForRow = ({ target }) => target.closest("a, .pick") === null && getSelection().isCollapsed;

function pick(task, picks) {
  const box = element("input", {
    type: "checkbox",
    value: task.id,
    "aria-label": `Mark ${task.id}`,
    checked: picks.has(task.id),
  });
  box.addEventListener("change", () => picks.set([task.id], box.checked));
  return box;
}

/** Return in words when a task was tried last. */
export const lastTried = (task) => (task.attempts > 0 ? `step ${count(task.last_step)}` : "never tried");

/** Return a task's tags, each as a pill. */
export const tagsOf = (task) => task.tags.map((tag) => element("span", { class: "tag" }, tag));

/** Return a task's segment as a pill. */
export const segmentOf = (task) => element("span", { class: "tag" }, dotOf(task.segment), titleOf(task.segment));

const WIDTH = 180;
const HEIGHT = 16;

/** Return the posterior's interval as a bar, with its mean as a dot, and the target. */
export function interval(task, target) {
  const [low, high] = task.interval;
  const label = `between ${decimal(low, 2)} and ${decimal(high, 2)}, mean ${decimal(task.mean, 2)}`;
  const middle = HEIGHT / 2;
  return element(
    "svg:svg",
    {
      class: "interval",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      width: WIDTH,
      height: HEIGHT,
      role: "img",
      "aria-label": label,
    },
    element("svg:line", { class: "scale", x1: 0, x2: WIDTH, y1: middle, y2: middle }),
    element("svg:rect", { x: WIDTH * low, y: middle - 4, width: Math.max(WIDTH * (high - low), 2), height: 8, rx: 4 }),
    element("svg:line", { class: "target", x1: WIDTH * target, x2: WIDTH * target, y1: 0, y2: HEIGHT }),
    element("svg:circle", { cx: WIDTH * task.mean, cy: middle, r: 4.5 }),
  );
}
