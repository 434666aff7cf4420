// PerturbationPlayer: what is gone at a step, and where the curves lie.
import assert from "node:assert/strict";
import { load, modelOf } from "./load.js";

const { accept, axesOf, curveAt, removedBy } = await load("perturbation_player");

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

Deno.test("every point of both curves lies in the picture, with room above and below", () => {
  const lines = [
    { name: "a", logits: CURVE.logits, removed: [0, 1, 3, 4] },
    { name: "b", logits: [2, 3.5], removed: [0, 6] },
  ];
  const { x, y, rows, columns } = axesOf(lines);
  assert.deepEqual([x(0), x(6)], [44, 230]);
  assert.ok(y(3.5) > 22 && y(-1.25) < 158 && y(3.5) < y(-1.25));
  assert.equal(rows.ticks.join(), "0,2");
  assert.equal(columns.ticks.join(), "0,2,4,6");
});

Deno.test("a curve without any change still has a height", () => {
  const { y } = axesOf([{ name: "flat", logits: [1, 1], removed: [0, 0] }]);
  assert.equal(y(1), 90, "in the middle");
});

Deno.test("the address can only say what there is", () => {
  const text = { methods: { loo: { morf: CURVE, lerf: { ...CURVE, steps: [[1], [2], [3], [4]] } } } };
  const model = modelOf({ data: { methods: { loo: "LOO" }, texts: [text] } });
  for (
    const [key, value] of [["text", 0], ["step", 4], ["order", "lerf"], ["left", "loo"], ["right", "loo"]]
  ) {
    assert.ok(accept(key, value, model), `${key}`);
  }
  for (
    const [key, value] of [["text", 1], ["step", 5], ["order", "lef"], ["left", "toString"], ["right", ""]]
  ) {
    assert.ok(!accept(key, value, model), `${key} ${value}`);
  }
});
