// SharesSimplex: shares and places of the triangle, maps and r over it.
import assert from "node:assert/strict";
import { load, modelOf, randomFrom } from "./load.js";

const {
  aboutMap,
  accept,
  cut,
  fieldOf,
  gapBetweenLevels,
  gapOf,
  levelsThrough,
  mix,
  nearest,
  pearson,
  placeOf,
  sharesAt,
  shownAs,
  smallTriangles,
  stepFor,
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
 * The area of a polygon of shares, by its queries and keys.
 * @param {number[][]} corners
 * @returns {number}
 */
function area(corners) {
  const parts = corners.map(([x, y], i) => {
    const [next, above] = corners[(i + 1) % corners.length];
    return (x * above - next * y) / 2;
  });
  return Math.abs(sum(parts));
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

Deno.test("the small triangles fill the large one", () => {
  const triangles = smallTriangles();
  assert.equal(triangles.length, 30 ** 2);
  triangles.flat().forEach(assertShares);
  assert.ok(Math.abs(sum(triangles.map(area)) - area([[1, 0, 0], [0, 1, 0], [0, 0, 1]])) < 1e-9);
});

Deno.test("a triangle that is cut in two keeps its area, each half on its side", () => {
  const corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  for (let k = 0; k < 50; k++) {
    const slope = [random() - 0.5, random() - 0.5, random() - 0.5];
    const height = (/** @type {number[]} */ shares) => sum(shares.map((share, i) => share * slope[i]));
    const above = cut(corners, height),
      below = cut(corners, (/** @type {number[]} */ shares) => -height(shares));
    assert.ok(Math.abs(area(above) + area(below) - 0.5) < 1e-9);
    for (const corner of above) assert.ok(height(corner) > -1e-12);
  }
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

Deno.test("arrow keys move on the triangle, there and back", () => {
  for (const [there, back] of [["ArrowRight", "ArrowLeft"], ["ArrowUp", "ArrowDown"]]) {
    const step = stepFor(there, 0.01), reverse = stepFor(back, 0.01);
    assert.equal(sum(step), 0);
    assert.deepEqual(step.map((/** @type {number} */ x, /** @type {number} */ i) => x + reverse[i]), [
      0,
      0,
      0,
    ]);
  }
  assert.equal(stepFor("Home", 0.01), undefined);
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
      assert.ok(Math.abs(fieldOf(maps, loo, kind !== "raw").r(shares) - expected) < 1e-9, kind);
    }
    assert.ok(Math.abs(fieldOf(maps, loo, true).total(shares) - sum(map)) < 1e-9);
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

Deno.test("levels lie where a linear r has their height", () => {
  const corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], levels = levelsThrough(corners, [0, 0.5, 1], 0.25);
  assert.deepEqual(levels.map((/** @type {any} */ level) => level.height), [0.99, 0.25, 0.5, 0.75, 1]);
  const half = levels.find((/** @type {any} */ level) => level.height === 0.5);
  const expected = [placeOf([0, 1, 0]), placeOf([0.5, 0, 0.5])].flat();
  half.path.match(/[\d.]+/g).forEach((/** @type {string} */ x, /** @type {number} */ i) => {
    assert.ok(Math.abs(Number(x) - expected[i]) < 0.06, half.path);
  });
  assert.deepEqual(levelsThrough(corners, [0, NaN, 1], 0.25), []);
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
  const { short, long } = aboutMap("LOO", [1, -0.5, -1e-9, 0]);
  assert.equal(short, "sum 0.50, 25\u00a0%\u00a0<\u00a00");
  assert.equal(long, "LOO: sum 0.50, largest 1.000, 25 % of the pixels below zero");
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
