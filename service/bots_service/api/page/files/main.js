// The page: which view an address shows, and that it stays as the service is.

import { element, fill, say } from "./dom.js";
import { showDataset } from "./dataset.js";
import { notFound } from "./not-found.js";
import { showOverview } from "./overview.js";
import { showRun } from "./run.js";
import { Away, Refused, get } from "./service.js";
import { key, signOut } from "./session.js";
import { askForKey } from "./sign-in.js";
import { tellAnswered, tellNothing, tellTrouble } from "./standing.js";
import { showTasks } from "./tasks.js";
import { offerThemes } from "./themes.js";

const EVERY_MS = 2000;
const PAUSE = 9; // times as long as the answers took: a page takes no more than a tenth of what a busy service has
const MOST_MS = 20000;

const main = document.getElementById("main");
const leave = document.getElementById("sign-out");

let caller = null; // who looks, once the service has said so
let view = null; // what is shown: {node, trail, refresh}, and follow(query) where it follows its address's query itself
let opened = ""; // its address, without the query
let isKnown = false; // whether the service has answered it
let turn = 0; // raised by each change of address: what was asked for an older one is dropped
let timer = 0;

/** Return the view of an address, as in #/datasets/guru/runs/default */
function viewOf(hash) {
  const [path, ...query] = hash.replace(/^#\/?/, "").split("?");
  const asked = new URLSearchParams(query.join("?"));
  const [kind, dataset, other, run, part, ...more] = path.split("/").map(decoded);
  const isRun = kind === "datasets" && dataset && other === "runs" && run && !more.length;
  if (isRun && !part) return { ...showRun(dataset, run, caller), dataset, run };
  if (isRun && part === "tasks") return { ...showTasks(dataset, run, asked, caller), dataset, run };
  if (kind === "datasets" && dataset && !other) return { ...showDataset(dataset, asked), dataset, run: null };
  return path === "" ? showOverview(asked, caller) : notFound({ address: hash });
}

/** Return a part of an address; one that nobody encoded stands for itself, and the service says what it thinks of it. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Show what the address says now. A view that can follows a change of its own query, and is not made again. */
function follow() {
  const [path, query] = location.hash.split("?");
  if (path === opened && view.follow) view.follow(new URLSearchParams(query));
  else open();
}

async function open() {
  turn += 1;
  opened = location.hash.split("?")[0];
  isKnown = false;
  say(document.getElementById("notice"), "");
  view = viewOf(location.hash);
  showTrail(view.trail);
  show(view.node);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  await refresh();
}

function show(node) {
  delete main.dataset.stale;
  fill(main, node);
}

function showTrail(trail) {
  document.title = [...trail.map((part) => part.name), "BOTS selector"].toReversed().join(" – ");
  const links = trail.map((part, place) =>
    element("a", { href: part.href, "aria-current": place === trail.length - 1 ? "page" : null }, part.name),
  );
  fill(document.getElementById("trail"), ...links);
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
    if (asked !== turn) return;
    if (wantsKey(error)) return;
    failed(error);
  }
  main.removeAttribute("aria-busy");
  const pause = Math.min(Math.max(EVERY_MS, PAUSE * (performance.now() - began)), MOST_MS);
  timer = setTimeout(refresh, document.hidden ? MOST_MS : pause);
}

/** What was refused is not shown, nor is what never was answered; what is only not answered for now stays as it was. */
function failed(error) {
  if (error.status === 404) return showMissing(error);
  if (!(error instanceof Refused || error instanceof Away)) console.error(error);
  tellTrouble(error, isKnown);
  if (error instanceof Refused && error.status < 500) isKnown = false;
  view.node.hidden = !isKnown;
}

/** Show what is missing in place of its view. The view is asked again, and shown once it answers. */
function showMissing({ problem }) {
  tellAnswered();
  if (!main.contains(view.node)) return;
  const run = problem.type === "urn:bots:problem:unknown-dataset" ? null : view.run;
  const missing = notFound({ dataset: view.dataset, run, address: location.hash });
  show(missing.node);
  missing.refresh().catch(() => {}); // it does without near names
}

/** Ask for a key where that is what was wrong; returns whether it was. */
function wantsKey(error) {
  if (!(error instanceof Refused) || error.status !== 401) return false;
  turn += 1;
  view = null;
  tellNothing();
  show(askForKey(key() ? error.message : null, enter));
  main.removeAttribute("aria-busy");
  signOut();
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
    tellTrouble(error, false);
    timer = setTimeout(enter, EVERY_MS);
    return;
  }
  await open();
}

leave.addEventListener("click", () => {
  signOut();
  location.reload();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be taken for a view's
  main.focus();
});
addEventListener("hashchange", () => view !== null && follow());
document.addEventListener("visibilitychange", () => !document.hidden && view !== null && refresh());
offerThemes(document.getElementById("theme"));
enter();
