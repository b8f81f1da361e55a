// Creates a dataset from a file that is dropped or chosen.

import { runHref } from "./addresses.js";
import { element, fill, say } from "./dom.js";
import { count, unbroken } from "./format.js";
import { Refused } from "./service.js";
import { examine, likelyId, likelyRates, nameOf, uploadOf } from "./task-file.js";
import { uploadDataset } from "./upload.js";

const TYPES = ".csv,.jsonl,.ndjson,.parquet";
const FLAWS = 5; // shown of those that the service lists

/** Return the zone. It opens the new dataset's run once that is there. */
export function dropZone() {
  const chooser = element("input", { type: "file", id: "task-file", accept: TYPES, class: "unseen" });
  const label = element("label", { for: "task-file", class: "button" }, "Choose a file");
  const form = element("form", { class: "upload", hidden: true });
  const refusal = element("div", { class: "bad", role: "alert" });
  const zone = element(
    "div",
    { class: "drop-zone" },
    element("p", {}, element("b", {}, "Drop a file here"), " or ", chooser, label),
    element("p", { class: "soft" }, "CSV, JSON Lines or Parquet, one task a row"),
  );
  chooser.addEventListener("change", () => chooser.files.length && take(chooser.files[0]));
  for (const name of ["dragenter", "dragover"])
    zone.addEventListener(name, (event) => (event.preventDefault(), zone.classList.add("over")));
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });

  async function take(file) {
    fill(refusal);
    form.hidden = true;
    try {
      fill(form, formOf(file, await examine(file), refusal));
      form.hidden = false;
      form.querySelector("input").focus();
    } catch (error) {
      fill(refusal, error.message);
    }
    chooser.value = ""; // so that the same file can be chosen again once it was corrected
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  return element("div", { class: "stack" }, zone, form, refusal);
}

/** Return the fields of a form for a file. */
function formOf(file, { columns, isReady }, refusal) {
  const name = element("input", {
    id: "dataset-name",
    value: nameOf(file.name),
    required: true,
    pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,127}",
    title: "Letters, digits, dots, hyphens and underscores; the first is a letter or a digit.",
    autocomplete: "off",
    spellcheck: "false",
  });
  const id = columnsField("id-column", columns, likelyId(columns));
  const rates = columnsField("rates-column", ["", ...columns], likelyRates(columns));
  const send = element("button", { type: "submit", class: "main" }, "Create dataset");
  const progress = element("progress", { max: "1", value: "0", hidden: true, "aria-label": "Upload" });
  const status = element("span", { class: "soft", role: "status" });
  send.addEventListener("click", async () => {
    if (!name.reportValidity()) return;
    send.disabled = true;
    fill(refusal);
    try {
      const upload = await uploadOf(file, { id: id.value, rates: rates.value, isReady });
      const dataset = await uploadDataset(name.value, upload, (share) => tellProgress(progress, status, share));
      say(status, `${count(dataset.tasks)} tasks`);
      location.hash = runHref(dataset.name, "default");
    } catch (error) {
      progress.hidden = true;
      say(status, "");
      fill(refusal, ...refusalOf(error));
    }
    send.disabled = false;
  });
  return [
    element("p", {}, element("b", {}, file.name)),
    field("Name of the dataset", name),
    isReady ? null : field("Column with the task ids", id),
    isReady ? null : field("Column with a model’s pass rates, 0 to 1 (optional)", rates),
    element("div", { class: "tools" }, send, progress, status),
  ];
}

function tellProgress(progress, status, share) {
  progress.hidden = false;
  if (share < 1) progress.value = share;
  else progress.removeAttribute("value"); // nobody knows how long the service takes
  say(
    status,
    share < 1 ? unbroken(`${Math.floor(100 * share)} % sent`) : "Sent; the service checks and stores the tasks",
  );
}

const field = (label, control) =>
  element("div", { class: "field" }, element("label", { for: control.id }, label), control);

function columnsField(id, columns, chosen) {
  const options = columns.map((column) =>
    element("option", { value: column, selected: column === chosen }, column || "none"),
  );
  return element("select", { id }, options);
}

/** Return an error in words. Rows are counted from 1, as an editor does. */
function refusalOf(error) {
  const flaws = error.problem?.errors ?? [];
  const shown = flaws.slice(0, FLAWS).map((flaw) => element("li", {}, flawWords(flaw)));
  const rest = flaws.length > FLAWS ? element("li", {}, `and ${count(flaws.length - FLAWS)} more`) : null;
  const refused = error instanceof Refused ? `The service refused the file: ${error.message}.` : error.message;
  return [element("p", {}, refused), shown.length ? element("ul", {}, shown, rest) : null];
}

function flawWords({ loc, msg }) {
  const place = loc.find((part) => Number.isInteger(part));
  return place === undefined ? msg : `task ${count(place + 1)}: ${msg}`;
}
