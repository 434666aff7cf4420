// A post-LN classifier forward, in the kernel's memory: with a tape for one text, without for many at once.

import { columnsOf, fours, rowsOf } from "./kernel.js";

/** @typedef {import("./kernel.js").Kernel} Kernel */
/** @typedef {import("./kernel.js").Matrix} Matrix */
/** @typedef {import("./kernel.js").Holder} Holder */
/** @typedef {import("./activations.js").Activation} Activation */

/** @typedef {{ weight: Matrix, bias: number }} LinearMap */
/** @typedef {{ gamma: number, beta: number, eps: number }} Norm */
/**
 * @typedef {{
 *   query: LinearMap, key: LinearMap, value: LinearMap, attentionOut: LinearMap, attentionNorm: Norm,
 *   up: LinearMap, down: LinearMap, outputNorm: Norm,
 * }} LayerWeights
 */
/**
 * @typedef {{
 *   kernel: Kernel, heads: number, hidden: number, inner: number, activation: Activation,
 *   word: (id: number, to: Float64Array) => void, position: Matrix, type: Matrix | null,
 *   embeddingNorm: Norm, projection: LinearMap | null, firstPosition: number,
 *   layers: LayerWeights[], head: { map: LinearMap, activation: Activation | null }[],
 * }} Model
 */

/**
 * One text of those that are run together; with `firstUnread` no token attends to the first one.
 * @typedef {{ ids: number[], places: number[], firstUnread?: boolean }} Row
 */
/** @typedef {{ x: Matrix, y: Matrix, mean: Float64Array, sd: Float64Array }} NormStep */
/**
 * What a layer leaves behind. Attention lies head below head, (H T, T), and again with each head transposed.
 * @typedef {{
 *   query: Matrix, key: Matrix, value: Matrix, attention: Matrix, transposed: Matrix, read: Matrix,
 *   attentionNorm: NormStep, z: Matrix, slope: Matrix, outputNorm: NormStep,
 * }} LayerStep
 */
/**
 * @typedef {{ map: LinearMap, activation: Activation | null, z: Float64Array, slope: Float64Array }} HeadStep
 */
/**
 * `input` is what the first layer reads.
 * @typedef {{ embedding: NormStep, input: Matrix, layers: LayerStep[], head: HeadStep[], logits: number[],
 *   tokens: number, holder: Holder }} Tape
 */

/**
 * LayerNorm of every row of x, written to y.
 * @param {Kernel} kernel
 * @param {Norm} norm
 * @param {NormStep} step
 * @returns {void}
 */
export function normalise(kernel, norm, { x, y, mean, sd }) {
  const f = kernel.floats, n = x.columns;
  for (let row = 0; row < x.rows; row++) {
    const from = x.at + row * x.step, to = y.at + row * y.step;
    let sum = 0, squares = 0;
    for (let i = 0; i < n; i++) sum += f[from + i];
    mean[row] = sum / n;
    for (let i = 0; i < n; i++) squares += (f[from + i] - mean[row]) ** 2;
    sd[row] = Math.sqrt(squares / n + norm.eps);
    for (let i = 0; i < n; i++) {
      f[to + i] = (f[from + i] - mean[row]) / sd[row] * f[norm.gamma + i] + f[norm.beta + i];
    }
  }
}

/**
 * Room for a LayerNorm of some rows.
 * @param {Holder} holder
 * @param {number} rows
 * @param {number} columns
 * @returns {NormStep}
 */
function normStep(holder, rows, columns) {
  const [x, y] = [holder.matrix(rows, columns), holder.matrix(rows, columns)];
  return { x, y, mean: new Float64Array(rows), sd: new Float64Array(rows) };
}

/**
 * Room for a layer: all rows together, attention for the longest of the texts.
 * @param {Model} model
 * @param {Holder} holder
 * @param {number} rows
 * @param {number} longest
 * @returns {LayerStep}
 */
export function layerStep(model, holder, rows, longest) {
  const { hidden, inner, heads } = model;
  const wide = () => holder.matrix(rows, hidden);
  const square = () => holder.matrix(heads * (fours(longest) + 4), fours(longest));
  return {
    query: wide(),
    key: wide(),
    value: wide(),
    attention: square(),
    transposed: square(),
    read: wide(),
    attentionNorm: normStep(holder, rows, hidden),
    z: holder.matrix(rows, inner),
    slope: holder.matrix(rows, inner),
    outputNorm: normStep(holder, rows, hidden),
  };
}

/**
 * The part of an attention matrix that belongs to a head, (T, T).
 * @param {Matrix} attention
 * @param {number} head
 * @param {number} tokens
 * @returns {Matrix}
 */
