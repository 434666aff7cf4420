// SharesSimplex: shares and places of the triangle, maps and r over it.
import assert from "node:assert/strict";
import { load, modelOf, randomFrom } from "./load.js";

const {
  aboutMap,
  accept,
  drawField,
  gapBetweenLevels,
  gapOf,
  grid,
  heights,
  inWords,
  mix,
  nearest,
  pearson,
  placeOf,
  rOver,
  sharesAt,
  shownAs,
  sum,
  turnInWords,
  withShare,
} = await load("shares_simplex");

const random = randomFrom(6);

/**
 * Random shares.
 * @returns {number[]}
 */
function someShares() {
  const [a, b] = [random(), random()].sort();
  return [a, b - a, 1 - b];
}

/**
 * @param {number[]} shares
 * @returns {void}
 */
function assertShares(shares) {
  assert.ok(shares.length === 3 && shares.every((share) => share >= 0), `${shares}`);
  assert.ok(Math.abs(sum(shares) - 1) < 1e-9, `${shares}`);
}

Deno.test("the nearest shares of a point: none among many random ones is nearer", () => {
  for (let k = 0; k < 60; k++) {
    const point = [4 * random() - 2, 4 * random() - 2, 4 * random() - 2], shares = nearest(point);
    const distance = (/** @type {number[]} */ other) => Math.hypot(...other.map((x, i) => x - point[i]));
    assertShares(shares);
    for (let n = 0; n < 300; n++) assert.ok(distance(someShares()) > distance(shares) - 2e-4);
  }
});

Deno.test("shares stay where they are, to four decimals", () => {
  assert.deepEqual(nearest([0.25, 0.25, 0.5]), [0.25, 0.25, 0.5]);
  assert.deepEqual(nearest([1 / 3, 1 / 3, 1 / 3]), [0.3333, 0.3333, 0.3334]);
});

Deno.test("a place in the picture leads to its shares, and one outside to the nearest", () => {
  for (let k = 0; k < 100; k++) {
    const shares = someShares(), back = sharesAt(...placeOf(shares));
    shares.forEach((share, i) => assert.ok(Math.abs(share - back[i]) < 1.5e-4));
  }
  assert.deepEqual(sharesAt(-1000, 1000), [0, 0, 1], "beyond the corner of the values");
  assertShares(sharesAt(170, -500));
});

Deno.test("a share that is set trades with the others as its label says", () => {
  assert.deepEqual(withShare([0.25, 0.25, 0.5], 0, 0.5), [0.5, 0.25, 0.25], "queries with values");
  assert.deepEqual(
    withShare([0.25, 0.25, 0.5], 1, 1),
    [0, 1, 0],
    "keys take from queries once values are gone",
  );
  const [queries, keys, values] = withShare([0.3, 0.1, 0.6], 2, 0.2);
  assert.ok(values === 0.2 && Math.abs(queries / keys - 3) < 1e-9, "values with both, in their proportion");
  assert.deepEqual(withShare([0, 0, 1], 2, 0.5), [0.25, 0.25, 0.5]);
  for (let k = 0; k < 200; k++) {
    const x = random(), i = k % 3, shares = withShare(someShares(), i, x);
    assertShares(shares);
    assert.equal(shares[i], x);
  }
});

/**
 * Maps of queries, keys and values, and LOO, as random numbers.
 * @returns {{ maps: number[][], loo: number[] }}
 */
function someMaps() {
  const map = () => Array.from({ length: 16 }, () => random() - 0.4);
  return { maps: [map(), map(), map()], loo: map() };
}

Deno.test("r over the triangle is Pearson's r of the mixed maps, raw and over their sums", () => {
  for (let k = 0; k < 40; k++) {
    const { maps, loo } = someMaps(), shares = someShares(), map = mix(maps, shares);
    for (const kind of ["raw", "sum-to-one"]) {
      const expected = pearson(shownAs(map, kind), shownAs(loo, kind));
      assert.ok(Math.abs(rOver(maps, loo, kind !== "raw")(shares) - expected) < 1e-9, kind);
    }
  }
});

Deno.test("a map over its sum sums to one; a sum that cancels has no size (metrics: normalise)", () => {
  assert.deepEqual(shownAs([1, 3], "sum-to-one"), [0.25, 0.75]);
  assert.deepEqual(shownAs([-1, -3], "sum-to-one"), [0.25, 0.75]);
  assert.deepEqual(shownAs([1, 3], "raw"), [1, 3]);
  assert.deepEqual(shownAs([1, -1, 1e-9], "sum-to-one"), [NaN, NaN, NaN]);
});

Deno.test("the distance of maps is relative to their mean size (metrics/axioms.py: invariance_gap)", () => {
  assert.equal(gapOf([3, 4], [3, 4]), 0);
  assert.equal(gapOf([3, 4], [-3, -4]), 2);
  assert.equal(gapOf([0, 0], [0, 5]), 2);
  assert.equal(gapOf([0, 0], [0, 0]), 0);
});

const WIDE = 680; // pixels to a row of the picture

/**
 * The pixels that are drawn for r, as grey levels or colours.
 * @param {(shares: number[]) => number} r
 * @param {{ low: number, high: number, gap: number }} scale
 * @returns {{ values: Float32Array, pixel: (i: number) => number[] }}
 */
