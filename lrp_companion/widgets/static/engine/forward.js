// From ids to logits: embeddings, layers, and the head on the first token.

import { Holder } from "./kernel.js";
import { layerStep, normalise, runLayer } from "./encoder.js";

/** @typedef {import("./kernel.js").Matrix} Matrix */
/** @typedef {import("./encoder.js").Model} Model */
/** @typedef {import("./encoder.js").Row} Row */
/** @typedef {import("./encoder.js").NormStep} NormStep */
/** @typedef {import("./encoder.js").HeadStep} HeadStep */
/** @typedef {import("./encoder.js").Tape} Tape */
/** @typedef {() => Promise<void>} Pause lets messages in; rejects once the job is cancelled */

/**
 * The embeddings of one token: word, position and type.
 * @param {Model} model
 * @param {number} id
 * @param {number} place from 0
 * @returns {{ word: Float64Array, position: Float64Array, type: Float64Array | null }}
 */
export function embeddingParts(model, id, place) {
  const { position, type, firstPosition } = model, f = model.kernel.floats;
  const row = (/** @type {Matrix} */ { at, step, columns }, /** @type {number} */ k) =>
    Float64Array.from(f.subarray(at + k * step, at + k * step + columns));
  const word = new Float64Array(position.columns);
  model.word(id, word);
  return { word, position: row(position, place + firstPosition), type: type && row(type, 0) };
}

/**
 * The first layer's input, (rows, D), and the LayerNorm of the sum of embeddings.
 * @param {Model} model
 * @param {Holder} holder
 * @param {Row[]} texts
 * @returns {{ step: NormStep, x: Matrix }}
 */
export function embed(model, holder, texts) {
  const { kernel, position, projection } = model, width = position.columns;
  const rows = texts.reduce((sum, { ids }) => sum + ids.length, 0);
  const [sum, y] = [holder.matrix(rows, width), holder.matrix(rows, width)];
  const out = projection ? holder.matrix(rows, model.hidden) : y, f = kernel.floats;
  let to = sum.at;
  for (const { ids, places } of texts) {
    ids.forEach((id, at) => {
      const { word, position, type } = embeddingParts(model, id, places[at]);
      for (let i = 0; i < width; i++) f[to + i] = word[i] + position[i] + (type ? type[i] : 0);
      to += width;
    });
  }
  const step = { x: sum, y, mean: new Float64Array(rows), sd: new Float64Array(rows) };
  normalise(kernel, model.embeddingNorm, step);
  if (projection) kernel.productTransposed(y, projection.weight, out, { bias: projection.bias });
  return { step, x: out };
}

/**
 * The classifier on a hidden state: each map with its activation function.
 * @param {Model} model
 * @param {Float64Array} first the first token's hidden state
 * @returns {{ steps: HeadStep[], logits: number[] }}
 */
export function classify(model, first) {
  const f = model.kernel.floats, steps = [];
  let x = first;
  for (const { map, activation } of model.head) {
    const { at, rows, columns, step } = map.weight, z = new Float64Array(rows);
    for (let j = 0; j < rows; j++) {
      let sum = f[map.bias + j];
      for (let i = 0; i < columns; i++) sum += f[at + j * step + i] * x[i];
      z[j] = sum;
    }
    const slope = z.map((value) => (activation ? activation.slope(value) : 1));
    steps.push({ map, activation, z, slope });
    x = z.map((value, j) => value * slope[j]);
  }
  return { steps, logits: Array.from(x) };
}

/**
 * One text, with its tape.
 * @param {Model} model
 * @param {number[]} ids
 * @param {Pause} pause
 * @returns {Promise<Tape>}
 */
export async function forward(model, ids, pause) {
  const holder = new Holder(model.kernel), scratch = new Holder(model.kernel), tokens = ids.length;
  try {
    const texts = [{ ids, places: ids.map((_, place) => place) }];
    const inner = scratch.matrix(tokens, model.inner), embedding = embed(model, holder, texts);
    const layers = [];
    let { x } = embedding;
    for (const layer of model.layers) {
      await pause();
      const step = layerStep(model, holder, tokens, tokens);
      runLayer(model, layer, x, texts, step, inner);
      layers.push(step);
      x = step.outputNorm.y;
    }
    const first = Float64Array.from(model.kernel.floats.subarray(x.at, x.at + x.columns));
    const { steps, logits } = classify(model, first);
    const { step, x: input } = embedding;
    return { embedding: step, input, layers, head: steps, logits, tokens, holder };
  } catch (error) {
    holder.release();
    throw error;
  } finally {
    scratch.release();
  }
}

/**
 * Logits of several texts at once, without a tape: two layers' room, used in turn.
 * @param {Model} model
 * @param {Row[]} texts
 * @param {Pause} pause
 * @returns {Promise<number[][]>}
 */
export async function logitsOf(model, texts, pause) {
  const holder = new Holder(model.kernel), lengths = texts.map(({ ids }) => ids.length);
  try {
    let { x } = embed(model, holder, texts);
    const inner = holder.matrix(x.rows, model.inner), longest = Math.max(...lengths);
    const room = [0, 1].map(() => layerStep(model, holder, x.rows, longest));
    for (const [depth, layer] of model.layers.entries()) {
      await pause();
      runLayer(model, layer, x, texts, room[depth % 2], inner);
      x = room[depth % 2].outputNorm.y;
    }
    let from = x.at;
    return lengths.map((length) => {
      const first = Float64Array.from(model.kernel.floats.subarray(from, from + x.columns));
      from += length * x.step;
      return classify(model, first).logits;
    });
  } finally {
    holder.release();
  }
}
