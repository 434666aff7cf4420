// Layers backward, as `lrp_companion/tape/encoder.py` walks them: by LRP under any set of bypassed layers,
// half-open ones too, or by the gradient of the model itself.

import { columnsOf, fours, Holder } from "./kernel.js";
import { ofHead, transpose } from "./encoder.js";
import { elementwise, layerNorm, linear, matmulLeft, matmulRight, share, softmax } from "./rules.js";

/** @typedef {import("./kernel.js").Matrix} Matrix */
/** @typedef {import("./encoder.js").Model} Model */
/** @typedef {import("./encoder.js").LayerWeights} LayerWeights */
/** @typedef {import("./encoder.js").LayerStep} LayerStep */
/** @typedef {import("./encoder.js").NormStep} NormStep */
/** @typedef {import("./encoder.js").Norm} Norm */
/** @typedef {import("./encoder.js").Tape} Tape */

/** What a walk needs besides the tape; for one text, used by one step at a time. */
export class Scratch {
  /**
   * @param {Model} model
   * @param {number} tokens
   */
  constructor(model, tokens) {
    this.holder = new Holder(model.kernel);
    const wide = () => this.holder.matrix(tokens, model.hidden);
    const square = () => this.holder.matrix(fours(tokens) + 4, fours(tokens));
    this.inner = this.holder.matrix(tokens, model.inner);
    this.read = wide();
    this.value = wide();
    this.query = wide();
    this.key = wide();
    this.scores = { ...square(), rows: tokens, columns: tokens };
    this.turned = { ...square(), rows: tokens, columns: tokens };
  }

  /** Give the memory back. */
  release() {
    this.holder.release();
  }
}

/**
 * Copy the numbers of a matrix into another of the same shape.
 * @param {Model} model
 * @param {Matrix} from
 * @param {Matrix} to
 * @returns {void}
 */
export function copy({ kernel }, from, to) {
  kernel.floats.copyWithin(to.at, from.at, from.at + from.rows * from.step);
}

/**
 * g at the last hidden states for an explained class: zero but at the first token.
 * @param {Model} model
 * @param {Tape} tape
 * @param {number} target
 * @param {boolean} whole the gradient of the model, not LRP
 * @param {Matrix} to (T, D)
 * @returns {void}
 */
export function start(model, tape, target, whole, to) {
  const f = model.kernel.floats;
  let g = Float64Array.from(tape.logits, (_, k) => (k === target ? 1 : 0));
  for (const { map, activation, z, slope } of tape.head.toReversed()) {
    const { at, rows, columns, step } = map.weight, next = new Float64Array(columns);
    for (let j = 0; j < rows; j++) {
      const factor = activation && whole ? activation.derivative(z[j], slope[j]) : slope[j];
      for (let i = 0; i < columns; i++) next[i] += g[j] * factor * f[at + j * step + i];
    }
    g = next;
  }
  f.fill(0, to.at, to.at + to.rows * to.step);
  f.set(g, to.at);
}

/**
 * From a layer's output around its attention: g becomes what reaches the layer's input past the attention,
 * and `scratch.read` g at what the attention read.
 * @param {Model} model
 * @param {LayerWeights} layer
 * @param {LayerStep} step
 * @param {Matrix} g (T, D), changed in place
 * @param {Scratch} scratch
 * @param {boolean} whole the gradient of the model, not LRP
 * @returns {void}
 */
export function aroundAttention(model, layer, step, g, scratch, whole) {
  const { kernel, activation } = model, { inner, read } = scratch;
  const norm = (/** @type {Norm} */ { gamma }, /** @type {NormStep} */ { x, mean, sd }) =>
    layerNorm(kernel, g, gamma, sd, whole ? { x, mean } : undefined);
  norm(layer.outputNorm, step.outputNorm);
  linear(kernel, g, layer.down.weight, inner);
  if (whole) {
    const f = kernel.floats, count = inner.rows * inner.step, { z, slope } = step;
    for (let i = 0; i < count; i++) f[inner.at + i] *= activation.derivative(f[z.at + i], f[slope.at + i]);
  } else elementwise(kernel, inner, step.slope);
  linear(kernel, inner, layer.up.weight, g, { add: true });
  norm(layer.attentionNorm, step.attentionNorm);
  linear(kernel, g, layer.attentionOut.weight, read);
}

/**
 * From what the attention read to its values, `scratch.value`.
 * @param {Model} model
 * @param {LayerStep} step
 * @param {Scratch} scratch
 * @param {number} part what the values receive: 1/2 by AttnLRP, 1 by CP-LRP and in the gradient
 * @returns {void}
 */
