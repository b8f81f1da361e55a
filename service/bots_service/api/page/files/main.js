// The page: which view an address shows, and that it stays as the service is.

import { newHref } from "./addresses.js";
import { askForKey, notFound, welcome } from "./begin.js";
import { showDataset } from "./dataset.js";
import { element, fill, say } from "./dom.js";
import { clock } from "./format.js";
import { showOverview } from "./overview.js";
import { showRun } from "./run.js";
import { Away, Refused, get, keep, key } from "./service.js";
import { showTask } from "./task.js";
import { showTasks } from "./tasks.js";

const EVERY_MS = 2000;
const PAUSE = 9; // times as long as the answers took: a page takes no more than a tenth of what a busy service has
const MOST_MS = 20000;

const [main, live, notice, leave] = ["main", "live", "notice", "sign-out"].map((id) => document.getElementById(id));

let caller = null; // who looks, once the service has said so
let view = null; // what is shown: {node, trail, refresh}, and follow(query) where it follows its address's query itself
let opened = ""; // its address, without the query
let isKnown = false; // whether the service has answered it
let answeredAt = null; // when the service has answered last
let turn = 0; // raised by each change of address: what was asked for an older one is dropped
let timer = 0;

/** Return the view of an address, as in #/datasets/guru/runs/default */
function viewOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const asked = new URLSearchParams(query);
  const [kind, dataset, other, run, part, ...more] = path.split("/").map(decoded);
  if (path === "") return showOverview(asked);
  if (path === "new")
    return { node: welcome("New dataset"), trail: [["New dataset", newHref]], refresh: () => get(["version"]) };
  if (kind !== "datasets" || !dataset || more.length) return missing({ address: hash });
  if (other === undefined) return { ...showDataset(dataset, asked), dataset, run: null };
  if (other !== "runs" || !run) return missing({ address: hash });
  if (part === "tasks" && asked.has("task"))
    return { ...showTask(dataset, run, asked.get("task"), caller), dataset, run };
  if (part === "tasks") return { ...showTasks(dataset, run, asked), dataset, run };
  return part === undefined ? { ...showRun(dataset, run, caller), dataset, run } : missing({ address: hash });
}

const missing = (what) => ({ node: notFound(what), trail: [], refresh: async () => {} });

/** Return a part of an address; one that nobody encoded stands for itself, and the service says what it thinks of it. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const pathOf = (hash) => (hash.includes("?task=") ? hash : hash.split("?")[0]);

/** Show what the address says now. A view that can follows a change of its own query, and is not made again. */
function follow() {
  if (pathOf(location.hash) === opened && view.follow) view.follow(new URLSearchParams(location.hash.split("?")[1]));
  else open();
}

async function open() {
  turn += 1;
  opened = pathOf(location.hash);
  isKnown = false;
  say(notice, "");
  view = viewOf(location.hash);
  document.title = [...view.trail.map(([name]) => name), "BOTS selector"].toReversed().join(" – ");
  const place = (at) => (at === view.trail.length - 1 ? "page" : null);
  const trail = document.getElementById("trail");
  fill(trail, ...view.trail.map(([name, href], at) => element("a", { href, "aria-current": place(at) }, name)));
  show(view.node);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  await refresh();
}

function show(node) {
  delete main.dataset.stale;
  main.removeAttribute("aria-busy");
  fill(main, node);
}

async function refresh() {
  clearTimeout(timer);
  const [asked, began] = [turn, performance.now()];
  try {
    await view.refresh();
    if (asked !== turn) return;
    tellAnswered();
    isKnown = true;
    view.node.hidden = false;
    if (!main.contains(view.node)) show(view.node); // it was missing
  } catch (error) {
    if (asked !== turn || wantsKey(error)) return;
    failed(error);
  }
  const pause = Math.min(Math.max(EVERY_MS, PAUSE * (performance.now() - began)), MOST_MS);
  timer = setTimeout(refresh, document.hidden ? MOST_MS : pause);
}

function tellAnswered() {
  answeredAt = Date.now();
  live.dataset.state = "live";
  say(live, "live");
  say(notice, "");
  delete main.dataset.stale;
}

/** What was refused is not shown, nor is what never was answered; what is only not answered for now stays as it was. */
function failed(error) {
  if (error.status === 404) {
    tellAnswered();
    const run = error.problem.type === "urn:bots:problem:unknown-dataset" ? null : view.run;
    if (main.contains(view.node)) show(notFound({ dataset: view.dataset, run, address: location.hash }));
    return; // the view is asked again, and shown once it answers
  }
  const isExpected = error instanceof Refused || error instanceof Away;
  if (!isExpected) console.error(error);
  live.dataset.state = "away";
  if (error instanceof Refused && error.status < 500) {
    isKnown = false;
    say(live, "refused");
    say(notice, error.message);
  } else {
    const sentence = isExpected ? error.message : `A fault in the page hides the answer (${error.message}). Reload it.`;
    const shown = isKnown ? "You see what was known then." : "This view appears as soon as there is an answer.";
    say(live, answeredAt ? `no answer since ${clock(answeredAt)}` : "no answer");
    say(notice, `${sentence} ${shown}`);
    if (isKnown) main.dataset.stale = "";
  }
  if (view) view.node.hidden = !isKnown;
}

/** Ask for a key where that is what was wrong; returns whether it was. */
function wantsKey(error) {
  if (!(error instanceof Refused) || error.status !== 401) return false;
  turn += 1;
  view = null;
  delete live.dataset.state;
  for (const node of [live, notice]) say(node, "");
  show(askForKey(key() ? error.message : null, enter));
  keep(null);
  leave.hidden = true;
  return true;
}

async function enter() {
  clearTimeout(timer);
  try {
    const [who, version] = await Promise.all([get(["whoami"]), get(["version"])]);
    caller = who;
    leave.hidden = !key();
    for (const link of document.querySelectorAll(".open")) link.hidden = who.guarded; // a link carries no key
    say(document.getElementById("version"), `BOTS selector ${version.version}`);
  } catch (error) {
    if (wantsKey(error)) return;
    failed(error);
    timer = setTimeout(enter, EVERY_MS);
    return;
  }
  await open();
}

leave.addEventListener("click", () => {
  keep(null);
  location.reload();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be taken for a view's
  main.focus();
});
addEventListener("hashchange", () => view !== null && follow());
document.addEventListener("visibilitychange", () => !document.hidden && view !== null && refresh());
enter();
