// From g at the first layer's input to scores: relevance is linear in g, so each part has its weights, once.

import { embeddingParts } from "./forward.js";

/** @typedef {import("./kernel.js").Matrix} Matrix */
/** @typedef {import("./encoder.js").Model} Model */
/** @typedef {import("./encoder.js").Tape} Tape */

/** Parts of the embedding sum that each site reads, as in `schema.py`. */
export const SITES = /** @type {const} */ ({
  "word": ["word"],
  "word+position": ["word", "position"],
  "embedding": ["word", "position", "type"],
});
/** @typedef {keyof typeof SITES} Site */

/**
 * Weights w (T, D) with `R = w . g` at a site: the LayerNorm's rule, and the projection's, backward.
 * @param {Model} model
 * @param {Tape} tape
 * @param {number[]} ids
 * @param {Site} site
 * @returns {Float64Array}
 */
export function siteWeights(model, tape, ids, site) {
  const { kernel, embeddingNorm, projection, hidden } = model, out = new Float64Array(ids.length * hidden);
  ids.forEach((id, place) => {
    const parts = embeddingParts(model, id, place), f = kernel.floats, width = parts.word.length;
    const sum = new Float64Array(width);
    for (const name of SITES[site]) parts[name]?.forEach((value, i) => sum[i] += value);
    const mean = sum.reduce((total, value) => total + value, 0) / width;
    const at = sum.map((value, i) => (value - mean) * f[embeddingNorm.gamma + i] / tape.embedding.sd[place]);
    for (let j = 0; j < hidden; j++) {
      let weight = projection ? 0 : at[j];
      if (projection) {
        const from = projection.weight.at + j * width;
        for (let i = 0; i < width; i++) weight += f[from + i] * at[i];
      }
      out[place * hidden + j] = weight;
    }
  });
  return out;
}

/**
 * Relevance of every token.
 * @param {Model} model
 * @param {Float64Array} weights of a site
 * @param {Matrix} g at the first layer's input, (T, D)
 * @returns {Float64Array}
 */
export function relevance({ kernel }, weights, g) {
  const f = kernel.floats, scores = new Float64Array(g.rows);
  for (let row = 0; row < g.rows; row++) {
    for (let i = row * g.columns; i < (row + 1) * g.columns; i++) scores[row] += weights[i] * f[g.at + i];
  }
  return scores;
}
