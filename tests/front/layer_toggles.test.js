// LayerToggles: masks, their scores and r as they are carried, mixtures of masks, and what is said of them.
import assert from "node:assert/strict";
import { load, modelOf, packed, randomFrom } from "./load.js";

const {
  above,
  accept,
  agreements,
  bestMask,
  corner,
  inWords,
  maskOf,
  mixture,
  range,
  rankInWords,
  unpack,
} = await load("layer_toggles");

const LAYERS = 3, WIDTH = 4;

/**
 * A sentence's scores under all masks, as Python packs them.
 * @returns {{ steps: Int8Array, scale: Float32Array }}
 */
function madeTable() {
  const random = randomFrom(3);
  const steps = Int8Array.from({ length: 2 ** LAYERS * WIDTH }, () => Math.round(254 * random() - 127));
  return { steps, scale: Float32Array.from({ length: 2 ** LAYERS }, () => 0.5 + random()) };
}

/**
 * @param {number[]} a
 * @param {number[]} b
 * @param {number} tolerance
 * @returns {void}
 */
function close(a, b, tolerance) {
  assert.equal(a.length, b.length);
  a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) <= tolerance, `${a} against ${b}`));
}

Deno.test("layer 1 is the lowest bit of a mask", () => {
  assert.deepEqual([[], [1], [2], [3], [1, 3], [1, 2, 3]].map(maskOf), [0, 1, 2, 4, 5, 7]);
});

Deno.test("a range has both ends, and is empty where they are the wrong way round", () => {
  assert.deepEqual(range(2, 4), [2, 3, 4]);
  assert.deepEqual(range(2, 1), []);
});

Deno.test("half-open layers give each mask's scores at 0 and 1", () => {
  const table = madeTable();
  for (let mask = 0; mask < 2 ** LAYERS; mask++) {
    const amounts = range(1, LAYERS).map((/** @type {number} */ layer) => mask >> (layer - 1) & 1);
    close(mixture(table, amounts, WIDTH), corner(table, mask, WIDTH), 1e-6);
  }
});

Deno.test("half-open layers give the sum over all masks by their weights (schema.py: mix)", () => {
  const table = madeTable(), amounts = [0.25, 0.7, 0.05], expected = Array(WIDTH).fill(0);
  for (let mask = 0; mask < 2 ** LAYERS; mask++) {
    const weight = amounts.reduce((product, amount, i) => product * (mask >> i & 1 ? amount : 1 - amount), 1);
    corner(table, mask, WIDTH).forEach((/** @type {number} */ score, /** @type {number} */ i) => {
      expected[i] += weight * score;
    });
  }
  close(mixture(table, amounts, WIDTH), expected, 1e-6);
  close(mixture(table, amounts, WIDTH), expected, 1e-6); // the table is not spent by the first time
});

Deno.test("r comes in 32767 steps; a step below all others stands for none", () => {
  const { all, sorted, bins, low, high } = agreements(packed(Int16Array.of(32767, -32768, -16384, 0)));
  assert.deepEqual([...all], [1, NaN, -16384 / 32767, 0]);
  assert.deepEqual([...sorted], [-16384 / 32767, 0, 1]);
  assert.deepEqual([low, high], [-0.6, 1]);
  assert.equal(bins.reduce((/** @type {number} */ sum, /** @type {number} */ n) => sum + n), 3);
  assert.deepEqual([bins.length, bins[39]], [40, 1], "the largest r is in the last bin");
});

Deno.test("a sentence is unpacked once", () => {
  const { steps, scale } = madeTable(), r = packed(Int16Array.from({ length: 8 }, (_, mask) => 100 * mask));
  const sentence = { sites: { word: { scores: packed(steps), scale: packed(scale), r: { all: r } } } };
  const table = unpack(sentence, "word");
  assert.deepEqual([table.steps, table.scale], [steps, scale]);
  assert.equal(table.r.all.all[3], 300 / 32767);
  assert.equal(unpack(sentence, "word"), table);
});

Deno.test("a rank counts the masks above, and a half step is no difference", () => {
  const sorted = Float64Array.of(-0.5, 0, 0.25, 0.25, 0.75);
  assert.deepEqual([-1, -0.5, 0.1, 0.25, 0.75, 2].map((value) => above(sorted, value)), [5, 4, 3, 1, 0, 0]);
  assert.equal(above(sorted, 0.25 - 1e-12), 1);
});

Deno.test("the best mask has the largest r, wherever undefined ones stand", () => {
  assert.equal(bestMask([0.1, 0.7, 0.3]), 1);
  assert.equal(bestMask([NaN, -0.2, NaN, 0.4, NaN]), 3);
  assert.equal(bestMask([0.5, 0.5]), 0, "the first of equals");
});

Deno.test("layers in words: both methods by name, neighbours as a range", () => {
  assert.equal(inWords([], 4), "no layer bypassed, which is AttnLRP");
  assert.equal(inWords([1, 2, 3, 4], 4), "all layers bypassed, which is CP-LRP");
  assert.equal(inWords([1, 2, 3, 6, 8, 9], 12), "bypassed: 1 to 3, 6, 8, 9");
});

Deno.test("ranks in words", () => {
  assert.equal(rankInWords(0.5, 12, 4096, false), "rank 12 of 4,096");
  assert.equal(rankInWords(0.5, 1200, 4096, true), "would rank 1,200 among the 4,096 masks");
  assert.equal(rankInWords(NaN, 1, 8, false), "no rank");
});

Deno.test("the address can only say what there is", () => {
  const model = modelOf({ data: { layers: 3, sites: ["word"], sentences: [{}, {}] } });
  const good = {
    sentence: 1,
    mode: "half-open",
    bypassed: [3, 1],
    amounts: [0, 0.5, 1],
    site: "word",
    tokens: "all",
  };
  for (const [key, value] of Object.entries(good)) assert.ok(accept(key, value, model), key);
  /** @type {[string, unknown][]} */
  const bad = [
    ["sentence", 2],
    ["sentence", 0.5],
    ["mode", "toString"],
    ["bypassed", [4]],
    ["bypassed", [0]],
    ["bypassed", [1, 1]],
    ["amounts", [0, 1]],
    ["amounts", [0, 0, 1.1]],
    ["site", "embedding"],
    ["tokens", "some"],
  ];
  for (const [key, value] of bad) assert.ok(!accept(key, value, model), `${key} ${value}`);
});