export function ofHead(attention, head, tokens) {
  const step = fours(tokens), at = attention.at + head * (step + 4) * step;
  return { at, rows: tokens, columns: tokens, step };
}

/**
 * Turn rows of scores into attention weights, in place; a key that is not read gets 0.
 * @param {Float32Array} f
 * @param {Matrix} scores (T, T)
 * @param {number} scale
 * @param {number} first the first key that is read
 * @returns {void}
 */
function softmaxRows(f, scores, scale, first) {
  for (let row = 0; row < scores.rows; row++) {
    const from = scores.at + row * scores.step;
    let top = -Infinity, sum = 0;
    for (let i = first; i < scores.columns; i++) top = Math.max(top, f[from + i]);
    for (let i = 0; i < scores.step; i++) {
      const read = i >= first && i < scores.columns;
      f[from + i] = read ? Math.exp((f[from + i] - top) * scale) : 0;
      sum += f[from + i];
    }
    for (let i = 0; i < scores.columns; i++) f[from + i] /= sum;
  }
}

/**
 * Write the transpose of a square matrix.
 * @param {Float32Array} f
 * @param {Matrix} a (T, T)
 * @param {Matrix} to (T, T)
 * @returns {void}
 */
export function transpose(f, a, to) {
  for (let row = 0; row < a.rows; row++) {
    for (let i = 0; i < a.columns; i++) f[to.at + i * to.step + row] = f[a.at + row * a.step + i];
  }
}

/**
 * Attention of one text, head by head: its weights, and what it reads.
 * @param {Model} model
 * @param {LayerStep} step
 * @param {number} from the text's first row
 * @param {Row} text
 * @returns {void}
 */
function attend(model, step, from, { ids, firstUnread }) {
  const { kernel, heads, hidden } = model, width = hidden / heads, tokens = ids.length;
  for (let head = 0; head < heads; head++) {
    const [q, k, v, read] = [step.query, step.key, step.value, step.read].map((matrix) =>
      columnsOf(rowsOf(matrix, from, tokens), head * width, width)
    );
    const weights = ofHead(step.attention, head, tokens);
    kernel.productTransposed(q, k, weights);
    softmaxRows(kernel.floats, weights, width ** -0.5, firstUnread ? 1 : 0);
    transpose(kernel.floats, weights, ofHead(step.transposed, head, tokens));
    kernel.product(weights, v, read);
  }
}

/**
 * `to = x W^T + b`.
 * @param {Kernel} kernel
 * @param {Matrix} x
 * @param {LinearMap} map
 * @param {Matrix} to
 * @returns {void}
 */
function apply(kernel, x, { weight, bias }, to) {
  kernel.productTransposed(x, weight, to, { bias });
}

/**
 * `to = to + x`, row by row.
 * @param {Float32Array} f
 * @param {Matrix} x
 * @param {Matrix} to
 * @returns {void}
 */
export function addTo(f, x, to) {
  const count = x.rows * x.step;
  for (let i = 0; i < count; i++) f[to.at + i] += f[x.at + i];
}

/**
 * One layer on all rows; its output is `step.outputNorm.y`. The inner activations are scratch.
 * @param {Model} model
 * @param {LayerWeights} layer
 * @param {Matrix} x
 * @param {Row[]} texts
 * @param {LayerStep} step
 * @param {Matrix} inner (rows, inner width)
 * @returns {void}
 */
export function runLayer(model, layer, x, texts, step, inner) {
  const { kernel } = model;
  apply(kernel, x, layer.query, step.query);
  apply(kernel, x, layer.key, step.key);
  apply(kernel, x, layer.value, step.value);
  let from = 0;
  for (const text of texts) {
    attend(model, step, from, text);
    from += text.ids.length;
  }
  const f = kernel.floats, { attentionNorm, outputNorm } = step;
  apply(kernel, step.read, layer.attentionOut, attentionNorm.x);
  addTo(f, x, attentionNorm.x);
  normalise(kernel, layer.attentionNorm, attentionNorm);
  apply(kernel, attentionNorm.y, layer.up, step.z);
  const { slope } = model.activation, count = step.z.rows * step.z.step;
  for (let i = 0; i < count; i++) {
    const z = f[step.z.at + i], ratio = slope(z);
    f[step.slope.at + i] = ratio;
    f[inner.at + i] = z * ratio;
  }
  apply(kernel, inner, layer.down, outputNorm.x);
  addTo(f, attentionNorm.y, outputNorm.x);
  normalise(kernel, layer.outputNorm, outputNorm);
}
