// PerturbationPlayer: what is gone at a step, and where the curves lie.
import assert from "node:assert/strict";
import { load } from "./load.js";

const { curveAt, removedBy } = await load("perturbation_player");

const CURVE = { steps: [[3], [1, 2], [4]], logits: [2, 1.5, -1, -1.25], mean: 0 };

Deno.test("counts of removed tokens grow by what goes at each step", () => {
  assert.deepEqual(removedBy(CURVE.steps), [0, 1, 3, 4]);
  assert.deepEqual(removedBy([]), [0]);
});

Deno.test("what is gone, what goes next, and the logit between", () => {
  assert.deepEqual(curveAt(CURVE, 0), { gone: [], next: [3], logit: 2 });
  assert.deepEqual(curveAt(CURVE, 2), { gone: [3, 1, 2], next: [4], logit: -1 });
  assert.deepEqual(curveAt(CURVE, 3), { gone: [3, 1, 2, 4], next: [], logit: -1.25 });
});

Deno.test("a curve that is shorter than the other stays at its end", () => {
  assert.deepEqual(curveAt(CURVE, 9), curveAt(CURVE, 3));
});
