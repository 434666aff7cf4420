// A staged model from its manifest and parts, as `page/browser_engine.py` writes them: weights of 8 bits
// with scales become 32-bit floats; word embeddings stay as they came and are read row by row.

import { ACTIVATIONS } from "./activations.js";
import { refuse } from "./refusal.js";

/** @typedef {import("./kernel.js").Kernel} Kernel */
/** @typedef {import("./kernel.js").Matrix} Matrix */
/** @typedef {import("./encoder.js").Model} Model */
/** @typedef {import("./encoder.js").LinearMap} LinearMap */

/**
 * A tensor in a part: 8-bit steps at `at` with 32-bit scales at `scales`, or 32-bit floats at `at`. Rows from
 * `from` on; a tensor may lie in several parts.
 * @typedef {{ name: string, rows: number, columns: number, part: number, at: number, scales?: number,
 *   from: number, of: number }} Piece
 */
/**
 * @typedef {{
 *   format: number, name: string, fingerprint: string, labels: string[], layers: number, heads: number,
 *   hidden: number, inner: number, block: number, activation: string, head: { name: string,
 *   activation: string | null }[], normEps: number, firstPosition: number, hasType: boolean,
 *   hasProjection: boolean, pieces: Piece[], parts: { bytes: number, sum: number }[],
 *   tokenizer: import("./tokenizer.js").TokenizerData,
 * }} Manifest
 */
/** @typedef {{ steps: Int8Array, scales: Float32Array }} Quantised */

export const FORMAT = 2;

/**
 * Adler-32, as `zlib.adler32` has it.
 * @param {Uint8Array} bytes
 * @returns {number}
 */
export function checksum(bytes) {
  let a = 1, b = 0;
  for (let from = 0; from < bytes.length; from += 4096) {
    const end = Math.min(bytes.length, from + 4096);
    for (let i = from; i < end; i++) b += a += bytes[i];
    a %= 65521;
    b %= 65521;
  }
  return (b * 65536 + a) >>> 0;
}

/** Takes parts as they come, in any order, and makes a model of them. */
export class Weights {
  /**
   * @param {Kernel} kernel
   * @param {Manifest} manifest
   */
  constructor(kernel, manifest) {
    if (manifest.format !== FORMAT) {
      refuse("load", `weights of format ${manifest.format}`, `format ${FORMAT}`, "build the page again");
    }
    this.kernel = kernel;
    this.manifest = manifest;
    /** @type {Map<string, Matrix>} */
    this.matrices = new Map();
    const { rows, columns } = this.sizeOf("word");
    const blocks = Math.ceil(columns / manifest.block);
    this.words = { steps: new Int8Array(rows * columns), scales: new Float32Array(rows * blocks) };
    for (const { name, of, columns } of manifest.pieces) {
      if (name === "word" || this.matrices.has(name)) continue;
      const at = kernel.allocate(of * columns + 16 * columns);
      this.matrices.set(name, { at, rows: of, columns, step: columns });
    }
  }

  /**
   * Rows and columns of a whole tensor.
   * @param {string} name
   * @returns {{ rows: number, columns: number }}
   */
  sizeOf(name) {
    const piece = /** @type {Piece} */ (this.manifest.pieces.find((one) => one.name === name));
    return { rows: piece.of, columns: piece.columns };
  }

  /**
   * Take one part's bytes; refuse them where they are not what was written.
   * @param {number} number
   * @param {Uint8Array<ArrayBuffer>} bytes
   * @returns {void}
   */
  take(number, bytes) {
    const expected = this.manifest.parts[number];
    if (bytes.length !== expected.bytes || checksum(bytes) !== expected.sum) {
      const got = `part ${number} of ${bytes.length} bytes that are not those written`;
      refuse("load", got, `${expected.bytes} bytes`, "load the page again");
    }
    for (const piece of this.manifest.pieces) {
      if (piece.part === number) this.place(piece, bytes.buffer, bytes.byteOffset);
    }
  }

  /**
   * Put a piece where its tensor lies.
   * @param {Piece} piece
   * @param {ArrayBuffer} buffer
   * @param {number} base
   * @returns {void}
   */
  place({ name, rows, columns, at, scales, from }, buffer, base) {
    const count = rows * columns, { block } = this.manifest, blocks = Math.ceil(columns / block);
    if (scales === undefined) {
      const { at: to } = /** @type {Matrix} */ (this.matrices.get(name));
      this.kernel.floats.set(new Float32Array(buffer, base + at, count), to + from * columns);
      return;
    }
    const steps = new Int8Array(buffer, base + at, count);
    const factors = new Float32Array(buffer, base + scales, rows * blocks);
    if (name === "word") {
      this.words.steps.set(steps, from * columns);
      this.words.scales.set(factors, from * blocks);
      return;
    }
    const f = this.kernel.floats, to = /** @type {Matrix} */ (this.matrices.get(name)).at + from * columns;
    for (let row = 0, i = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++, i++) {
        f[to + i] = steps[i] * factors[row * blocks + Math.floor(column / block)];
      }
    }
  }

  /**
   * The model, once every part is here.
   * @returns {Model}
   */
  model() {
    const { kernel, manifest, words } = this, { block } = manifest;
    const matrix = (/** @type {string} */ name) => /** @type {Matrix} */ (this.matrices.get(name));
    const map = (/** @type {string} */ name) => ({
      weight: matrix(`${name}.weight`),
      bias: matrix(`${name}.bias`).at,
    });
    const norm = (/** @type {string} */ name) => ({
      gamma: matrix(`${name}.weight`).at,
      beta: matrix(`${name}.bias`).at,
      eps: manifest.normEps,
    });
    const layers = Array.from({ length: manifest.layers }, (_, k) => {
      const of = (/** @type {string} */ name) => `${k + 1}.${name}`;
      return {
        query: map(of("query")),
        key: map(of("key")),
        value: map(of("value")),
        attentionOut: map(of("attention_out")),
        attentionNorm: norm(of("attention_norm")),
        up: map(of("up")),
        down: map(of("down")),
        outputNorm: norm(of("output_norm")),
      };
    });
    const { columns } = this.sizeOf("word"), blocks = Math.ceil(columns / block);
    const word = (/** @type {number} */ id, /** @type {Float64Array} */ to) => {
      for (let i = 0; i < columns; i++) {
        to[i] = Math.fround(
          words.steps[id * columns + i] * words.scales[id * blocks + Math.floor(i / block)],
        );
      }
    };
    return {
      kernel,
      layers,
      word,
      heads: manifest.heads,
      hidden: manifest.hidden,
      inner: manifest.inner,
      activation: ACTIVATIONS[manifest.activation],
      firstPosition: manifest.firstPosition,
      position: matrix("position"),
      type: manifest.hasType ? matrix("type") : null,
      embeddingNorm: norm("embedding_norm"),
      projection: manifest.hasProjection ? map("projection") : null,
      head: manifest.head.map(({ name, activation }) => ({
        map: map(name),
        activation: activation === null ? null : ACTIVATIONS[activation],
      })),
    };
  }
}
