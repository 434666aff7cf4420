// SharesSimplex: shares and places of the triangle, maps and r over it.
import assert from "node:assert/strict";
import { load, randomFrom } from "./load.js";

const { mix, nearest, placeOf, pearson, rOver, sharesAt, shownAs, sum, withShare } = await load(
  "shares_simplex",
);

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
