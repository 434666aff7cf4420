// Matrices in the memory of the WebAssembly kernel (`kernel.wat`), and the two products on them.

/**
 * 32-bit floats, row by row. `at` and `step` (from one row to the next) count floats, not bytes.
 * @typedef {{ at: number, rows: number, columns: number, step: number }} Matrix
 */

/** @typedef {{ at: number, size: number, free: boolean }} Block */

/**
 * A number rounded up to a multiple of four, the height and width of a tile.
 * @param {number} count
 * @returns {number}
 */
export function fours(count) {
  return Math.ceil(count / 4) * 4;
}

/**
 * Some columns of a matrix: a head's, for one.
 * @param {Matrix} matrix
 * @param {number} from
 * @param {number} columns
 * @returns {Matrix}
 */
export function columnsOf(matrix, from, columns) {
  return { ...matrix, at: matrix.at + from, columns };
}

/**
 * Some rows of a matrix: a text's among several, for one.
 * @param {Matrix} matrix
 * @param {number} from
 * @param {number} rows
 * @returns {Matrix}
 */
export function rowsOf(matrix, from, rows) {
  return { ...matrix, at: matrix.at + from * matrix.step, rows };
}

/** The memory and what computes in it. */
export class Kernel {
  /** @param {Uint8Array<ArrayBuffer>} bytes the compiled `kernel.wat`, or its relaxed twin */
  constructor(bytes) {
    this.memory = new WebAssembly.Memory({ initial: 16 });
    const module = new WebAssembly.Module(bytes);
    const { exports } = new WebAssembly.Instance(module, { engine: { memory: this.memory } });
    this.run = /** @type {{ [name: string]: (...numbers: number[]) => void }} */ (
      /** @type {unknown} */ (exports)
    );
    this.view = new Float32Array(this.memory.buffer);
    /** @type {Block[]} */
    this.blocks = [{ at: 4, size: this.view.length - 4, free: true }]; // address 0 means "none"
  }

  /** All of the memory; asked for again after every `allocate`, which may move it. */
  get floats() {
    if (this.view.buffer !== this.memory.buffer) this.view = new Float32Array(this.memory.buffer);
    return this.view;
  }

  /**
   * Reserve floats; a multiple of four is a multiple of a vector.
   * @param {number} count
   * @returns {number} where they lie
   */
  allocate(count) {
    const size = fours(count);
    let index = this.blocks.findIndex((block) => block.free && block.size >= size);
    if (index < 0) {
      const pages = Math.ceil(size / 16384) + 16, end = this.floats.length;
      this.memory.grow(pages);
      this.blocks.push({ at: end, size: pages * 16384, free: true });
      index = this.blocks.length - 1;
    }
    const block = this.blocks[index], rest = block.size - size;
    if (rest) this.blocks.splice(index + 1, 0, { at: block.at + size, size: rest, free: true });
    Object.assign(block, { size, free: false });
    return block.at;
  }

  /**
   * Give floats back; free neighbours become one block.
   * @param {number} at
   * @returns {void}
   */
  release(at) {
    const index = this.blocks.findIndex((block) => block.at === at && !block.free);
    if (index < 0) throw new Error(`nothing is reserved at ${at}`);
    this.blocks[index].free = true;
    for (const left of [index, index - 1]) {
      const [block, next] = [this.blocks[left], this.blocks[left + 1]];
      if (block?.free && next?.free) {
        block.size += next.size;
        this.blocks.splice(left + 1, 1);
      }
    }
  }

  /**
   * `c = a b`, or `c + a b` with `add`; the columns of b are a multiple of eight.
   * @param {Matrix} a (m, k)
   * @param {Matrix} b (k, n)
   * @param {Matrix} c (m, n), with room for rows up to the next multiple of four
   * @param {{ add?: boolean }} [options]
   * @returns {void}
   */
  product(a, b, c, { add = false } = {}) {
    const places = [a, b, c].flatMap(({ at, step }) => [4 * at, 4 * step]);
    this.run.product(...places, a.rows, b.columns, a.columns, Number(add));
  }

  /**
   * `c = a b^T + bias`, or added to c; rows and columns of b are multiples of four.
   * @param {Matrix} a (m, k)
   * @param {Matrix} b (n, k), as a linear map has its weight
   * @param {Matrix} c (m, n), with room for rows up to the next multiple of four
   * @param {{ bias?: number, add?: boolean }} [options] bias: where n numbers lie; 0 is none
   * @returns {void}
   */
  productTransposed(a, b, c, { bias = 0, add = false } = {}) {
    const places = [a, b, c].flatMap(({ at, step }) => [4 * at, 4 * step]);
    this.run.product_transposed(...places, a.rows, fours(b.rows), a.columns, 4 * bias, Number(add));
  }
}

/** Matrices that are given back together: those of one tape, or of one job. */
export class Holder {
  /** @param {Kernel} kernel */
  constructor(kernel) {
    this.kernel = kernel;
    /** @type {number[]} */
    this.places = [];
  }

  /**
   * A matrix with room for the rows of the last tile.
   * @param {number} rows
   * @param {number} columns
   * @returns {Matrix}
   */
  matrix(rows, columns) {
    const at = this.kernel.allocate((fours(rows) + 4) * columns);
    this.places.push(at);
    return { at, rows, columns, step: columns };
  }

  /** Give all of them back. */
  release() {
    for (const at of this.places.splice(0)) this.kernel.release(at);
  }
}
