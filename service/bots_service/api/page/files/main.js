// The page: which view an address shows, and that it stays as the service is.

import { element, fill, say } from "./dom.js";
import { distance } from "./format.js";
import { showDataset } from "./dataset.js";
import { showOverview } from "./overview.js";
import { showRun } from "./run.js";
import { Refused, get } from "./service.js";
import { key, signOut } from "./session.js";
import { askForKey } from "./sign-in.js";
import { offerThemes } from "./themes.js";

const EVERY_MS = 2000;

const main = document.getElementById("main");
const live = document.getElementById("live");
const leave = document.getElementById("sign-out");

let view = null; // what is shown: {node, refresh}
let turn = 0; // raised by each change of address: what was asked for an older one is dropped
let timer = 0;
let answeredAt = null;

/** Return the view of an address, as in #/datasets/guru/runs/default */
function viewOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [kind, dataset, other, run] = path.split("/").map(decodeURIComponent);
  if (kind === "datasets" && dataset && other === "runs" && run) return showRun(dataset, run);
  if (kind === "datasets" && dataset) return showDataset(dataset, new URLSearchParams(query));
  return showOverview();
}

async function open() {
  turn += 1;
  for (const plot of main.querySelectorAll(".plot")) globalThis.Plotly.purge(plot); // it listens to the window's size
  view = viewOf(location.hash);
  showTrail(view.trail);
  fill(main, view.node);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  await refresh();
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
  const asked = turn;
  try {
    await view.refresh();
    if (asked !== turn) return;
    answeredAt = Date.now();
    live.dataset.state = "live";
    say(live, "live");
  } catch (error) {
    if (asked !== turn) return;
    if (fails(error)) return;
  }
  timer = setTimeout(refresh, document.hidden ? 10 * EVERY_MS : EVERY_MS);
}

/** Show what went wrong; returns whether asking again would be of no use. */
function fails(error) {
  if (error instanceof Refused && error.status === 401) {
    fill(main, askForKey(key() ? error.message : null, enter));
    signOut();
    leave.hidden = true;
    return true;
  }
  live.dataset.state = "away";
  if (!(error instanceof Refused)) {
    say(live, answeredAt ? `no answer since ${distance(answeredAt)}` : "the service does not answer");
    return false;
  }
  say(live, error.status < 500 ? "refused" : "not available");
  if (error.status < 500) fill(main, element("p", { class: "card", role: "alert" }, error.message));
  return error.status < 500;
}

async function enter() {
  leave.hidden = !key();
  const [caller, version] = await Promise.all([get(["whoami"]), get(["version"])]).catch((error) => [
    null,
    fails(error),
  ]);
  if (caller === null) return;
  say(document.getElementById("version"), `BOTS selector ${version.version}`);
  for (const link of document.querySelectorAll(".open")) link.hidden = caller.guarded; // a link carries no key
  await open();
}

leave.addEventListener("click", () => {
  signOut();
  location.reload();
});
addEventListener("hashchange", open);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
offerThemes(document.getElementById("theme"));
enter();
