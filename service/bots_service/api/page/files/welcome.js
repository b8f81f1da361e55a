// What an empty service shows: three ways to begin.

import { copyable } from "./copyable.js";
import { element } from "./dom.js";
import { dropZone } from "./drop-zone.js";

/** Return the ways. caller: who looks; only an administrator's key creates datasets. */
export function welcome(caller) {
  const home = new URL(".", location.href).href.replace(/\/$/, "");
  return element(
    "div",
    { class: "welcome" },
    element("h2", {}, "No dataset yet"),
    element("p", { class: "soft" }, "Start in one of three ways. What you create appears on this page automatically."),
    element(
      "div",
      { class: "ways" },
      element("div", { class: "stack" }, demo(home), python(home)),
      upload(caller, home),
    ),
  );
}

const demo = (home) =>
  way(
    "Watch a recorded run",
    "The demo replays a real training run with four ways of selecting tasks. Watch it here from the first step on.",
    copyable(`bots demo --url ${home}`, "Shell", "the command of the demo"),
    element(
      "p",
      { class: "soft" },
      "After ",
      element("code", {}, "make serve"),
      ", ",
      element("code", {}, "bots"),
      " is in ",
      element("code", {}, ".venv"),
      ": run ",
      element("code", {}, "source .venv/bin/activate"),
      " first.",
    ),
  );

function upload({ scopes }, home) {
  const mayCreate = scopes.includes("admin");
  return way(
    "Bring your tasks",
    "One task a row, with an id. Pass rates of a model that has tried them make the first steps better.",
    mayCreate ? dropZone() : element("p", {}, "Your key can't create datasets: that needs the scope admin."),
    element("p", { class: "soft" }, "The command reads more formats, ids of several columns, and tags:"),
    copyable(importCommand(home), "Shell", "the command of the import"),
  );
}

const python = (home) =>
  way(
    "Train in Python",
    "This program creates a dataset and trains for twenty steps. Put the rewards of your rollouts in place of [1, 0, 1, 0].",
    copyable(program(home), "Python", "the program"),
  );

const way = (title, about, ...content) =>
  element("section", { class: "card" }, element("h3", {}, title), element("p", { class: "soft" }, about), content);

const importCommand = (home) => `bots datasets import problems.csv --name problems --id problem --url ${home}`;

const program = (home) => `from bots_client import Client, Outcome, Task

bots = Client("${home}")
bots.create_dataset("first", [Task(f"task-{n}") for n in range(100)])
for step in range(20):
    selection = bots.select("first", 8)
    outcomes = [Outcome.rewards(task, [1, 0, 1, 0]) for task in selection.ids]
    print(bots.report("first", outcomes, selection=selection))
`;