function drawn(r, scale) {
  const values = heights(r, scale.low, scale.high), data = new Uint8ClampedArray(4 * values.length);
  const pen = { createImageData: () => ({ data }), putImageData() {} };
  drawField({ getContext: () => pen }, values, scale);
  return { values, pixel: (i) => [...data.subarray(4 * i, 4 * i + 4)] };
}

Deno.test("the grid of shares is even and holds the corners", () => {
  const points = grid();
  points.forEach(assertShares);
  assert.equal(points.length, (31 * 32) / 2);
  for (const corner of [[1, 0, 0], [0, 1, 0], [0, 0, 1]]) {
    assert.ok(points.map(String).includes(String(corner)));
  }
});

Deno.test("a pixel has r of the shares at its place, and outside of the triangle none", () => {
  const values = heights((/** @type {number[]} */ [q]) => q, 0, 1);
  for (let n = 0; n < 200; n++) {
    const shares = someShares(), [x, y] = placeOf(shares);
    const value = values[Math.floor(2 * y) * WIDE + Math.floor(2 * x)];
    assert.ok(Number.isNaN(value) ? Math.min(...shares) < 0.01 : Math.abs(value - shares[0]) < 0.01);
  }
  assert.ok(Number.isNaN(values[100 * WIDE + 600]), "beside the triangle");
  const legend = [5, 90, 180].map((x) => values[140 * WIDE + x]);
  legend.forEach((value, i) =>
    assert.ok(Math.abs(value - [5, 90, 180][i] / 192) < 0.01, "the legend's ramp")
  );
});

Deno.test("r darkens in one hue that is no sign's; lines lie at its levels and, thicker, at zero", () => {
  const r = (/** @type {number[]} */ [q]) => q - 0.5,
    { values, pixel } = drawn(r, { low: -0.5, high: 0.5, gap: 0.25 });
  const row = Array.from({ length: WIDE }, (_, x) => 450 * WIDE + x).filter((i) =>
    Number.isFinite(values[i])
  );
  const inked = row.filter((i) => pixel(i)[0] === 27), coloured = row.filter((i) => pixel(i)[0] !== 27);
  for (const i of inked) {
    const away = Math.min(...[-0.25, 0, 0.25].map((level) => Math.abs(values[i] - level)));
    assert.ok(away < 0.012, `${values[i]}`);
  }
  const at = (/** @type {number} */ level) => inked.filter((i) => Math.abs(values[i] - level) < 0.02).length;
  assert.ok(at(0) > at(0.25) && at(0.25) > 0 && at(-0.25) > 0);
  for (const i of coloured) {
    const [red, green, blue] = pixel(i), spread = blue - red;
    assert.ok(red < green && green < blue && blue - green < 20, "a greyish teal");
    assert.ok(spread < 65, "far from the blue of relevance against a class");
  }
  const lights = coloured.sort((a, b) => values[a] - values[b]).map((i) => sum(pixel(i).slice(0, 3)));
  assert.ok(lights.every((light, k) => !k || light <= lights[k - 1] + 1), "the larger r, the darker");
});

Deno.test("the sentence says that every point keeps the logit only where the maps do", () => {
  const digit = { logit: 2 }, measures = { map: [1, 1], r: 0.5, total: 2 };
  const say = (/** @type {object} */ scene, given = measures) =>
    inWords({ digit, kind: "raw", ...scene }, "Flat", given);
  assert.equal(
    say({ conserves: true }),
    "Flat. r with LOO 0.50; the map adds up to the logit, 2.00, as every point does.",
  );
  assert.equal(
    say({ conserves: false }),
    "Flat. r with LOO 0.50; the map adds up to 2.00; the logit is 2.00.",
  );
  assert.match(
    say({ kind: "sum-to-one", conserves: true }),
    /divided by its sum, 2\.00, the map adds up to 1\.$/,
  );
  assert.match(
    say({ kind: "sum-to-one" }, { map: [NaN], r: NaN, total: 0 }),
    /undefined; the sum of the map cancels/,
  );
});

Deno.test("there are at most about a dozen levels", () => {
  assert.deepEqual([0.05, 0.2, 0.5, 1, 2].map((range) => gapBetweenLevels(0, range)), [
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
  ]);
});

Deno.test("what is said of a map: pixels below zero without rounding noise", () => {
  const said = aboutMap("LOO", [1, -0.5, -1e-9, 0]);
  assert.equal(said, "LOO: sum 0.50, largest 1.000, 25 % of the pixels below zero");
});

Deno.test("one negative sum turns r, two leave it", () => {
  assert.equal(turnInWords(false, false), "");
  assert.match(turnInWords(true, false), /^The sum of this map is negative: .* reverses the sign of r\.$/);
  assert.match(turnInWords(false, true), /^The sum of LOO is negative/);
  assert.match(turnInWords(true, true), /twice, so it stays the same\.$/);
});

Deno.test("the address can only say what there is", () => {
  const model = modelOf({ data: { digits: [{}, {}] } });
  for (const [key, value] of [["shares", [0.2, 0.3, 0.5]], ["digit", 1], ["map", "sum-to-one"]]) {
    assert.ok(accept(key, value, model), `${key}`);
  }
  const shares = [[0.5, 0.5], [0.5, 0.6, -0.1], [0.5, 0.5, 0.5]].map((value) => ["shares", value]);
  for (const [key, value] of [...shares, ["digit", 2], ["digit", 0.5], ["map", "toString"]]) {
    assert.ok(!accept(key, value, model), `${key} ${value}`);
  }
});
