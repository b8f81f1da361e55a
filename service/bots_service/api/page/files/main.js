// The page: which view an address shows, and that it stays as the service is.

import { element, fill, say } from "./dom.js";
import { clock } from "./format.js";
import { showDataset } from "./dataset.js";
import { showOverview } from "./overview.js";
import { showRun } from "./run.js";
import { Refused, get } from "./service.js";
import { key, signOut } from "./session.js";
import { askForKey } from "./sign-in.js";
import { offerThemes } from "./themes.js";

const EVERY_MS = 2000;
const PAUSE = 9; // times as long as the answers took: a page takes no more than a tenth of what a busy service has
const MOST_MS = 20000;

const main = document.getElementById("main");
const live = document.getElementById("live");
const notice = document.getElementById("notice");
const leave = document.getElementById("sign-out");

let caller = null; // who looks, once the service has said so
let view = null; // what is shown: {node, trail, refresh}
let turn = 0; // raised by each change of address: what was asked for an older one is dropped
let timer = 0;
let answeredAt = null;

/** Return the view of an address, as in #/datasets/guru/runs/default */
function viewOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [kind, dataset, other, run] = path.split("/").map(decoded);
  if (kind === "datasets" && dataset && other === "runs" && run) return showRun(dataset, run, caller);
  if (kind === "datasets" && dataset) return showDataset(dataset, new URLSearchParams(query));
  return showOverview();
}

/** Return a part of an address; one that nobody encoded stands for itself, and the service says what it thinks of it. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function open() {
  turn += 1;
  say(notice, "");
  view = viewOf(location.hash);
  showTrail(view.trail);
  show(view.node);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  await refresh();
}

/** Show another view. Without this, plotly would keep listening to the window's size for removed charts. */
function show(node) {
  for (const plot of main.querySelectorAll(".plot")) globalThis.Plotly.purge(plot);
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
    allIsWell();
  } catch (error) {
    if (asked !== turn) return;
    if (wantsKey(error)) return;
    tell(error);
  }
  const pause = Math.min(Math.max(EVERY_MS, PAUSE * (performance.now() - began)), MOST_MS);
  timer = setTimeout(refresh, document.hidden ? MOST_MS : pause);
}

function allIsWell() {
  answeredAt = Date.now();
  live.dataset.state = "live";
  say(live, "live");
  say(notice, "");
  if (!view.node.hidden) return;
  view.node.hidden = false;
  for (const plot of view.node.querySelectorAll(".plot")) globalThis.Plotly.Plots.resize(plot);
}

/** Say what went wrong. What was refused is not shown; what is only not answered for now stays as it was. */
function tell(error) {
  live.dataset.state = "away";
  if (!(error instanceof Refused)) {
    say(live, answeredAt ? `no answer since ${clock(answeredAt)}` : "the service does not answer");
  } else if (error.status >= 500 || error.status === 429) {
    say(live, error.status === 429 ? "asked too often" : "not available");
  } else {
    say(live, "refused");
    say(notice, error.message);
    if (view !== null) view.node.hidden = true;
  }
}

/** Ask for a key where that is what was wrong; returns whether it was. */
function wantsKey(error) {
  if (!(error instanceof Refused) || error.status !== 401) return false;
  turn += 1;
  view = null;
  show(askForKey(key() ? error.message : null, enter));
  say(notice, "");
  delete live.dataset.state;
  say(live, "");
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
    tell(error);
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
addEventListener("hashchange", () => view !== null && open());
document.addEventListener("visibilitychange", () => !document.hidden && view !== null && refresh());
offerThemes(document.getElementById("theme"));
enter();
