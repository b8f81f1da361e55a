// A file of tasks, as the service takes it: its columns, and its rows as lines of JSON. No page, no service.

const SAMPLE_BYTES = 2 ** 18; // of the file's beginning, to see its columns
const MOST_BYTES = 2 ** 28; // of a file whose columns are chosen: it is one text in memory, and browsers end at twice that
const OURS = new Set(["id", "reference_pass_rates", "tags"]); // the service reads rows of these as they are
const HEADER = new Set(["reference_models", "description"]);
const PARQUET = "application/vnd.apache.parquet";
const NDJSON = "application/x-ndjson";

/** The file can't be read; the message says why. */
export class UnreadableFile extends Error {}

/** Return a name for a dataset, made of a file's: what the service refuses in a name becomes "-". */
export function nameOf(fileName) {
  const stem = fileName.replace(/\.(csv|jsonl|ndjson|parquet)$/i, "");
  const name = stem.replaceAll(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  return name.slice(0, 128).replace(/-+$/, "");
}

/**
 * Return what a file holds: {columns, isReady}. isReady: the service reads it as it is, so nobody need choose columns.
 * @param {File} file CSV, JSON Lines or Parquet, by its name.
 */
export async function examine(file) {
  const kind = kindOf(file);
  if (kind === "parquet") return { columns: [], isReady: true };
  const sample = await file.slice(0, SAMPLE_BYTES).text();
  if (kind === "csv") {
    const [columns] = csvRows(sample);
    if (columns) return { columns, isReady: false };
  }
  const tasks = kind === "csv" ? [] : [...jsonRows(sample, file.size > SAMPLE_BYTES)].filter((row) => !isHeader(row));
  if (!tasks.length) throw new UnreadableFile(`${file.name} holds no tasks.`);
  const columns = [...new Set(tasks.flatMap((row) => Object.keys(row)))];
  return { columns, isReady: columns.includes("id") && columns.every((name) => OURS.has(name)) };
}

/** Return the column that most likely holds the ids. */
export function likelyId(columns) {
  const names = ["id", "task_id", "problem_id", "question_id", "uid", "uuid", "name"];
  const found = names.map((name) => columns.find((column) => column.toLowerCase() === name)).find(Boolean);
  return found ?? columns.find((column) => /[_\W]id$|Id$/.test(column)) ?? columns[0];
}

/** Return the column that most likely holds a model's pass rates; "" where none does. */
export const likelyRates = (columns) =>
  columns.find((column) => /(pass|success|solve)_?rate/i.test(column) && column !== "reference_pass_rates") ?? "";

/**
 * Return the body of an upload: {body, type, models}. models: the names of the reference models that it has.
 * @param {string} id the column of the ids.
 * @param {string} rates the column of pass rates, "" for none.
 */
export async function uploadOf(file, { id, rates, isReady }) {
  if (kindOf(file) === "parquet") return { body: file, type: PARQUET, models: [] };
  if (isReady) return { body: file, type: NDJSON, models: [] };
  if (file.size > MOST_BYTES) throw new UnreadableFile(`${file.name} is too large for the page. Use the command.`);
  const lines = [];
  for (const row of objectsOf(kindOf(file), await file.text()))
    lines.push(`${JSON.stringify(taskOf(row, id, rates))}\n`);
  return { body: new Blob(lines), type: NDJSON, models: rates ? [rates] : [] };
}

function kindOf({ name }) {
  const suffix = name.toLowerCase().split(".").at(-1);
  if (suffix === "csv" || suffix === "parquet") return suffix;
  if (suffix === "jsonl" || suffix === "ndjson") return "json";
  throw new UnreadableFile(`${name}: the page reads .csv, .jsonl, .ndjson and .parquet. The command reads more.`);
}

function* objectsOf(kind, text) {
  if (kind === "json") {
    for (const row of jsonRows(text)) if (!isHeader(row)) yield row;
    return;
  }
  const rows = csvRows(text);
  const columns = rows.next().value;
  for (const cells of rows) yield Object.fromEntries(columns.map((column, place) => [column, cells[place] ?? ""]));
}

function taskOf(row, id, rates) {
  const task = { id: row[id] === undefined || row[id] === null ? "" : String(row[id]) };
  if (!rates) return task;
  const rate = row[rates];
  const isUnknown = rate === undefined || rate === null || rate === "";
  return { ...task, reference_pass_rates: [isUnknown ? null : Number.isNaN(Number(rate)) ? rate : Number(rate)] };
}

const isHeader = (row) => Object.keys(row).length > 0 && Object.keys(row).every((name) => HEADER.has(name));

/** Yield the objects of JSON Lines. isCut: the last line may be cut short. */
function* jsonRows(text, isCut = false) {
  const lines = text.split("\n");
  if (isCut) lines.pop();
  for (const [place, line] of lines.entries()) if (line.trim()) yield jsonRow(line, place + 1);
}

function jsonRow(line, number) {
  let row = null;
  try {
    row = JSON.parse(line);
  } catch (error) {
    throw new UnreadableFile(`Line ${number} is not JSON: ${error.message}`);
  }
  if (row === null || typeof row !== "object" || Array.isArray(row))
    throw new UnreadableFile(`Line ${number} is not a JSON object.`);
  return row;
}

/** Yield the rows of CSV (RFC 4180): cells may be quoted, and then hold commas, quotes and line breaks. */
export function* csvRows(text) {
  const cell = /("[^"]*(?:""[^"]*)*"|[^",\r\n][^,\r\n]*|)(,|\r?\n|\r|$)/y;
  cell.lastIndex = text.startsWith("\uFEFF") ? 1 : 0;
  let cells = [];
  while (cell.lastIndex < text.length || cells.length) {
    const found = cell.exec(text);
    if (found === null) throw new UnreadableFile("A quoted cell does not end where it should.");
    const [whole, raw, end] = found;
    cells.push(raw.startsWith('"') ? raw.slice(1, -1).replaceAll('""', '"') : raw);
    if (end === ",") continue;
    if (cells.length > 1 || cells[0] !== "") yield cells;
    cells = [];
    if (whole === "") return;
  }
}
