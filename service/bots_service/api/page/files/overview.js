// All runs of all datasets in one table, by one request a refresh. The service searches, sorts and pages them.

import { overviewHref, remember } from "./addresses.js";
import { element, fill, isBeingRead } from "./dom.js";
import { tellTimes } from "./format.js";
import { filters, pager, totalsStrip } from "./overview-filters.js";
import { headOf, keyOf, rowsOf } from "./overview-table.js";
import { get } from "./service.js";
import { welcome } from "./welcome.js";

const PAGE = 50;
const URGENT = "-attention";
const FIRST = { cursor: "", first: 1 }; // page; first: the place of its first run, from 1

/** Return the view of everything. query: of its address; caller: who looks. */
export function showOverview(query, caller) {
  const asked = askedBy(query);
  let at = pageOf(query); // the page of those: {cursor, first}
  const parts = frame(change, move);
  let earlier = history.state?.earlier ?? []; // the pages before this one
  let turn = 0; // raised by each request: an older one's answer is dropped
  let shown = "";
  let next = null;

  async function refresh() {
    const mine = (turn += 1);
    const page = await get(["overview"], { ...asked, cursor: at.cursor, limit: PAGE });
    if (mine !== turn) return;
    next = page.next_cursor;
    const version = JSON.stringify([page, asked, at]);
    if (version !== shown && !isBeingRead(parts.table)) {
      shown = version;
      if (page.totals.datasets) show(page);
      else if (!parts.isEmpty()) parts.showWelcome(welcome(caller));
    }
    tellTimes(parts.table);
  }

  function show(page) {
    parts.totals.show(page.totals);
    parts.filters.show(asked, page.totals);
    fill(
      parts.head,
      headOf(asked.sort, (sort) => change({ sort })),
    );
    fill(parts.body, rowsOf(page.runs));
    if (page.runs.length) parts.pager.show(page, at.first);
    parts.showRuns(page.runs.length > 0);
  }

  /** Ask for something else, at its first page. isTyped: letter by letter, so Back does not return to each. */
  function change(wanted, isTyped = false) {
    if (Object.entries(wanted).every(([name, value]) => asked[name] === value)) return;
    Object.assign(asked, wanted);
    at = FIRST;
    earlier = [];
    ask(!isTyped);
  }

  function move(by) {
    if (by > 0) {
      earlier = [...earlier, at];
      at = { cursor: next, first: at.first + PAGE };
    } else {
      at = earlier.at(-1) ?? FIRST;
      earlier = earlier.slice(0, -1);
    }
    ask(true);
  }

  async function ask(isNew) {
    remember(addressOf(asked, at), { isNew, state: { earlier } });
    parts.table.setAttribute("aria-busy", "true");
    try {
      await refresh();
    } catch (error) {
      parts.pager.tell(error.message);
    }
    parts.table.removeAttribute("aria-busy");
  }
  return { node: parts.node, trail: [], refresh };
}

/** Return what an address asks for. */
function askedBy(query) {
  const text = (name, otherwise = "") => query.get(name) ?? otherwise;
  return {
    search: text("search"),
    dataset: text("dataset"),
    status: text("status"),
    attention: text("attention"),
    sort: text("sort", URGENT),
  };
}

const pageOf = (query) =>
  query.has("cursor") ? { cursor: query.get("cursor"), first: Math.max(Number(query.get("first")) || 1, 1) } : FIRST;

function addressOf({ sort, ...asked }, { cursor, first }) {
  return overviewHref({ ...asked, sort: sort === URGENT ? null : sort, cursor, first: cursor === "" ? null : first });
}

/** Return the parts of the view. */
function frame(change, move) {
  const [head, body] = [element("thead", { role: "rowgroup" }), element("tbody", { role: "rowgroup" })];
  const totals = totalsStrip();
  const search = filters(change);
  const pages = pager(move);
  const all = () => change({ search: "", dataset: "", status: "", attention: "" });
  const nothing = element(
    "p",
    { class: "no-match", hidden: true },
    "No run matches. ",
    element("button", { type: "button", onclick: all }, "Show all runs"),
  );
  const region = { class: "runs-region", role: "region", "aria-label": "Runs" };
  const rows = element(
    "table",
    { class: "runs", role: "table" },
    element("caption", { class: "unseen" }, "Runs"),
    head,
    body,
  );
  const table = element("div", region, rows);
  const key = keyOf();
  const card = element("section", { class: "card runs-card" }, search.node, table, nothing, key, pages.node);
  const content = element("div", { class: "stack" });
  const node = element("div", { class: "overview" }, element("h1", { class: "unseen" }, "All runs"), content);

  function showRuns(isAny) {
    if (!card.isConnected) fill(content, totals.node, card);
    rows.hidden = key.hidden = pages.node.hidden = !isAny;
    nothing.hidden = isAny;
  }
  const isEmpty = () => content.firstElementChild !== null && !card.isConnected;
  const showWelcome = (greeting) => fill(content, greeting);
  return { node, head, body, table, totals, filters: search, pager: pages, showRuns, showWelcome, isEmpty };
}
