// Where a visit begins: an empty service, a dataset without a step, signing in, an address that leads nowhere.

import { datasetHref, overviewHref } from "./addresses.js";
import { card, element, say, soft } from "./dom.js";
import { keep } from "./service.js";

const home = () => new URL(".", location.href).href.replace(/\/$/, "");

/** Return a text to copy, by a button or by a click that marks all of it. Over plain HTTP browsers have no clipboard. */
function command(name, text) {
  const copy = element(
    "button",
    { type: "button", "aria-label": `Copy ${name}`, hidden: !navigator.clipboard },
    "Copy",
  );
  copy.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => say(copy, "Copied")));
  const marked = element("pre", { tabindex: "0", role: "region", "aria-label": name }, element("code", {}, text));
  return element("div", { class: "command" }, marked, copy);
}

/** Return three ways to begin, which an empty service shows. */
export const welcome = (title = "No dataset yet") =>
  element(
    "div",
    { class: "stack" },
    element("h2", {}, title),
    element("p", { class: "soft" }, "Start in one of three ways. What you create appears on this page automatically."),
    way(
      "Watch a recorded run",
      "The demo replays a real training run with four ways of selecting tasks. After make serve, bots is in .venv/bin.",
      command("the command of the demo", `bots demo --url ${home()}`),
    ),
    way(
      "Bring your tasks",
      "From CSV, JSON Lines, Parquet and other formats; for verl's files, --id extra_info.index. Pass rates that others published with the tasks make the first pass better, and the import can find them. It takes a key with the scope admin.",
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

/** Return how a trainer is connected to a run that has no step yet. tasks: how many the dataset has. */
export const connect = (dataset, run, tasks) =>
  card(
    "Connect your trainer",
    null,
    soft("Run pip install ./client where it runs, and set BOTS_API_KEY there if the service has keys.", "p"),
    element("h3", {}, "TRL"),
    soft("Each row of train_dataset needs a task_id, the id of its task. Put this in place of GRPOTrainer:", "p"),
    command("the lines for TRL", forTrl(dataset, run)),
    element("h3", {}, "verl 0.9"),
    soft("Add this to its configuration; id_key names the column of the ids.", "p"),
    command("the lines for verl", forVerl(dataset, run)),
    element("h3", {}, "Python"),
    soft("Put the rewards of your rollouts in place of [1, 0, 1, 0].", "p"),
    command("the lines for Python", inPython(dataset, run, Math.min(8, tasks))),
  );

const forTrl = (dataset, run) => `from bots_client import ResilientClient, Selector
from bots_client.integrations.torch import from_rank_zero
from bots_client.integrations.trl import SelectedGRPOTrainer

client = ResilientClient("${home()}")
selector = Selector(client, "${dataset}", "${run}", ids=train_dataset["task_id"], share=from_rank_zero)
trainer = SelectedGRPOTrainer(
    ...,  # what GRPOTrainer gets
    train_dataset=train_dataset,
    selector=selector,
    task_column="task_id",
)
`;

const forVerl = (dataset, run) => `data:
  shuffle: false
  dataloader_num_workers: 0
  custom_cls:
    path: pkg://bots_client.integrations.verl
    name: BotsDataset
  bots:
    dataset: "${dataset}"
    run: "${run}"
    id_key: extra_info.index
    url: ${home()}
reward:
  custom_reward_function:
    path: pkg://bots_client.integrations.verl
`;

const inPython = (dataset, run, count) => `from bots_client import Client, Outcome

bots = Client("${home()}")
for step in range(20):
    selection = bots.select("${dataset}", ${count}, run="${run}")
    outcomes = [Outcome.rewards(task, [1, 0, 1, 0]) for task in selection.ids]
    print(bots.report("${dataset}", outcomes, run="${run}", selection=selection))
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
