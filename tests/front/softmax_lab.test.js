// SoftmaxLab: one attention read-out, its rules against LOO, and the scale of the bars.
import assert from "node:assert/strict";
import { load, modelOf, randomFrom } from "./load.js";

const { agreement, inputsOf, softmaxStep, sumOfOthers, withoutNoise } = await load("softmax_lab");

/**
 * Random steps of 3 to 6 tokens.
 * @returns {{ logits: number[], values: number[] }[]}
 */
function steps() {
  const random = randomFrom(4);
  return Array.from({ length: 50 }, (_, k) => {
    const list = (/** @type {number} */ limit) =>
      Array.from({ length: 3 + k % 4 }, () => limit * (2 * random() - 1));
    return { logits: list(8), values: list(2) };
  });
}

Deno.test("a shift of all logits changes the part at the logit alone", () => {
  for (const { logits, values } of steps()) {
    const before = softmaxStep(logits, values), after = softmaxStep(logits.map((z) => z + 3), values);
    for (const key of ["attention", "loo", "cp", "value"]) {
      before[key].forEach((/** @type {number} */ x, /** @type {number} */ i) => {
        assert.ok(Math.abs(x - after[key][i]) < 1e-12, key);
      });
    }
    assert.ok(
      before.logit.some((/** @type {number} */ x, /** @type {number} */ i) =>
        Math.abs(x - after.logit[i]) > 1e-9
      ),
    );
  }
});

Deno.test("equal values leave a LOO of exactly 0, and nothing to correlate with", () => {
  const { loo, cp } = softmaxStep([2.3, -1.1, 0.7, 5], [0.3, 0.3, 0.3, 0.3]);
  assert.deepEqual(loo.map(Math.abs), [0, 0, 0, 0]);
  assert.deepEqual(agreement(cp, loo), { r: NaN, error: NaN });
});

Deno.test("the sum of the others holds where one is nearly all", () => {
  assert.equal(sumOfOthers([1e20, 1, 2], 0), 3);
  assert.equal(sumOfOthers([5], 0), 0);
});

Deno.test("ten times 0.1 is 1, in the address too", () => {
  let x = 0.1;
  for (let k = 0; k < 20; k++) x = withoutNoise(x + 1);
  assert.equal(String(x), "20.1");
});

Deno.test("lists of two lengths are cut to the shorter", () => {
  assert.deepEqual(inputsOf(modelOf({ logits: [1, 2, 3, 4], values: [5, 6, 7] })), {
    logits: [1, 2, 3],
    values: [5, 6, 7],
  });
});
