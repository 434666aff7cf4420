// The methods: LOO, LRP under any set of bypassed layers, the gradient of a soft mask, and all masks.

import { relevance, SITES, siteWeights } from "./embedding_relevance.js";
import { forward, logitsOf } from "./forward.js";
import { gradientBackward, layerBackward, Scratch, start } from "./propagation.js";
import { refuse } from "./refusal.js";

/** @typedef {import("./encoder.js").Model} Model */
/** @typedef {import("./encoder.js").Row} Row */
/** @typedef {import("./encoder.js").Tape} Tape */
/** @typedef {import("./embedding_relevance.js").Site} Site */
/** @typedef {import("./forward.js").Pause} Pause */
/** @typedef {import("./kernel.js").Matrix} Matrix */
/** @typedef {import("./tokenizer.js").Tokenizer} Tokenizer */
/** @typedef {"attnlrp" | "cp-lrp" | "lrp" | "loo" | "mask-gradient"} Method */

/**
 * `bypass`: layers from 1, for "lrp"; or `amounts`, one number from 0 to 1 per layer (half-open layers).
 * @typedef {{ method?: Method, bypass?: number[], amounts?: number[], site?: Site,
 *   target?: number | null }} Choices
 */
/** @typedef {{ method: Method, amounts: number[], site: Site, target: number | null }} Settled */
/**
 * @typedef {{ tokens: string[], ids: number[], special: boolean[], scores: number[], target: number,
 *   logits: number[] }} Explanation
 */
/** @typedef {{ ids: number[], tape: Tape, users: number }} Kept */
/**
 * @typedef {(done: number, total: number, masks: { numbers: number[], r: number[] } | null) => void} Report
 */

/** @typedef {Omit<Explanation, "scores"> & { levels: string[], scores: number[][][] }} Flow */

const METHODS = ["attnlrp", "cp-lrp", "lrp", "loo", "mask-gradient"];
const AT_ONCE = 96; // tokens of a batch of removals
const TAPES = 2; // texts whose tape is kept

/**
 * Refuse choices that mean nothing; fill in the others.
 * @param {Choices} choices
 * @param {number} layers
 * @param {number} classes
 * @returns {Settled}
 */
export function settle(choices, layers, classes) {
  const { method = "attnlrp", bypass, amounts, site = "word", target = null } = choices;
  if (!METHODS.includes(method)) {
    refuse(
      "explain",
      `method ${JSON.stringify(method)}`,
      `one of ${METHODS.join(", ")}`,
      "choose one of them",
    );
  }
  if (!Object.hasOwn(SITES, site)) {
    const names = Object.keys(SITES).join(", ");
    refuse("explain", `site ${JSON.stringify(site)}`, `one of ${names}`, "choose one of them");
  }
  if (target !== null && !(Number.isInteger(target) && target >= 0 && target < classes)) {
    const expected = `a class from 0 to ${classes - 1}, or null`;
    refuse("explain", `target ${JSON.stringify(target)}`, expected, "null explains the predicted class");
  }
  if ((bypass || amounts) && method !== "lrp") {
    refuse("explain", `bypassed layers for method ${method}`, 'method "lrp"', "change the method");
  }
  const isLayer = (/** @type {unknown} */ l) => Number.isInteger(l) && Number(l) >= 1 && Number(l) <= layers;
  if (bypass && !(Array.isArray(bypass) && bypass.every(isLayer))) {
    refuse("explain", `bypass ${JSON.stringify(bypass)}`, `layers from 1 to ${layers}`, "try bypass: [7, 8]");
  }
  const isAmount = (/** @type {unknown} */ a) => typeof a === "number" && a >= 0 && a <= 1;
  if (amounts && !(Array.isArray(amounts) && amounts.length === layers && amounts.every(isAmount))) {
    const expected = `${layers} numbers from 0 to 1`;
    refuse("explain", `amounts ${JSON.stringify(amounts)}`, expected, "0 is AttnLRP, 1 is CP-LRP");
  }
  const open = (/** @type {number} */ layer) => Number(method === "cp-lrp" || (bypass ?? []).includes(layer));
  return { method, site, target, amounts: amounts ?? Array.from({ length: layers }, (_, k) => open(k + 1)) };
}

