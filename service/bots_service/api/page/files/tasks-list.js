// A page of a run's tasks, and the way to the next one. The service sorts and pages, so a million are as fast as ten.

import { element, say } from "./dom.js";
import { count } from "./format.js";
import { get } from "./service.js";
import { tasksTable } from "./tasks-table.js";

const PAGE = 25;

/**
 * Return the list: {node, show, reload, mark, focus, neighbour}.
 * @param {string[]} path of the run.
 * @param {object} does sortBy, hrefOf and picks of the table; loaded: called with each page that came.
 */
export function tasksList(path, { sortBy, hrefOf, picks, loaded }) {
  const table = tasksTable(sortBy, hrefOf, picks);
  const where = element("span", { role: "status" });
  const back = element("button", { type: "button", disabled: true }, "Previous");
  const on = element("button", { type: "button", disabled: true }, "Next");
  const pages = element("div", { class: "heading pages" }, where, element("span", { class: "grow" }), back, on);
  const hint = element("p", { class: "soft sideways-hint" }, "Scroll the table sideways to see every column.");
  const cursors = [null]; // of the pages up to this one
  const state = { filters: {}, target: null, turn: "", next: null, rows: [] };

  async function load() {
    const wanted = { ...state.filters, cursor: cursors.at(-1), limit: PAGE };
    const turn = (state.turn = JSON.stringify(wanted));
    state.next = null; // the cursor of the page before does not fit this query
    const page = await get([...path, "tasks"], wanted);
    if (turn !== state.turn) return; // asked for something else meanwhile
    Object.assign(state, { next: page.next_cursor, rows: page.tasks });
    table.show(page.tasks, state.target, state.filters.sort);
    const first = (cursors.length - 1) * PAGE;
    const last = first + page.tasks.length;
    say(where, last > first ? `${count(first + 1)} to ${count(last)} of ${count(page.matching)}` : "No task matches.");
    back.disabled = cursors.length === 1;
    on.disabled = state.next === null;
    loaded(page);
  }

  /** Load the page again, or say what was refused; returns whether it was loaded. */
  async function reload() {
    try {
      await load();
      return true;
    } catch (error) {
      say(where, error.message);
      return false;
    }
  }

  /** Show the first page of what some filters let through. */
  function show(filters, target) {
    Object.assign(state, { filters, target });
    cursors.length = 1;
    return reload();
  }

  /** Return the id of the task before (way -1) or after (1) one of the page, an empty text where there is none. */
  function neighbour(id, way) {
    const place = state.rows.findIndex((task) => task.id === id);
    return (place >= 0 && state.rows[place + way]?.id) || "";
  }

  on.addEventListener("click", () => state.next !== null && (cursors.push(state.next), reload()));
  back.addEventListener("click", () => cursors.length > 1 && (cursors.pop(), reload()));
  const node = element("div", {}, hint, table.node, pages);
  return { node, show, reload, neighbour, mark: table.mark, focus: table.focus };
}
