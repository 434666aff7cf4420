// The worker's side: loads a model, answers questions, and can be interrupted between any two layers.

import { Explainer } from "./explain.js";
import { allMasks } from "./masks.js";
import { Kernel } from "./kernel.js";
import { refuse } from "./refusal.js";
import { Tokenizer } from "./tokenizer.js";
import { Weights } from "./weights.js";

/** @typedef {import("./weights.js").Manifest} Manifest */
/** @typedef {import("./forward.js").Pause} Pause */
/**
 * A question of the page; `base` is where parts are fetched from, null where the page brings them ("part").
 * @typedef {{ job: number, kind: string, manifest?: Manifest, base?: string | null, kernels?: string[],
 *   number?: number, text?: string, choices?: any }} Question
 */
/** @typedef {{ cancelled: boolean }} Job */

const SHORT = 8; // milliseconds of work between two looks at the messages
const STORE = "lrp-companion";
const TRIES = 3;

/** @type {Map<number, Job>} */
const jobs = new Map();
/** @type {{ weights: Weights | null, missing: Set<number>, explainer: Explainer | null }} */
const state = { weights: null, missing: new Set(), explainer: null };

/**
 * Bytes from base64.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function bytesOf(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/**
 * The first of the compiled kernels that this browser takes; the one with fused products comes first.
 * @param {string[]} kernels in base64
 * @returns {Kernel}
 */
export function kernelFrom(kernels) {
  const fit = kernels.map(bytesOf).find((bytes) => WebAssembly.validate(bytes));
  if (!fit) refuse("load", "a browser without WebAssembly SIMD", "a newer one", "update the browser");
  return new Kernel(/** @type {Uint8Array<ArrayBuffer>} */ (fit));
}

/**
 * Let messages in now and then; fails once the job is cancelled.
 * @param {Job} job
 * @returns {Pause}
 */
function pauseOf(job) {
  let last = performance.now();
  return async () => {
    if (performance.now() - last > SHORT) {
      await new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = resolve;
        port2.postMessage(null);
      });
      last = performance.now();
    }
    if (job.cancelled) throw new DOMException("cancelled", "AbortError");
  };
}

/**
 * A part over the network: kept bytes where the browser has some, else fetched, up to three times.
 * @param {string} address
 * @param {string} fingerprint of the model: bytes of another one are not taken
 * @param {(bytes: Uint8Array<ArrayBuffer>) => void} take refuses bytes that are not those written
 * @returns {Promise<void>}
 */
async function fetchPart(address, fingerprint, take) {
  const store = await globalThis.caches?.open(STORE).catch(() => undefined),
    key = `${address}?${fingerprint}`;
  try {
    const kept = await store?.match(key);
    if (kept) return take(new Uint8Array(await kept.arrayBuffer()));
  } catch {
    await store?.delete(key).catch(() => false);
  }
  for (let attempt = 1;; attempt++) {
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      take(bytes);
      await store?.put(key, new Response(bytes)).catch(() => undefined);
      return;
    } catch (error) {
      if (attempt < TRIES) continue;
      const hint = "check the connection and press the button again: what has arrived is kept";
      refuse("load", `${address}, which cannot be read (${error})`, "a part of the model", hint);
    }
  }
}

/**
 * Put one part in place; the last one completes the model.
 * @param {number} number
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {number} bytes that have arrived
 */
function take(number, bytes) {
  const { missing } = state, weights = /** @type {Weights} */ (state.weights), { manifest } = weights;
  weights.take(number, bytes);
  missing.delete(number);
  if (!missing.size) state.explainer = new Explainer(weights.model(), new Tokenizer(manifest.tokenizer));
  return manifest.parts.reduce((sum, part, k) => sum + (missing.has(k) ? 0 : part.bytes), 0);
}

/**
 * Begin a load; over the network, end it, too.
 * @param {Question} question
 * @param {Pause} pause
 * @param {(content: unknown) => void} report
 * @returns {Promise<null>}
 */
async function load({ manifest, base, kernels = [] }, pause, report) {
  const given = /** @type {Manifest} */ (manifest);
  state.weights = new Weights(kernelFrom(kernels), given);
  state.missing = new Set(given.parts.keys());
  if (base === null || base === undefined) return null;
  for (const number of given.parts.keys()) {
    await pause();
    const address = `${base}part-${String(number).padStart(2, "0")}.bin`;
    await fetchPart(address, given.fingerprint, (bytes) => report({ loaded: take(number, bytes) }));
  }
  return null;
}

/**
 * What a question asks for.
 * @param {Question} question
 * @param {Pause} pause
 * @param {(content: unknown) => void} report
 * @returns {Promise<unknown>}
 */
async function answer(question, pause, report) {
  const { kind, text = "", number = 0, choices = {} } = question;
  if (kind === "load") return await load(question, pause, report);
  if (kind === "part") return { loaded: take(number, bytesOf(text)) };
  if (!state.explainer) {
    refuse(kind, "a question before the model is there", "a loaded model", "load it first");
  }
  const explainer = /** @type {Explainer} */ (state.explainer);
  if (kind === "encode") return explainer.tokenizer.encode(text);
  const steps = (
    /** @type {number} */ done,
    /** @type {number} */ total,
    /** @type {object | null} */ masks,
  ) => report({ done, total, ...masks });
  if (kind === "levels") return await explainer.levels(text, choices, pause);
  if (kind === "masks") return await allMasks(explainer, text, choices, pause, steps);
  return await explainer.explain(text, choices, pause, steps);
}

/**
 * Answer one message of the page.
 * @param {Question} question
 * @param {(message: object) => void} post
 * @returns {Promise<void>}
 */
async function receive(question, post) {
  const id = question.job;
  if (question.kind === "cancel") {
    const running = jobs.get(id);
    if (running) running.cancelled = true;
    return;
  }
  const job = { cancelled: false };
  jobs.set(id, job);
  try {
    const result = await answer(question, pauseOf(job), (content) => post({ job: id, progress: content }));
    post({ job: id, result });
  } catch (error) {
    const { name, message } = /** @type {Error} */ (error);
    post({ job: id, error: { name, message } });
  } finally {
    jobs.delete(id);
  }
}

/**
 * Listen to the page, in a worker.
 * @returns {void}
 */
export function listen() {
  const page = /** @type {any} */ (globalThis);
  page.onmessage = (/** @type {{ data: Question }} */ { data }) =>
    receive(data, (message) => page.postMessage(message));
}
