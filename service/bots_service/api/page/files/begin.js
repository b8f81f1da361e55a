// Where a visit begins: an empty service, signing in, an address that leads nowhere.

import { datasetHref, overviewHref } from "./addresses.js";
import { element } from "./dom.js";
import { keep } from "./service.js";

const home = () => new URL(".", location.href).href.replace(/\/$/, "");

/** Return a text to copy: a click marks all of it. */
const command = (name, text) =>
  element("pre", { tabindex: "0", role: "region", "aria-label": name }, element("code", {}, text));

/** Return what an empty service shows: three ways to begin. */
export const welcome = () =>
  element(
    "div",
    { class: "stack" },
    element("h2", {}, "No dataset yet"),
    element("p", { class: "soft" }, "Start in one of three ways. What you create appears on this page automatically."),
    way(
      "Watch a recorded run",
      "The demo replays a real training run with four ways of selecting tasks. After make serve, bots is in .venv/bin.",
      command("the command of the demo", `bots demo --url ${home()}`),
    ),
    way(
      "Bring your tasks",
      "From CSV, JSON Lines, Parquet and other formats. Pass rates that others published with the tasks make the first pass better, and the import can find them. It takes a key with the scope admin.",
      command(
        "the command of the import",
        `bots datasets import problems.csv --name problems --id problem --url ${home()}`,
      ),
    ),
    way(
      "Train in Python",
      "This program creates a dataset and trains for twenty steps. Put the rewards of your rollouts in place of [1, 0, 1, 0].",
      command("the program", program(home())),
    ),
  );

const way = (title, about, text) =>
  element("section", { class: "card" }, element("h3", {}, title), element("p", { class: "soft" }, about), text);

const program = (url) => `from bots_client import Client, Outcome, Task

bots = Client("${url}")
bots.create_dataset("first", [Task(f"task-{n}") for n in range(100)])
for step in range(20):
    selection = bots.select("first", 8)
    outcomes = [Outcome.rewards(task, [1, 0, 1, 0]) for task in selection.ids]
    print(bots.report("first", outcomes, selection=selection))
`;

/** Return a form that asks for a key. refusal: of the key that was tried, null before the first one; done: called with a key. */
export function askForKey(refusal, done) {
  const field = element("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    required: true,
    pattern: "\\s*[!-~]+\\s*", // others are no keys, and no header could carry them
    title: "A key has only plain letters, digits and underscores.",
  });
  const form = element(
    "form",
    { class: "card alone" },
    element("h1", {}, "Sign in"),
    element("p", {}, "This service requires an API key. The page keeps your key until you close the tab."),
    element("label", { for: "key" }, "API key"),
    field,
    refusal && element("p", { class: "bad", role: "alert" }, `Invalid, expired or revoked key: ${refusal}`),
    element("button", { type: "submit", class: "main" }, "Sign in"),
    element(
      "details",
      {},
      element("summary", {}, "How do I get a key?"),
      element(
        "p",
        {},
        "Ask your administrator for a key. Administrators: with your own key in BOTS_API_KEY, this command creates one that can read every dataset:",
      ),
      command(
        "the command that creates a key",
        `bots keys create my-browser --scope read --dataset '*' --url ${home()}`,
      ),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keep(field.value.trim());
    done();
  });
  setTimeout(() => field.focus());
  return form;
}

/** Return what stands in place of a view. run: null where the dataset is missing; without a dataset the address has no view. */
export function notFound({ dataset = null, run = null, address }) {
  const missing = run === null ? `There is no dataset ${dataset}` : `Dataset ${dataset} has no run ${run}`;
  return element(
    "section",
    { class: "card alone" },
    element("h1", {}, dataset === null ? `This page has no view ${address}` : missing),
    element("p", {}, "The link may be old, or the name is written differently. It is shown here once it exists."),
    run === null ? null : element("a", { href: datasetHref(dataset) }, `Runs of ${dataset}`),
    element("a", { href: overviewHref() }, "All runs"),
  );
}
