// The tasks of a run. The service searches, sorts and pages them, so a million are as fast as ten.

import { element, fill, say } from "./dom.js";
import { count, decimal, percent } from "./format.js";
import { get } from "./service.js";

const PAGE = 25;
const TYPED_MS = 250; // after the last letter of a search
const AGAIN_MS = 10000; // a page that nobody touches is loaded again this often, if the run has changed

const COLUMNS = [
  { name: "Task", sort: "index" },
  { name: "Success probability, 90 % interval", sort: "mean" },
  { name: "Mean", number: true },
  { name: "Effective", sort: "-effective", number: true },
  { name: "Rollouts", sort: "-attempts", number: true },
  { name: "Last seen", sort: "-last_step", number: true },
  { name: "Tags" },
];

/** Return the table: {node, refresh}. path: of the run. */
export function tasksTable(path) {
  const asked = { search: "", tag: "", sort: "index" };
  const cursors = [null]; // of the pages up to this one
  const state = { step: null, target: 0.5, at: 0, shown: "", next: null };
  const parts = frame();

  async function load() {
    const query = { ...asked, cursor: cursors.at(-1), limit: PAGE };
    const turn = (state.shown = JSON.stringify(query));
    state.next = null; // the cursor of the page before does not fit this query
    const page = await get([...path, "tasks"], query);
    if (turn !== state.shown) return; // asked for something else meanwhile
    state.at = Date.now();
    state.next = page.next_cursor;
    fill(parts.body, ...page.tasks.map((task) => row(task, state.target)));
    const first = (cursors.length - 1) * PAGE;
    say(
      parts.where,
      page.tasks.length
        ? `${count(first + 1)} to ${count(first + page.tasks.length)} of ${count(page.matching)}`
        : "No task matches.",
    );
    parts.back.disabled = cursors.length === 1;
    parts.on.disabled = state.next === null;
    fill(parts.head, ...COLUMNS.map((column) => heading(column, asked.sort, sortBy)));
  }
  /** Load, or say what was refused, and try again with the page's next refresh. */
  async function show() {
    try {
      await load();
    } catch (error) {
      state.step = null;
      state.at = 0;
      say(parts.where, error.message);
    }
  }

  function afresh(change) {
    Object.assign(asked, change);
    cursors.length = 1;
    show();
  }
  const sortBy = (sort) => afresh({ sort });
  let typed = 0;
  parts.search.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => afresh({ search: parts.search.value.trim() }), TYPED_MS);
  });
  parts.tag.addEventListener("change", () => afresh({ tag: parts.tag.value }));
  parts.on.addEventListener("click", () => state.next !== null && (cursors.push(state.next), show()));
  parts.back.addEventListener("click", () => cursors.length > 1 && (cursors.pop(), show()));

  async function refresh(run, dataset) {
    offerTags(parts.tag, Object.keys(dataset.tags));
    state.target = run.settings.target;
    const version = `${run.epoch}.${run.seq}`;
    if (version === state.step || Date.now() - state.at < AGAIN_MS) return;
    state.step = version;
    await show();
  }
  return { node: parts.node, refresh };
}

function frame() {
  const search = element("input", {
    type: "search",
    placeholder: "Search ids",
    "aria-label": "Search tasks by id",
    maxlength: "128",
  });
  const tag = element(
    "select",
    { "aria-label": "Only tasks with this tag" },
    element("option", { value: "" }, "all tags"),
  );
  const head = element("tr");
  const body = element("tbody");
  const where = element("span", { role: "status" });
  const back = element("button", { type: "button", disabled: true }, "Previous");
  const on = element("button", { type: "button", disabled: true }, "Next");
  const node = element(
    "section",
    { class: "card wide", "aria-labelledby": "tasks" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "tasks" }, "Tasks"),
      element("span", { class: "grow" }),
      search,
      tag,
    ),
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Estimate for each task" },
      element("table", { class: "tasks" }, element("thead", {}, head), body),
    ),
    element("div", { class: "heading pages" }, where, element("span", { class: "grow" }), back, on),
  );
  return { node, search, tag, head, body, where, back, on };
}

function offerTags(select, tags) {
  if (select.options.length - 1 === tags.length) return;
  const chosen = select.value;
  fill(
    select,
    element("option", { value: "" }, "all tags"),
    ...tags.toSorted().map((tag) => element("option", { value: tag }, tag)),
  );
  select.value = chosen;
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
      { type: "button", class: "sort", "data-name": column.name, onclick: () => sortBy(next) },
      column.name,
      element("span", { "aria-hidden": "true" }, arrow),
    ),
  );
}

function row(task, target) {
  return element(
    "tr",
    {},
    element("th", { scope: "row", class: "id" }, task.id),
    element("td", {}, interval(task, target)),
    element("td", { class: "number" }, decimal(task.mean)),
    element("td", { class: "number" }, percent(task.effective)),
    element("td", { class: "number" }, count(task.attempts)),
    element("td", { class: "number" }, task.last_step === null ? "–" : `step ${count(task.last_step)}`),
    element(
      "td",
      {},
      task.tags.map((tag) => element("span", { class: "tag" }, tag)),
    ),
  );
}

const WIDTH = 180;
const HEIGHT = 16;

/** Return the posterior's interval as a bar, with its mean as a dot, and the target. */
function interval(task, target) {
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
    element("svg:line", { class: "target", x1: WIDTH * target, x2: WIDTH * target, y1: 1, y2: HEIGHT - 1 }),
    element("svg:rect", { x: WIDTH * low, y: middle - 4, width: Math.max(WIDTH * (high - low), 2), height: 8, rx: 4 }),
    element("svg:circle", { cx: WIDTH * task.mean, cy: middle, r: 4 }),
  );
}
