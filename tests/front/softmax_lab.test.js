// SoftmaxLab: one attention read-out, its rules against LOO, and the scale of the bars.
import assert from "node:assert/strict";
import { load, modelOf, randomFrom } from "./load.js";

const {
  accept,
  agreement,
  barBetween,
  ceiling,
  inputsOf,
  limitOf,
  softmaxStep,
  sum,
  sumOfOthers,
  withoutNoise,
} = await load("softmax_lab");

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

/**
 * The output by the formula, over the tokens that are kept.
 * @param {number[]} logits
 * @param {number[]} values
 * @param {number} [without]
 * @returns {number}
 */
function output(logits, values, without) {
  const weights = logits.map((z, i) => (i === without ? 0 : Math.exp(z)));
  return sum(weights.map((weight, i) => weight * values[i])) / sum(weights);
}

Deno.test("LOO is the change of the output when a token is masked (toys/softmax_step.py: loo)", () => {
  for (const { logits, values } of steps()) {
    const result = softmaxStep(logits, values);
    assert.ok(Math.abs(sum(result.attention) - 1) < 1e-12);
    assert.ok(Math.abs(result.output - output(logits, values)) < 1e-12);
    result.loo.forEach((/** @type {number} */ x, /** @type {number} */ i) => {
      assert.ok(Math.abs(x - (output(logits, values) - output(logits, values, i))) < 1e-9);
    });
  }
});

Deno.test("AttnLRP is half of CP-LRP and half of z·A·(v − o), by the formula", () => {
  for (const { logits, values } of steps()) {
    const { attention, output, cp, value, logit, attnlrp } = softmaxStep(logits, values);
    logits.forEach((z, i) => {
      const a = attention[i], v = values[i];
      assert.ok(Math.abs(cp[i] - a * v) < 1e-12 && value[i] === cp[i] / 2);
      assert.ok(Math.abs(logit[i] - (z * a * (v - output)) / 2) < 1e-12);
      assert.ok(Math.abs(attnlrp[i] - value[i] - logit[i]) < 1e-12);
    });
  }
});

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

Deno.test("r and error of a map against LOO", () => {
  assert.deepEqual(agreement([3, 4, 0], [3, 4, 0]), { r: 1, error: 0 });
  const { r, error } = agreement([0, 0, 0], [3, 4, 0]);
  assert.ok(Number.isNaN(r) && error === 1);
});

Deno.test("the sum of the others holds where one is nearly all", () => {
  assert.equal(sumOfOthers([1e20, 1, 2], 0), 3);
  assert.equal(sumOfOthers([5], 0), 0);
});

Deno.test("the scale ends at 1, 2 or 5 times a power of ten, and never below the largest", () => {
  assert.deepEqual([0, 1, 1.01, 2, 3, 5.1, 47, 0.3, 0.021].map(ceiling), [1, 1, 2, 2, 5, 10, 50, 0.5, 0.05]);
  const random = randomFrom(5);
  for (let k = 0; k < 300; k++) {
    const x = 10 ** (6 * random() - 4), end = ceiling(x);
    assert.ok(end >= x && end <= 2.5 * x * (1 + 1e-12), `${x} ${end}`);
  }
});

Deno.test("every bar and both ends of the stack fit on the scale", () => {
  for (const { logits, values } of steps()) {
    const result = softmaxStep(logits, values), limit = limitOf(result);
    for (const key of ["loo", "cp", "value", "attnlrp"]) {
      for (const x of result[key]) assert.ok(Math.abs(x) <= limit);
    }
    result.value.forEach((/** @type {number} */ x, /** @type {number} */ i) => {
      const ends = x * result.logit[i] > 0 ? x + result.logit[i] : result.logit[i];
      assert.ok(Math.abs(ends) <= limit);
    });
  }
});

Deno.test("a bar stands on its lower end, or hangs from its upper one", () => {
  assert.deepEqual(barBetween(0, 1, 2), { top: "", bottom: "50%", height: "25%" });
  assert.deepEqual(barBetween(0, -1, 2), { top: "50%", bottom: "", height: "25%" });
  assert.deepEqual(barBetween(-2, -1, 2), { top: "75%", bottom: "", height: "25%" });
  assert.deepEqual(barBetween(1, 2, 2), { top: "", bottom: "75%", height: "25%" });
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

Deno.test("the address can only say what there is", () => {
  const model = modelOf({ data: { limits: { logits: 8, values: 2 } } });
  assert.ok(accept("logits", [8, -8, 0], model) && accept("values", [0, 0, 0, 0, 0, 2], model));
  for (const bad of [[0, 0], [0, 0, 0, 0, 0, 0, 0], [9, 0, 0]]) assert.ok(!accept("logits", bad, model));
  assert.ok(!accept("values", [3, 0, 0], model));
});
