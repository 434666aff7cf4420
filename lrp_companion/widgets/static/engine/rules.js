// The relevance rules of `lrp_companion/rules.py` at epsilon 0, on the kernel's matrices; sources are there.
//
// What goes backward is g = R / a. Each rule is linear in g. `add` has no function: both summands receive g.
// The gradient of the model itself differs in three places: no halves, LayerNorm with its own derivative, and
// the derivative of an activation in place of phi(z) / z.

/** @typedef {import("./kernel.js").Kernel} Kernel */
/** @typedef {import("./kernel.js").Matrix} Matrix */

/**
 * Epsilon rule for `z = x W^T + b`, Eq. (1): `g_x = g_z W`; the bias keeps its share.
 * @param {Kernel} kernel
 * @param {Matrix} g (T, out)
 * @param {Matrix} weight (out, in)
 * @param {Matrix} out (T, in)
 * @param {{ add?: boolean }} [options] add to what `out` holds
 * @returns {void}
 */
export function linear(kernel, g, weight, out, options) {
  kernel.product(g, weight, out, options);
}

/**
 * Uniform rule for `o = a b`, Eq. (3) and (4), without the halves: `g_a = g_o b^T`. The caller has `share`.
 * @param {Kernel} kernel
 * @param {Matrix} g (n, m)
 * @param {Matrix} b (k, m)
 * @param {Matrix} out (n, k)
 * @returns {void}
 */
export function matmulLeft(kernel, g, b, out) {
  kernel.productTransposed(g, b, out);
}

/**
 * Uniform rule for `o = a b`, Eq. (3) and (4), without the halves: `g_b = a^T g_o`. CP-LRP's rule for
 * attention that is held constant is this one, with a share of 1 (Ali et al. 2022).
 * @param {Kernel} kernel
 * @param {Matrix} transposed a^T (k, n)
 * @param {Matrix} g (n, m)
 * @param {Matrix} out (k, m)
 * @returns {void}
 */
export function matmulRight(kernel, transposed, g, out) {
  kernel.product(transposed, g, out);
}

/**
 * The part of relevance that a factor receives: multiplies g in place.
 * @param {Kernel} kernel
 * @param {Matrix} g
 * @param {number} factor
 * @returns {void}
 */
export function share(kernel, g, factor) {
  const f = kernel.floats, end = g.at + g.rows * g.step;
  for (let i = g.at; i < end; i++) f[i] *= factor;
}

/**
 * Taylor rule for `a = softmax(z)`, Eq. (5): `g_z = a (g_a - sum_i a_i g_a_i)`, in place of g.
 * @param {Kernel} kernel
 * @param {Matrix} g (T, T)
 * @param {Matrix} a (T, T)
 * @param {Float64Array} [byKey] where the columns of the result are summed, for the gradient of a soft mask
 * @returns {void}
 */
export function softmax(kernel, g, a, byKey) {
  const f = kernel.floats;
  for (let row = 0; row < g.rows; row++) {
    const from = g.at + row * g.step, weights = a.at + row * a.step;
    let mean = 0;
    for (let i = 0; i < g.columns; i++) mean += f[weights + i] * f[from + i];
    for (let i = 0; i < g.columns; i++) {
      const score = f[weights + i] * (f[from + i] - mean);
      f[from + i] = score;
      if (byKey) byKey[i] += score;
    }
  }
}

/**
 * Rule for LayerNorm with its standard deviation held constant: `h = gamma g_y / sd`, `g_x = h - mean(h)`
 * (Ali et al. 2022). With `x`, its own derivative: the way through the standard deviation is subtracted, too.
 * @param {Kernel} kernel
 * @param {Matrix} g (T, n), changed in place
 * @param {number} gamma where n numbers lie
 * @param {Float64Array} sd (T)
 * @param {{ x: Matrix, mean: Float64Array }} [whole] the LayerNorm's input and its mean, for the gradient
 * @returns {void}
 */
export function layerNorm(kernel, g, gamma, sd, whole) {
  const f = kernel.floats, n = g.columns;
  for (let row = 0; row < g.rows; row++) {
    const from = g.at + row * g.step, at = whole ? whole.x.at + row * whole.x.step : 0;
    const shift = whole ? whole.mean[row] : 0;
    let sum = 0, along = 0;
    for (let i = 0; i < n; i++) {
      const h = f[from + i] * f[gamma + i] / sd[row];
      f[from + i] = h;
      sum += h;
      if (whole) along += h * (f[at + i] - shift);
    }
    const slope = along / (n * sd[row] * sd[row]);
    for (let i = 0; i < n; i++) {
      f[from + i] -= sum / n + (whole ? slope * (f[at + i] - shift) : 0);
    }
  }
}

/**
 * Identity rule for an activation function: `R_z = R_y`, so `g_z = g_y phi(z) / z`, in place of g.
 * @param {Kernel} kernel
 * @param {Matrix} g (T, n)
 * @param {Matrix} slope (T, n), `phi(z) / z`
 * @returns {void}
 */
export function elementwise(kernel, g, slope) {
  const f = kernel.floats, count = g.rows * g.step;
  for (let i = 0; i < count; i++) f[g.at + i] *= f[slope.at + i];
}