/**
 * Pearson's r over the chosen places; NaN where a side is constant.
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 * @param {boolean[]} chosen
 * @returns {number}
 */
export function correlation(a, b, chosen) {
  const places = chosen.flatMap((yes, i) => (yes ? [i] : [])), n = places.length;
  const mean = (/** @type {ArrayLike<number>} */ x) => places.reduce((sum, i) => sum + x[i], 0) / n;
  const [ma, mb] = [mean(a), mean(b)];
  let ab = 0, aa = 0, bb = 0;
  for (const i of places) {
    ab += (a[i] - ma) * (b[i] - mb);
    aa += (a[i] - ma) ** 2;
    bb += (b[i] - mb) ** 2;
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : NaN;
}

/**
 * `R = x . g` of every token.
 * @param {Model} model
 * @param {Matrix} x (T, D)
 * @param {Matrix} g (T, D)
 * @returns {number[]}
 */
function products({ kernel }, x, g) {
  const f = kernel.floats;
  return Array.from({ length: x.rows }, (_, row) => {
    let sum = 0;
    for (let i = 0; i < x.columns; i++) sum += f[x.at + row * x.step + i] * f[g.at + row * g.step + i];
    return sum;
  });
}

/** A model with its tokenizer, ready to be explained. */
export class Explainer {
  /**
   * @param {Model} model
   * @param {Tokenizer} tokenizer
   */
  constructor(model, tokenizer) {
    this.model = model;
    this.tokenizer = tokenizer;
    /** @type {Kept[]} */
    this.kept = [];
  }

  /**
   * Do something with the tape of a text, which is kept for the next question.
   * @template T
   * @param {number[]} ids
   * @param {Pause} pause
   * @param {(tape: Tape) => Promise<T>} work
   * @returns {Promise<T>}
   */
  async withTape(ids, pause, work) {
    const key = ids.join();
    let kept = this.kept.find((one) => one.ids.join() === key);
    if (!kept) {
      kept = { ids, tape: await forward(this.model, ids, pause), users: 0 };
      this.kept.push(kept);
    }
    kept.users += 1;
    try {
      return await work(kept.tape);
    } finally {
      kept.users -= 1;
      const idle = this.kept.filter(({ users }) => !users);
      for (const one of idle.slice(0, Math.max(0, this.kept.length - TAPES))) {
        one.tape.holder.release();
        this.kept.splice(this.kept.indexOf(one), 1);
      }
    }
  }

  /**
   * One map of a text.
   * @param {string} text
   * @param {Choices} choices
   * @param {Pause} pause
   * @param {Report} [report]
   * @returns {Promise<Explanation>}
   */
  async explain(text, choices, pause, report) {
    const { layers, head } = this.model, classes = /** @type {any} */ (head.at(-1)).map.weight.rows;
    const { method, amounts, site, target: wanted } = settle(choices, layers.length, classes);
    const { ids, tokens, special } = this.tokenizer.encode(text);
    return await this.withTape(ids, pause, async (tape) => {
      const { logits } = tape, target = wanted ?? logits.indexOf(Math.max(...logits));
      const scores = method === "loo"
        ? await this.leaveOneOut(ids, logits, target, pause, report)
        : method === "mask-gradient"
        ? await this.maskGradient(tape, target, pause)
        : await this.lrp(tape, ids, { amounts, site, target }, pause);
      return { tokens, ids, special, scores: Array.from(scores), target, logits };
    });
  }

  /**
   * Relevance at every layer's output, at what the first layer reads, and at the words, from the top down: by
   * AttnLRP and by CP-LRP, as `methods/lrp.py` has it.
   * @param {string} text
   * @param {Pick<Choices, "target">} choices
   * @param {Pause} pause
   * @returns {Promise<Flow>} scores by method, level and token
   */
  async levels(text, choices, pause) {
    const { model } = this,
      { layers, head } = model,
      classes = /** @type {any} */ (head.at(-1)).map.weight.rows;
    const { target: wanted, site } = settle({ target: choices.target }, layers.length, classes);
    const { ids, tokens, special } = this.tokenizer.encode(text);
    const levels = layers.map((_, k) => `output of layer ${layers.length - k}`).concat("embeddings", "words");
    return await this.withTape(ids, pause, async (tape) => {
      const { logits } = tape, target = wanted ?? logits.indexOf(Math.max(...logits)), scores = [];
      for (const amount of [0, 1]) {
        /** @type {number[][]} */
        const rows = [];
        const meet = (/** @type {number} */ depth, /** @type {Matrix} */ g) =>
          rows.push(products(model, tape.layers[depth]?.outputNorm.y ?? tape.input, g));
        const amounts = layers.map(() => amount);
        const words = await this.lrp(tape, ids, { amounts, site, target }, pause, meet);
        scores.push([...rows, Array.from(words)]);
      }
      return { tokens, ids, special, target, logits, levels, scores };
    });
  }

  /**
   * `LOO_i = f(x) - f(x without i)`: token i is not run, and the others keep their places. The first token,
   * which the classifier reads, stays, and nobody attends to it.
   * @param {number[]} ids
   * @param {number[]} logits of the whole text
   * @param {number} target
   * @param {Pause} pause
   * @param {Report} [report]
   * @returns {Promise<number[]>}
   */
  async leaveOneOut(ids, logits, target, pause, report) {
    const places = ids.map((_, place) => place),
      scores = [],
      size = Math.max(1, Math.floor(AT_ONCE / ids.length));
    /** @type {Row[]} */
    const rows = places.map((removed) => {
      const stay = removed ? places.filter((place) => place !== removed) : places;
      return { ids: stay.map((place) => ids[place]), places: stay, firstUnread: removed === 0 };
    });
    for (let from = 0; from < rows.length; from += size) {
      const without = await logitsOf(this.model, rows.slice(from, from + size), pause);
      scores.push(...without.map((row) => logits[target] - row[target]));
      report?.(scores.length, rows.length, null);
    }
    return scores;
  }

  /**
   * LRP with the attention of some layers held constant, wholly or in part.
   * @param {Tape} tape
   * @param {number[]} ids
   * @param {{ amounts: number[], site: Site, target: number }} how
   * @param {Pause} pause
   * @param {(depth: number, g: Matrix) => void} [meet] is told g at each layer's output, and below
   * @returns {Promise<Float64Array>}
   */
  async lrp(tape, ids, { amounts, site, target }, pause, meet) {
    const { model } = this, scratch = new Scratch(model, tape.tokens), { holder } = scratch;
    try {
      const g = holder.matrix(tape.tokens, model.hidden);
      start(model, tape, target, false, g);
      for (let depth = model.layers.length - 1; depth >= 0; depth--) {
        await pause();
        meet?.(depth, g);
        layerBackward(model, depth, tape, g, scratch, amounts[depth]);
      }
      meet?.(-1, g);
      return relevance(model, siteWeights(model, tape, ids, site), g);
    } finally {
      scratch.release();
    }
  }

  /**
   * `df/dw_i` at w = 1, where attention weights are proportional to `w_i exp(Z_ji)`.
   * @param {Tape} tape
   * @param {number} target
   * @param {Pause} pause
   * @returns {Promise<Float64Array>}
   */
  async maskGradient(tape, target, pause) {
    const { model } = this, scratch = new Scratch(model, tape.tokens), { holder } = scratch;
    const byKey = new Float64Array(tape.tokens);
    try {
      const g = holder.matrix(tape.tokens, model.hidden);
      start(model, tape, target, true, g);
      for (let depth = model.layers.length - 1; depth >= 0; depth--) {
        await pause();
        gradientBackward(model, depth, tape, g, scratch, byKey);
      }
      return byKey;
    } finally {
      scratch.release();
    }
  }
}
