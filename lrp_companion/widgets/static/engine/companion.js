// The page's side: `LRPCompanion.load` starts a worker for a staged model, to be asked.
//
//   const companion = await LRPCompanion.load("engine/companion/", { progress, signal });
//   const map = await companion.explain("a film of rare grace", { method: "lrp", bypass: [7, 8] });
//   map.tokens, map.ids, map.special, map.scores, map.target, map.logits     // plain arrays and numbers
//
// `page/browser_engine.py` puts `ENGINE` in front of this text: the worker's own text, and the compiled
// kernels.

import { CompanionError, refuse } from "./refusal.js";

/** @typedef {import("./weights.js").Manifest} Manifest */
/** @typedef {import("./explain.js").Choices} Choices */
/** @typedef {import("./explain.js").Explanation} Explanation */
/** @typedef {import("./explain.js").Flow} Flow */
/** @typedef {import("./tokenizer.js").Encoded} Encoded */
/** @typedef {{ loaded: number, total: number }} Loaded bytes */
/**
 * `done` of `total` removals or masks; for masks the numbers and r of those that are new.
 * @typedef {{ done: number, total: number, numbers?: number[], r?: number[] }} Step
 */
/** @typedef {{ signal?: AbortSignal, onProgress?: (step: Step) => void }} Watch */
/** @typedef {{ progress?: (loaded: Loaded) => void, signal?: AbortSignal }} LoadOptions */
/** @typedef {Explanation & { loo: number[], masks: Float32Array, r: number[] }} AllMasks */
/**
 * @typedef {{ name: string, labels: string[], layers: number, bits: number, maxTokens: number,
 *   bytes: number, fingerprint: string }} Card
 */

/**
 * @typedef {{ resolve: (result: any) => void, reject: (error: Error) => void,
 *   report?: (content: any) => void }} Asked
 */
/**
 * @typedef {{ job: number, result?: unknown, progress?: unknown, error?: { name: string, message: string } }}
 *   Answer
 */

/** A loaded model; made by `load`. */
class Companion {
  /**
   * @param {Manifest} manifest
   * @param {() => void} closed
   */
  constructor(manifest, closed) {
    const { name, labels, layers, fingerprint, parts, tokenizer } = manifest;
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
    /** @type {Card} */
    this.card = { name, labels, layers, bits: 8, maxTokens: tokenizer.maxTokens, bytes, fingerprint };
    this.closed = closed;
    const address = URL.createObjectURL(new Blob([ENGINE.worker], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.jobs = 0;
    /** @type {Map<number, Asked>} */
    this.open = new Map();
    this.worker.onmessage = ({ data }) => {
      URL.revokeObjectURL(address);
      this.settle(data);
    };
    this.worker.onerror = ({ message }) => this.close(new CompanionError(`the worker stopped: ${message}`));
  }

  /**
   * Hand an answer to who asked.
   * @param {Answer} data
   * @returns {void}
   */
  settle({ job, result, progress, error }) {
    const asked = this.open.get(job);
    if (!asked) return;
    if (progress) return asked.report?.(progress);
    this.open.delete(job);
    if (!error) asked.resolve(result);
    else if (error.name === "AbortError") asked.reject(new DOMException(error.message, "AbortError"));
    else asked.reject(error.name === "CompanionError" ? new CompanionError(error.message) : outOf(error));
  }

  /**
   * Ask the worker.
   * @param {object} question
   * @param {{ signal?: AbortSignal, report?: (content: any) => void }} [watch]
   * @returns {Promise<any>}
   */
  ask(question, { signal, report } = {}) {
    if (signal?.aborted) return Promise.reject(new DOMException("cancelled", "AbortError"));
    const job = ++this.jobs;
    return new Promise((resolve, reject) => {
      const cancel = () => { // what it still says is of a question that nobody asks any more
        this.worker.postMessage({ job, kind: "cancel" });
        this.open.delete(job);
        reject(new DOMException("cancelled", "AbortError"));
      };
      const done = () => signal?.removeEventListener("abort", cancel);
      const end =
        (/** @type {(value: any) => void} */ call) => (/** @type {any} */ value) => (done(), call(value));
      this.open.set(job, { resolve: end(resolve), reject: end(reject), report });
      signal?.addEventListener("abort", cancel);
      this.worker.postMessage({ ...question, job });
    });
  }

  /**
   * Tokens and ids of a text, as the model reads it.
   * @param {string} text
   * @returns {Promise<Encoded>}
   */
  encode(text) {
    return this.ask({ kind: "encode", text });
  }

  /**
   * One map: `method` "attnlrp", "cp-lrp", "lrp" (with `bypass` or `amounts`), "loo" or "mask-gradient".
   * @param {string} text
   * @param {Choices & Watch} [choices]
   * @returns {Promise<Explanation>}
   */
  explain(text, { signal, onProgress, ...choices } = {}) {
    return this.ask({ kind: "explain", text, choices }, { signal, report: onProgress });
  }

  /**
   * LRP under all 2^L masks, each with its r against LOO; row k of `masks` belongs to mask k.
   * @param {string} text
   * @param {Pick<Choices, "site" | "target"> & { all?: boolean } & Watch} [choices]
   * @returns {Promise<AllMasks>}
   */
  masks(text, { signal, onProgress, ...choices } = {}) {
    return this.ask({ kind: "masks", text, choices }, { signal, report: onProgress });
  }

  /**
   * Relevance level by level, by AttnLRP and by CP-LRP.
   * @param {string} text
   * @param {Pick<Choices, "target"> & Pick<Watch, "signal">} [choices]
   * @returns {Promise<Flow>}
   */
  levels(text, { signal, ...choices } = {}) {
    return this.ask({ kind: "levels", text, choices }, { signal });
  }

  /**
   * Stop the worker and give its memory back.
   * @param {Error} [error] what questions that are open are told
   * @returns {void}
   */
  close(error = new DOMException("closed", "AbortError")) {
    this.worker.terminate();
    for (const { reject } of this.open.values()) reject(error);
    this.open.clear();
    this.closed();
  }
}

/**
 * An error that nobody worded, most often of a browser that has no more memory.
 * @param {{ name: string, message: string }} error
 * @returns {CompanionError}
 */
function outOf({ name, message }) {
  const hint = "close other tabs, or load the page again";
  return new CompanionError(`the engine: got ${name}: ${message}; expected none. Next step: ${hint}.`);
}

/** @type {Map<string, (content: any) => void>} */
const awaited = new Map();

/**
 * Take what a staged script brings; the script's own address says which it is.
 * @param {unknown} content
 * @returns {void}
 */
function receive(content) {
  const { src } = /** @type {HTMLScriptElement} */ (document.currentScript);
  awaited.get(src)?.(content);
}

/**
 * The content of a staged script that is loaded as a script, as a page opened from disk must.
 * @param {string} address
 * @returns {Promise<any>}
 */
function byScript(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    awaited.set(address, resolve);
    script.onload = script.onerror = () => {
      script.remove();
      awaited.delete(address);
      const hint = "put the whole folder next to the page";
      reject(new CompanionError(`load: got no file ${address}; expected a staged part. Next step: ${hint}.`));
    };
    script.src = address;
    document.head.append(script);
  });
}

