// Activation functions y = phi(z): the value, the slope phi(z) / z that the identity rule needs, and phi'(z).

/**
 * `slope` is phi(z) / z, at 0 its limit phi'(0); `derivative` takes z and the slope there.
 * @typedef {{ slope: (z: number) => number, derivative: (z: number, slope: number) => number }} Activation
 */

const REACH = 8, STEPS = 64; // the table of the normal distribution: from -8 to 8, in steps of 1/64

/**
 * The density of the standard normal distribution.
 * @param {number} z
 * @returns {number}
 */
function density(z) {
  return Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI);
}

/**
 * The standard normal distribution for z >= 0, by the series 1/2 + density(z) (z + z^3/3 + z^5/(3 5) + ...).
 * @param {number} z
 * @returns {number}
 */
function distribution(z) {
  let term = z, sum = 0;
  for (let n = 3; term > 1e-18; n += 2) {
    sum += term;
    term *= z * z / n;
  }
  return 0.5 + density(z) * sum;
}

/**
 * Values and derivatives of the normal distribution at the table's points.
 * @returns {{ values: Float64Array, slopes: Float64Array }}
 */
function table() {
  const count = 2 * REACH * STEPS + 1, values = new Float64Array(count), slopes = new Float64Array(count);
  for (let k = 0; k < count; k++) {
    const z = k / STEPS - REACH, upper = distribution(Math.abs(z));
    values[k] = z < 0 ? 1 - upper : upper;
    slopes[k] = density(z) / STEPS;
  }
  return { values, slopes };
}

const NORMAL = table();

/**
 * The standard normal distribution at any z: a cubic between two points of the table, exact to about 1e-10.
 * @param {number} z
 * @returns {number}
 */
export function normal(z) {
  if (!(z > -REACH)) return 0;
  if (z >= REACH) return 1;
  const place = (z + REACH) * STEPS, k = Math.floor(place), t = place - k, s = 1 - t;
  const { values, slopes } = NORMAL;
  return s * s * ((1 + 2 * t) * values[k] + t * slopes[k]) +
    t * t * ((1 + 2 * s) * values[k + 1] - s * slopes[k + 1]);
}

/** @type {{ [name: string]: Activation }} */
export const ACTIVATIONS = {
  gelu: { slope: normal, derivative: (z, slope) => slope + z * density(z) },
  relu: { slope: (z) => (z > 0 ? 1 : 0), derivative: (z) => (z > 0 ? 1 : 0) },
  tanh: {
    slope: (z) => (z === 0 ? 1 : Math.tanh(z) / z),
    derivative: (z, slope) => 1 - (z * slope) ** 2,
  },
};
