// A whole training loop at a BOTS service, with Node 18 or later and nothing else. Only the model is made up.
//
//     BOTS_URL=http://127.0.0.1:8765 node trainer.mjs 45 checkpoint.json
//
// Trains to step 45 and keeps where it stands in checkpoint.json. Stop it at any moment, even with kill -9, and start it
// again: it resumes from its checkpoint, and rewinds the service's belief to the same step. BOTS_API_KEY is sent if set.
// The types stand in comments, so that no build is needed; `tsc --checkJs` checks them.
// @ts-check
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** @typedef {{ selection_id: string, tasks: { id: string }[] }} Selection */
/** @typedef {{ step: number, reported: number, effective: number }} Receipt */
/** @typedef {{ step: number, totals: { rollouts: number } }} Run */

const SERVICE = process.env.BOTS_URL ?? "http://127.0.0.1:8765";
const [STEPS, CHECKPOINT] = [Number(process.argv[2] ?? 45), process.argv[3] ?? "checkpoint.json"];
const RUN = "/datasets/levels/runs/default";
const TRIED_AGAIN = new Set([408, 429, 502, 503, 504]);
const ATTEMPTS = 10;

/**
 * Return what the service answers; try again while that can help.
 *
 * A write has the same Idempotency-Key each time, so it counts once although an answer was lost.
 *
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
async function call(method, path, body) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body !== undefined) {
    headers["Idempotency-Key"] = randomUUID();
    headers["Content-Type"] = "application/json";
  }
  if (process.env.BOTS_API_KEY) headers["Authorization"] = `Bearer ${process.env.BOTS_API_KEY}`;
  for (let attempt = 1; ; attempt++) {
    let failure;
    let retryAfter = 0;
    try {
      const request = { method, headers, body: JSON.stringify(body), signal: AbortSignal.timeout(10_000) };
      const response = await fetch(SERVICE + path, request);
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      failure = new Error(`${method} ${path}: ${response.status} ${text}`);
      if (!TRIED_AGAIN.has(response.status)) throw failure;
      retryAfter = Number(response.headers.get("Retry-After")) || 0; // seconds
    } catch (error) {
      if (error === failure) throw error; // the service's no; anything else is a connection that broke or took too long
      failure = new Error(`${method} ${path}: no answer`, { cause: error });
    }
    if (attempt === ATTEMPTS) throw failure;
    await sleep(1000 * retryAfter + Math.random() * Math.min(5000, 100 * 2 ** attempt));
  }
}

/**
 * How many of 16 rollouts solve a level, for a model that has come so far. Yours come from your trainer.
 *
 * @param {number} skill
 * @param {number} level
 */
const solved = (skill, level) => Math.min(16, Math.max(0, skill - level));

/** What two reference models can do tells the service how the tasks hang together. */
function pool() {
  const tasks = Array.from({ length: 100 }, (_, level) => ({
    id: `level-${level}`,
    reference_pass_rates: [solved(20, level) / 16, solved(60, level) / 16],
  }));
  return { reference_models: ["weak", "strong"], tasks };
}

/**
 * Keep where training stands; yours saves the weights, too. Renamed into place, so that it is whole or not there.
 *
 * @param {number} step
 */
function save(step) {
  writeFileSync(`${CHECKPOINT}.new`, JSON.stringify({ step }));
  renameSync(`${CHECKPOINT}.new`, CHECKPOINT);
}

/** Return the step to resume from, with the service at the same step. */
async function start() {
  await call("PUT", "/datasets/levels", pool()); // the same pool again changes nothing
  if (existsSync(CHECKPOINT)) {
    const { step } = JSON.parse(readFileSync(CHECKPOINT, "utf8"));
    await call("POST", `${RUN}/rewind`, { step });
    return step;
  }
  await call("PUT", RUN, { seed: 7 }); // refused if the run has learned something already: it is somebody else's
  save(0);
  return 0;
}

let step = await start();
while (step < STEPS) {
  /** @type {Selection} */
  const selection = await call("POST", "/select", { dataset: "levels", run: "default", count: 8 });
  const outcomes = selection.tasks.map(({ id }) => ({
    task: id,
    successes: solved(20 + step, Number(id.slice("level-".length))),
    trials: 16,
  }));
  /** @type {Receipt} */
  const receipt = await call("POST", "/report", {
    dataset: "levels",
    run: "default",
    selection_id: selection.selection_id,
    outcomes,
  });
  step = receipt.step;
  console.log(`step ${step}: ${receipt.effective} of ${receipt.reported} tasks taught something`);
  if (step % 5 === 0) save(step);
}
/** @type {Run} */
const run = await call("GET", RUN);
console.log(`${run.totals.rollouts} rollouts in ${run.step} steps`);
