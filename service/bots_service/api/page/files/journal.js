// A run's journal: each change in order, newest first. Thousands of reports are one line; what stands out has its own.

import { element, fill, say } from "./dom.js";
import { linesOf } from "./journal-entries.js";
import { lineItem } from "./journal-lines.js";
import { get } from "./service.js";

const NEWEST = 50;
const OLDER = 200; // as many as the service gives at a time
const MOST = 2000; // loaded at a time: a page that is left open for days stays small
const MARKS = ["settings", "forget", "rewind", "fork"];
const KINDS = {
  "": "all entries",
  report: "reports",
  settings: "settings",
  forget: "forgotten tasks",
  rewind: "rewinds",
};

/** Return the card: {node, refresh}. path: of the run. */
export function journal(path) {
  const state = { entries: new Map(), version: "", epoch: null, next: null, kind: "", marks: null, opened: new Set() };
  const filter = element(
    "select",
    { "aria-label": "Which entries" },
    Object.entries(KINDS).map(([value, text]) => element("option", { value }, text)),
  );
  const list = element("ol", { class: "journal" });
  const status = element("p", { class: "soft", role: "status" });
  const older = element("button", { type: "button", hidden: true }, "Load older entries");
  const body = element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Journal" },
    list,
    status,
  );
  const heading = element(
    "div",
    { class: "heading" },
    element("h2", {}, "Journal"),
    element("span", { class: "grow" }),
    filter,
  );
  const node = element("section", { class: "card" }, heading, body, older);
  const ask = (query) => get([...path, "journal"], query);

  /** Load the newest entries. Those loaded before stay where these reach them; so do marks, however old. */
  async function loadNewest() {
    const { kind } = state;
    const newest = await ask({ limit: NEWEST, kind });
    const marks = kind === "" ? (state.marks ?? (await ask({ limit: NEWEST, kind: MARKS })).entries) : [];
    if (kind !== state.kind) return; // asked for others meanwhile
    const reaches = newest.entries.some((entry) => state.entries.has(entry.seq));
    if (!reaches || state.entries.size > MOST) {
      state.entries.clear();
      state.next = newest.next_cursor;
    }
    if (kind === "") state.marks = marks;
    for (const entry of [...marks, ...newest.entries]) state.entries.set(entry.seq, entry);
    draw();
  }

  async function loadOlder() {
    older.disabled = true;
    try {
      const { kind } = state;
      const page = await ask({ limit: OLDER, cursor: state.next, kind });
      if (kind !== state.kind) return;
      state.next = page.next_cursor;
      for (const entry of page.entries) state.entries.set(entry.seq, entry);
      draw();
    } catch (error) {
      say(status, error.message);
    } finally {
      older.disabled = false;
    }
  }

  function draw() {
    const entries = [...state.entries.values()].toSorted((one, other) => other.seq - one.seq);
    const lines = linesOf(entries, state.kind === "");
    fill(list, ...lines.map((line) => lineItem(line, state.opened)));
    older.hidden = state.next === null;
    say(status, entries.length ? "" : state.kind ? `No ${KINDS[state.kind]}.` : "No reports yet.");
  }

  async function refresh(run) {
    const version = `${run.epoch}.${run.seq}.${run.created_at}`;
    if (version === state.version) return;
    if (run.epoch !== state.epoch) forget(); // a rewind undid some of them
    state.epoch = run.epoch;
    await loadNewest();
    state.version = version;
  }

  function forget() {
    state.entries.clear();
    state.marks = null;
  }

  filter.addEventListener("change", () => {
    state.kind = filter.value;
    forget();
    loadNewest().catch((error) => say(status, error.message));
  });
  older.addEventListener("click", loadOlder);
  return { node, refresh };
}
