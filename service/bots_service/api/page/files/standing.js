// How the page stands with the service: whether it answers, and since when not.

import { say } from "./dom.js";
import { clock } from "./format.js";
import { Away, Refused } from "./service.js";

const live = document.getElementById("live");
const notice = document.getElementById("notice");
const main = document.getElementById("main");

let answeredAt = null;

/** Show that the service has answered. */
export function tellAnswered() {
  answeredAt = Date.now();
  live.dataset.state = "live";
  say(live, "live");
  say(notice, "");
  delete main.dataset.stale;
}

/** Show nothing of it: nobody has signed in. */
export function tellNothing() {
  delete live.dataset.state;
  delete main.dataset.stale;
  say(live, "");
  say(notice, "");
}

/**
 * Say what went wrong.
 * @param {boolean} isKnown whether the view has been answered before, so that it shows what was known then.
 */
export function tellTrouble(error, isKnown) {
  live.dataset.state = "away";
  if (error instanceof Refused && error.status < 500) {
    say(live, "refused");
    say(notice, error.message);
    return;
  }
  const since = answeredAt ? ` since ${clock(answeredAt)}` : "";
  say(live, `${summary(error)}${since}`);
  const shown = isKnown ? "You see what was known then." : "This view appears as soon as there is an answer.";
  say(notice, `${sentence(error)} ${shown}`);
  if (isKnown) main.dataset.stale = "";
}

function summary(error) {
  if (error instanceof Away) return "no answer";
  if (error instanceof Refused) return "not available";
  return "fault in the page";
}

function sentence(error) {
  if (error instanceof Away || error instanceof Refused) return error.message;
  return `A fault in the page keeps it from showing what the service said (${error.message}). Reload it.`;
}
