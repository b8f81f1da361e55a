// A run's tags: which are chosen, which teach, and how the model does on each.

import { element, fill, table } from "./dom.js";
import { count, percent } from "./format.js";

const SHOWN = 12; // tags; the others open with a click
const WIDTH = 90;

const COLUMNS = [
  { name: "Tag" },
  { name: "Tasks", number: true },
  { name: "Share selected" },
  { name: "Effective task ratio" },
  { name: "Mean reward" },
  { name: "Rollouts", number: true },
];

/** Return the panel: {node, show}. */
export function tagsPanel() {
  const about = element("p", { class: "soft" });
  const body = element("div");
  const node = element(
    "section",
    { class: "card wide", "aria-labelledby": "tags", hidden: true },
    element("h2", { id: "tags" }, "Tags"),
    about,
    body,
  );

  /** found: the answer of /tags; mix: the tags of the run's mix. */
  function show({ first_step: first, last_step: last, tags }, mix) {
    node.hidden = !tags.length;
    const sorted = tags.toSorted((one, other) => other.reported - one.reported || other.tasks - one.tasks);
    const owed = Object.fromEntries(mix.map(({ tag, share }) => [tag, share]));
    const ticks = mix.length
      ? "the share that the mix owes the tag, for other tags their share of the pool"
      : "the tag's share of the pool";
    fill(
      about,
      `Steps ${count(first)} to ${count(last)}. The tick on a bar: ${ticks}; or the mean reward in as many steps before.`,
    );
    fill(body, tagsTable("Numbers by tag", sorted.slice(0, SHOWN), owed), more(sorted.slice(SHOWN), owed));
  }
  return { node, show };
}

function more(tags, owed) {
  if (!tags.length) return null;
  const title = `${count(tags.length)} more tags`;
  return element("details", {}, element("summary", {}, title), tagsTable(title, tags, owed));
}

function tagsTable(caption, tags, owed) {
  const rows = tags.map((tag) => [
    element("span", { class: "tag" }, tag.tag),
    count(tag.tasks),
    tag.tag in owed
      ? bar(tag.selected_share, owed[tag.tag], "owed by the mix")
      : bar(tag.selected_share, tag.pool_share, "of the pool"),
    bar(tag.effective_task_ratio, null, ""),
    bar(tag.mean_pass_rate, tag.earlier_mean_pass_rate, "before"),
    count(tag.rollouts),
  ]);
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return element("div", region, table(caption, COLUMNS, rows));
}

/** Return a share as a bar with its number, and a tick at what it is compared with. */
function bar(share, other, what) {
  const said = percent(share);
  if (share === null) return said;
  const tick =
    other === null ? null : element("svg:line", { class: "tick", x1: other * WIDTH, x2: other * WIDTH, y1: 0, y2: 14 });
  const label = other === null ? said : `${said}; ${what}: ${percent(other)}`;
  return element(
    "span",
    { class: "measure", title: label },
    element(
      "svg:svg",
      { class: "bar", viewBox: `0 0 ${WIDTH} 14`, width: WIDTH, height: 14, "aria-hidden": "true" },
      element("svg:rect", { class: "whole", width: WIDTH, y: 3, height: 8, rx: 2 }),
      element("svg:rect", { class: "part", width: share * WIDTH, y: 3, height: 8, rx: 2 }),
      tick,
    ),
    element(
      "span",
      {},
      said,
      other === null ? null : element("span", { class: "unseen" }, `, ${what}: ${percent(other)}`),
    ),
  );
}
