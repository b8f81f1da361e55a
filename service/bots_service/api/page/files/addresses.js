// Addresses of the page's views. An address holds all that its view shows, so that links and Back work.

import { element, say } from "./dom.js";
import { count } from "./format.js";
import { withQuery } from "./service.js";

const FIRST = { cursor: "", first: 1 }; // page; first: the place of its first row, from 1

const part = encodeURIComponent;
const isUnusual = (value, usual) => String(value) !== String(usual) || value[0] === ""; // also a list of an empty text
const earlierPages = () => history.state?.earlier ?? [];

export const overviewHref = (query = {}) => withQuery("#/", query);
export const newHref = "#/new";
export const datasetHref = (dataset, query = {}) => withQuery(`#/datasets/${part(dataset)}`, query);
export const runHref = (dataset, run) => `#/datasets/${part(dataset)}/runs/${part(run)}`;
export const tasksHref = (dataset, run, query = {}) => withQuery(`${runHref(dataset, run)}/tasks`, query);

/**
 * Return what a view asks for, kept in its address: {asked, page, change, follow, pager, show}.
 * @param {URLSearchParams} query of its address.
 * @param {object} usual what it asks for by name where the address does not say; a list takes all values of its name.
 * @param {(query: object) => string} hrefOf returns its address.
 * @param {() => Promise} reload asks the service, after each change.
 */
export function listing(query, usual, hrefOf, reload) {
  const where = element("span", { role: "status" });
  const back = element("button", { type: "button", onclick: () => previous() }, "Previous");
  const on = element("button", { type: "button", onclick: () => following() }, "Next");
  const pager = element("div", { class: "heading pages" }, where, back, on);
  const list = { asked: {}, page: FIRST, change, follow, pager, show };
  let [next, shown] = [null, 0];

  function read(given) {
    const value = (name) => (Array.isArray(usual[name]) ? given.getAll(name) : (given.get(name) ?? usual[name]));
    list.asked = Object.fromEntries(Object.keys(usual).map((name) => [name, value(name)]));
    list.page = { cursor: given.get("cursor") ?? "", first: Number(given.get("first")) || 1 };
  }

  /** Ask for what an address says. */
  function follow(given) {
    read(given);
    return again();
  }

  /** Ask for something else, from its first page on. isTyped: letter by letter, so Back does not return to each. */
  function change(wanted, isTyped = false) {
    read(new URLSearchParams(location.hash.split("?")[1])); // of a link that the view has not heard of yet
    list.asked = { ...list.asked, ...wanted };
    return turn(FIRST, [], isTyped);
  }

  /** Show a page. earlier: those before it. */
  function turn(page, earlier, isTyped = false) {
    list.page = page;
    const given = Object.entries(list.asked).filter(([name, value]) => isUnusual(value, usual[name]));
    const address = hrefOf({ ...Object.fromEntries(given), ...(page === FIRST ? {} : page) });
    history[isTyped ? "replaceState" : "pushState"]({ earlier }, "", address);
    return again();
  }

  const again = () => reload().catch((error) => say(where, error.message));

  function following() {
    turn({ cursor: next, first: list.page.first + shown }, [...earlierPages(), list.page]);
  }

  function previous() {
    const earlier = earlierPages();
    turn(earlier.at(-1)?.cursor ? earlier.at(-1) : FIRST, earlier.slice(0, -1));
  }

  /** Say which rows are shown. rows: how many; matching: of how many; cursor: of the next page, null at the end. */
  function show(rows, matching, cursor) {
    [next, shown] = [cursor, rows];
    const { first } = list.page;
    say(where, rows ? `${count(first)} to ${count(first + rows - 1)} of ${count(matching)}` : "Nothing matches.");
    back.disabled = first === 1;
    on.disabled = cursor === null;
  }
  read(query);
  return list;
}
