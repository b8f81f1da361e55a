// What narrows a run's tasks down: a part of their id, and a tag. And what is found, as a file.

import { saveAs } from "./downloads.js";
import { element, fill, say } from "./dom.js";
import { file } from "./service.js";

const TYPED_MS = 250; // after the last letter of a search
const ALL_TAGS = "all tags";

/** Return the fields: {node, show, offer}. change: called with {search} as it is typed, or with {tag}. */
export function tasksFilters(change) {
  const search = element("input", {
    type: "search",
    placeholder: "Search ids",
    "aria-label": "Search tasks by id",
    maxlength: "128",
  });
  const tag = element("select", { "aria-label": "Only tasks with this tag" }, option("", ALL_TAGS));
  let typed = 0;
  search.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => change({ search: search.value.trim() }), TYPED_MS);
  });
  tag.addEventListener("change", () => change({ tag: tag.value }));

  /** Show what is asked for; a field that somebody types in stays as it is. */
  function show(asked) {
    if (document.activeElement !== search) search.value = asked.search;
    if (![...tag.options].some((one) => one.value === asked.tag)) tag.append(option(asked.tag, asked.tag));
    tag.value = asked.tag;
  }

  /** Offer the tags of a dataset. */
  function offer(tags) {
    const chosen = tag.value;
    const names = new Set(chosen ? [...tags, chosen] : tags);
    fill(tag, option("", ALL_TAGS), ...[...names].toSorted().map((name) => option(name, name)));
    tag.value = chosen;
    tag.hidden = names.size === 0;
  }
  return { nodes: [search, tag], show, offer };
}

const option = (value, text) => element("option", { value }, text);

/**
 * Return a button that saves all tasks that the query matches: {node}.
 * @param {string[]} path of the tasks.
 * @param {() => object} query what narrows them down now.
 * @param {string} name of the file.
 */
export function csvButton(path, query, name) {
  const button = element("button", { type: "button" }, "Download CSV");
  const status = element("span", { class: "soft", role: "status" });
  let stop = null; // ends the download that is under way

  button.addEventListener("click", async () => {
    if (stop) {
      stop.abort();
      return;
    }
    stop = new AbortController();
    fill(button, "Stop download");
    say(status, "");
    try {
      saveAs(name, await file(path, { ...query(), format: "csv" }, stop.signal));
    } catch (error) {
      say(status, stop.signal.aborted ? "Download stopped." : error.message);
    } finally {
      stop = null;
      fill(button, "Download CSV");
    }
  });
  return { nodes: [status, button] };
}