export function toValues({ kernel, heads, hidden }, step, scratch, part) {
  const width = hidden / heads, tokens = scratch.read.rows;
  for (let head = 0; head < heads; head++) {
    const [read, value] = [scratch.read, scratch.value].map((m) => columnsOf(m, head * width, width));
    matmulRight(kernel, ofHead(step.transposed, head, tokens), read, value);
  }
  share(kernel, scratch.value, part);
}

/**
 * From what the attention read to queries and keys, `scratch.query` and `scratch.key`.
 * @param {Model} model
 * @param {LayerStep} step
 * @param {Scratch} scratch
 * @param {number} part what they receive: by AttnLRP half of a half, in the gradient 1
 * @param {Float64Array} [byKey] where g at the scores is summed by key, over heads and queries
 * @returns {void}
 */
export function toQueriesAndKeys({ kernel, heads, hidden }, step, scratch, part, byKey) {
  const width = hidden / heads, { scores, turned } = scratch, tokens = scores.rows;
  for (let head = 0; head < heads; head++) {
    const of = (/** @type {Matrix} */ matrix) => columnsOf(matrix, head * width, width);
    matmulLeft(kernel, of(scratch.read), of(step.value), scores);
    softmax(kernel, scores, ofHead(step.attention, head, tokens), byKey);
    transpose(kernel.floats, scores, turned);
    // Each factor is given with the scale, because what arrives at one is multiplied by the other.
    kernel.product(scores, of(step.key), of(scratch.query));
    matmulRight(kernel, turned, of(step.query), of(scratch.key));
  }
  share(kernel, scratch.query, part * width ** -0.5);
  share(kernel, scratch.key, part * width ** -0.5);
}

/**
 * One layer backward, in place of g. `amount` is 0 for AttnLRP, 1 where the layer is bypassed (CP-LRP), and
 * between for a half-open layer: relevance is linear in it.
 * @param {Model} model
 * @param {number} depth from 0
 * @param {Tape} tape
 * @param {Matrix} g
 * @param {Scratch} scratch
 * @param {number} amount
 * @returns {void}
 */
export function layerBackward(model, depth, tape, g, scratch, amount) {
  const { kernel } = model, layer = model.layers[depth], step = tape.layers[depth];
  aroundAttention(model, layer, step, g, scratch, false);
  toValues(model, step, scratch, (1 + amount) / 2);
  linear(kernel, scratch.value, layer.value.weight, g, { add: true });
  if (amount < 1) {
    toQueriesAndKeys(model, step, scratch, (1 - amount) / 4);
    linear(kernel, scratch.query, layer.query.weight, g, { add: true });
    linear(kernel, scratch.key, layer.key.weight, g, { add: true });
  }
}

/**
 * Both treatments of a layer from one walk: g becomes AttnLRP's, `bypassed` CP-LRP's. They are `G + P/2 + S`
 * and `G + P`, with G around the attention, P through the values, and S through queries and keys.
 * @param {Model} model
 * @param {number} depth from 0
 * @param {Tape} tape
 * @param {Matrix} g
 * @param {Matrix} bypassed
 * @param {Scratch} scratch
 * @returns {void}
 */
export function children(model, depth, tape, g, bypassed, scratch) {
  const { kernel } = model, layer = model.layers[depth], step = tape.layers[depth];
  aroundAttention(model, layer, step, g, scratch, false);
  toValues(model, step, scratch, 0.5);
  linear(kernel, scratch.value, layer.value.weight, bypassed);
  const f = kernel.floats, count = g.rows * g.step;
  for (let i = 0; i < count; i++) {
    const around = f[g.at + i], half = f[bypassed.at + i];
    f[g.at + i] = around + half;
    f[bypassed.at + i] = around + 2 * half;
  }
  toQueriesAndKeys(model, step, scratch, 0.25);
  linear(kernel, scratch.query, layer.query.weight, g, { add: true });
  linear(kernel, scratch.key, layer.key.weight, g, { add: true });
}

/**
 * One layer backward by the gradient of the model, in place of g.
 * @param {Model} model
 * @param {number} depth from 0
 * @param {Tape} tape
 * @param {Matrix} g
 * @param {Scratch} scratch
 * @param {Float64Array} byKey sums g at the scores by key: the gradient of a soft mask at w = 1
 * @returns {void}
 */
export function gradientBackward(model, depth, tape, g, scratch, byKey) {
  const { kernel } = model, layer = model.layers[depth], step = tape.layers[depth];
  aroundAttention(model, layer, step, g, scratch, true);
  toValues(model, step, scratch, 1);
  toQueriesAndKeys(model, step, scratch, 1, byKey);
  for (const name of /** @type {const} */ (["value", "query", "key"])) {
    linear(kernel, scratch[name], layer[name].weight, g, { add: true });
  }
}
