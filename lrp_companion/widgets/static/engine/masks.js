// All 2^L sets of bypassed layers of one text, as they arrive, each with its r against LOO.

import { relevance, siteWeights } from "./embedding_relevance.js";
import { correlation } from "./explain.js";
import { children, copy, Scratch, start } from "./propagation.js";

/** @typedef {import("./encoder.js").Tape} Tape */
/** @typedef {import("./embedding_relevance.js").Site} Site */
/** @typedef {import("./explain.js").Explainer} Explainer */
/** @typedef {import("./explain.js").Explanation} Explanation */
/** @typedef {import("./explain.js").Report} Report */
/** @typedef {import("./forward.js").Pause} Pause */
/** @typedef {import("./kernel.js").Matrix} Matrix */

/**
 * Relevance under all 2^L masks, each with its r against LOO over the words; bit l - 1 of a mask's number is
 * set where layer l is bypassed. They are reported as they arrive, depth first.
 * @param {Explainer} explainer
 * @param {string} text
 * @param {{ site?: Site, target?: number | null, all?: boolean }} choices all: special tokens count, too
 * @param {Pause} pause
 * @param {Report} report
 * @returns {Promise<Explanation & { loo: number[], masks: Float32Array, r: number[] }>}
 */
export async function allMasks(explainer, text, { site, target, all = false }, pause, report) {
  const { scores: loo, ...of } = await explainer.explain(text, { method: "loo", site, target }, pause);
  const chosen = of.special.map((special) => all || !special), count = of.ids.length;
  const total = 2 ** explainer.model.layers.length, masks = new Float32Array(total * count);
  const r = new Array(total).fill(NaN);
  await explainer.withTape(of.ids, pause, async (tape) => {
    const weights = siteWeights(explainer.model, tape, of.ids, site ?? "word");
    let done = 0;
    /** @type {{ numbers: number[], r: number[] }} */
    let fresh = { numbers: [], r: [] };
    await everyMask(explainer, tape, of.target, pause, (mask, g) => {
      const scores = relevance(explainer.model, weights, g);
      masks.set(scores, mask * count);
      r[mask] = correlation(scores, loo, chosen);
      fresh.numbers.push(mask);
      fresh.r.push(r[mask]);
      done += 1;
      if (fresh.numbers.length < 32 && done < total) return;
      report(done, total, fresh);
      fresh = { numbers: [], r: [] };
    });
  });
  return { ...of, scores: Array.from(masks.subarray(0, count)), loo, masks, r };
}

/**
 * Walk the tree over all masks, depth first; two blocks wait at each depth.
 * @param {Explainer} explainer
 * @param {Tape} tape
 * @param {number} target
 * @param {Pause} pause
 * @param {(mask: number, g: Matrix) => void} arrived g at the first layer's input
 * @returns {Promise<void>}
 */
async function everyMask(explainer, tape, target, pause, arrived) {
  const { model } = explainer, scratch = new Scratch(model, tape.tokens), depths = model.layers.length;
  const wide = () => scratch.holder.matrix(tape.tokens, model.hidden);
  try {
    const blocks = Array.from({ length: depths + 1 }, () => [wide(), wide()]);
    start(model, tape, target, false, blocks[depths][0]);
    /** @type {(depth: number, g: Matrix, mask: number) => Promise<void>} */
    const walk = async (depth, g, mask) => {
      if (depth === 0) return arrived(mask, g);
      await pause();
      const [kept, bypassed] = blocks[depth - 1];
      copy(model, g, kept);
      children(model, depth - 1, tape, kept, bypassed, scratch);
      await walk(depth - 1, kept, mask);
      await walk(depth - 1, bypassed, mask + 2 ** (depth - 1));
    };
    await walk(depths, blocks[depths][0], 0);
  } finally {
    scratch.release();
  }
}
