// A run's tasks in one card of its view: how many are in each segment. Each number leads to those tasks.

import { element, fill } from "./dom.js";
import { count, percent } from "./format.js";
import { POOL, meaningOf, poolOf, segmentBar, shareOf, dotOf, titleOf } from "./segments.js";
import { get } from "./service.js";
import { tasksHref } from "./tasks-address.js";

const AGAIN_MS = 5000; // the service looks at every task of the pool to count them

/** Return the card: {node, refresh}. */
export function tasksSummary(dataset, run) {
  const bar = segmentBar();
  const list = element("ul", { class: "segment-links" });
  const all = element("a", { class: "button", href: tasksHref(dataset, run) }, "All tasks");
  const node = element(
    "section",
    { class: "card wide", "aria-labelledby": "tasks" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "tasks" }, "Tasks"),
      element("span", { class: "grow" }),
      all,
    ),
    bar.node,
    list,
  );
  let [shown, at] = ["", 0];

  async function refresh(now) {
    const version = `${now.epoch}.${now.seq}.${now.coverage.available_tasks}`;
    if (version === shown || Date.now() - at < AGAIN_MS) return;
    const { segments } = await get(["datasets", dataset, "runs", run, "tasks"], { limit: 1 });
    [shown, at] = [version, Date.now()];
    bar.draw(segments);
    fill(list, ...POOL.map((segment) => link(dataset, run, segment, segments)));
    fill(all, `All ${count(poolOf(segments))} tasks`);
  }
  return { node, refresh };
}

function link(dataset, run, segment, counts) {
  return element(
    "li",
    {},
    element(
      "a",
      { href: tasksHref(dataset, run, { segment }), title: meaningOf(segment), "data-name": segment },
      dotOf(segment),
      element("span", {}, titleOf(segment)),
      element("strong", {}, count(counts[segment])),
      element("span", { class: "soft" }, percent(shareOf(segment, counts))),
    ),
  );
}
