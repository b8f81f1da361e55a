// The view of a run's tasks: segments, filters, the list, and a drawer with the details of one.

import { element, say } from "./dom.js";
import { count, decimal } from "./format.js";
import { datasetHref, runHref } from "./addresses.js";
import { markedBar, mayRetire, retiring } from "./retiring.js";
import { segmentChoice } from "./segments.js";
import { get } from "./service.js";
import { taskDrawer } from "./task-drawer.js";
import { askedBy, tasksHref } from "./tasks-address.js";
import { csvButton, tasksFilters } from "./tasks-filters.js";
import { tasksList } from "./tasks-list.js";

const FILTERS = ["segment", "search", "tag", "sort"];
const AGAIN_MS = 10000; // a page that nobody touches is loaded again this often, if the run has changed

/** Return the view. query: of the address; caller: who looks. */
export function showTasks(dataset, run, query, caller) {
  const path = ["datasets", dataset, "runs", run];
  const may = mayRetire(caller);
  const marked = new Set();
  const about = element("p", { class: "soft" });
  let asked = askedBy(query);
  let isOurs = false; // whether the drawer was opened from this list, so that Back closes it
  let [target, shown, at] = [null, null, 0];

  const hrefOf = (change) => tasksHref(dataset, run, { ...asked, ...change });
  const howNow = () => (asked.segment === "retired" ? "restore" : "retire");
  const filtersNow = () => Object.fromEntries(FILTERS.map((name) => [name, asked[name]]));

  const choice = segmentChoice((segment) => go({ segment }));
  const filters = tasksFilters((change) => go(change, { isNew: "tag" in change }));
  const csv = csvButton([...path, "tasks"], filtersNow, `${dataset}-${run}-tasks.csv`);
  const list = tasksList(path, {
    sortBy: (sort) => go({ sort }),
    hrefOf: (task) => hrefOf({ task }),
    picks: may ? { has: (id) => marked.has(id), set: mark } : null,
    loaded: (page) => (choice.show(asked.segment, page.segments), showDrawer()),
  });
  const retire = retiring(dataset, () => (mark([...marked], false), list.reload(), drawer.refresh(target)));
  const bar = markedBar(
    () => retire.ask(howNow(), [...marked]),
    () => mark([...marked], false),
  );
  const drawer = taskDrawer(path, {
    leave: () => (isOurs ? history.back() : go({ task: "" }, { isNew: false })),
    move: (way) => go({ task: list.neighbour(asked.task, way) }, { isNew: false }),
    retire: may ? (how, id) => retire.ask(how, [id]) : null,
  });

  /** Show something else, under an address of its own. isNew: whether Back returns to what is shown now. */
  function go(change, { isNew = true } = {}) {
    const address = hrefOf(change);
    if (isNew) {
      location.hash = address; // main.js lets this view follow it
      return;
    }
    history.replaceState(null, "", address);
    follow(new URLSearchParams(address.split("?")[1]));
  }

  /** Show what the address asks for now. */
  function follow(changed) {
    const before = asked;
    asked = askedBy(changed);
    isOurs = asked.task !== "" && (isOurs || before.task === "");
    filters.show(asked);
    choice.show(asked.segment, null);
    if (asked.segment !== before.segment) mark([...marked], false);
    if (FILTERS.some((name) => asked[name] !== before[name])) list.show(filtersNow(), target);
    showDrawer();
    if (before.task && !asked.task) list.focus(before.task);
  }

  function showDrawer() {
    const [before, after] = [-1, 1].map((way) => list.neighbour(asked.task, way) !== "");
    drawer.show(asked.task, target, { before, after });
  }

  function mark(ids, isMarked) {
    for (const id of ids) {
      if (isMarked) marked.add(id);
      else marked.delete(id);
    }
    list.mark();
    bar.show(marked.size, howNow());
  }

  async function refresh() {
    const [now, row] = await Promise.all([get(path), shown === null ? get(["datasets", dataset]) : null]);
    if (row) {
      filters.offer(Object.keys(row.tags));
      list.node.classList.toggle("untagged", Object.keys(row.tags).length === 0);
    }
    const version = `${now.epoch}.${now.seq}.${now.created_at}`;
    if (version === shown || Date.now() - at < AGAIN_MS) return;
    target = now.settings.target;
    say(
      about,
      `Run ${run} of ${dataset}, at step ${count(now.step)}. Target success probability: ${decimal(target, 2)}.`,
    );
    const isLoaded = await (shown === null ? list.show(filtersNow(), target) : list.reload());
    drawer.refresh(target);
    [shown, at] = isLoaded ? [version, Date.now()] : [null, 0];
  }

  filters.show(asked);
  choice.show(asked.segment, null);
  const node = frame({ about, choice, filters, csv, retire, bar, list, drawer });
  const trail = [
    { name: dataset, href: datasetHref(dataset) },
    { name: run, href: runHref(dataset, run) },
    { name: "Tasks", href: tasksHref(dataset, run) },
  ];
  return { node, trail, refresh, follow };
}

function frame({ about, choice, filters, csv, retire, bar, list, drawer }) {
  return element(
    "div",
    { class: "stack" },
    element("div", {}, element("h1", {}, "Tasks"), about),
    element("section", { class: "card", "aria-label": "Segments" }, choice.node),
    element(
      "section",
      { class: "card", "aria-label": "List" },
      element("div", { class: "heading" }, filters.nodes, element("span", { class: "grow" }), retire.node, csv.nodes),
      bar.node,
      list.node,
    ),
    drawer.node,
  );
}