/**
 * The manifest of a staged model.
 * @param {string} base
 * @param {AbortSignal} [signal]
 * @returns {Promise<Manifest>}
 */
async function manifestOf(base, signal) {
  const address = `${base}model.js`;
  if (address.startsWith("file:")) return await byScript(address);
  const answer = await fetch(address, { signal }).catch((error) => {
    if (signal?.aborted) throw error;
    return refuse(
      "load",
      `no answer from ${address}`,
      "a staged model",
      "check the connection and try again",
    );
  });
  if (!answer.ok) refuse("load", `${answer.status} from ${address}`, "a staged model", "check the address");
  const script = await answer.text();
  return JSON.parse(script.slice(script.indexOf("(") + 1, script.lastIndexOf(")")));
}

/**
 * Start a worker and bring it all parts.
 * @param {string} base
 * @param {LoadOptions} options
 * @returns {Promise<Companion>}
 */
async function begin(base, { progress, signal }) {
  const manifest = await manifestOf(base, signal);
  const companion = new Companion(manifest, () => loaded.delete(base));
  const total = companion.card.bytes, fromDisk = base.startsWith("file:");
  const report = (/** @type {{ loaded: number }} */ { loaded }) => progress?.({ loaded, total });
  const stop = () => companion.close();
  signal?.addEventListener("abort", stop);
  try {
    const question = { kind: "load", manifest, kernels: ENGINE.kernels, base: fromDisk ? null : base };
    await companion.ask(question, { signal, report });
    for (const number of fromDisk ? manifest.parts.keys() : []) {
      const text = await byScript(`${base}part-${String(number).padStart(2, "0")}.js`);
      report(await companion.ask({ kind: "part", number, text }, { signal }));
    }
    return companion;
  } catch (error) {
    companion.close();
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

/** @type {Map<string, Promise<Companion>>} */
const loaded = new Map();

/**
 * Load the model staged in a folder; all widgets of a page share it, and a load that fails can be repeated.
 * @param {string} url of the folder, relative to the page
 * @param {LoadOptions} [options]
 * @returns {Promise<Companion>}
 */
function load(url, options = {}) {
  const base = new URL(url.endsWith("/") ? url : `${url}/`, document.baseURI).href;
  const before = loaded.get(base);
  if (before) return before;
  const promise = begin(base, options).catch((error) => {
    loaded.delete(base);
    throw error;
  });
  loaded.set(base, promise);
  return promise;
}

export const LRPCompanion = { load, receive, CompanionError };
