// HeadStepper: the primer's numbers, and which bands are drawn at which step.
import assert from "node:assert/strict";
import { load } from "./load.js";

const { bandsOf, headOf } = await load("head_stepper");

const HEAD = headOf(Math.log(2), [1, 1, 2], [2, -6, 8]);
/** @param {number[]} x @param {number[]} y */
const near = (x, y) => assert.ok(x.every((value, i) => Math.abs(value - y[i]) < 5e-5), `${x} is not ${y}`);

/** @param {{ amount: number }[]} bands */
const amounts = (bands) => bands.map(({ amount }) => amount);

Deno.test("the example of the primer", () => {
  near(HEAD.a, [0.25, 0.25, 0.5]);
  near(HEAD.atScore, [-0.0866, -0.7798, 1.7329]);
  near(HEAD.attnlrp, [0.6399, -1.1399, 2.8664]);
  near(HEAD.cp, [0.5, -1.5, 4]);
  near(HEAD.loo, [-1 / 3, -3, 5]);
});

Deno.test("each step of AttnLRP adds its bands, and they carry what the parts hold", () => {
  const counts = [0, 1, 2, 3, 4].map((step) => bandsOf(HEAD, "attnlrp", step).length);
  assert.deepEqual(counts, [0, 6, 9, 15, 15]);
  const first = amounts(bandsOf(HEAD, "attnlrp", 1));
  near([first[0] + first[1] + first[2] + first[3] + first[4] + first[5]], [HEAD.o]);
});

Deno.test("CP-LRP sends all to the values", () => {
  for (const step of [1, 2, 3, 4]) assert.equal(bandsOf(HEAD, "cp-lrp", step).length, 3);
  near(amounts(bandsOf(HEAD, "cp-lrp", 1)), HEAD.cp);
});
