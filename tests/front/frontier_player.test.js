// FrontierPlayer: the map at a step, what passes buy, and where they lie in the picture.
import assert from "node:assert/strict";
import { load } from "./load.js";

const { compared, inWords, pathThrough, scoresAt } = await load(
  "frontier_player",
);

const NONE = { all: [null, null, null, null], "no-special": [null, null, null, null] };
const TEXT = {
  tokens: ["a", "b", "c"],
  special: [false, false, false],
  label: "positive",
  loo: [1, 2, 3],
  forwards: 4,
  ways: {
    hybrid: {
      order: [2, 0, 1],
      exact: [0, 1, 2, 3],
      rest: [[10, 20, 30], null, null, 0],
      passes: [[1, 1], [2, 1], [3, 1], [4, 1]],
      r: { all: [-0.3, 0.5, 0.9, 1], "no-special": [0.1, 0.5, 0.9, 1] },
      error: { all: [2, 1, 0.5, 0], "no-special": [2, 1, 0.5, 0] },
    },
    random: {
      order: [1, 2, 0],
      exact: [0, 1, 2, 3],
      rest: [0, 7, null, 0],
      passes: [[0, 0], [1, 0], [2, 0], [3, 0]],
      r: { ...NONE, all: [null, 0.2, null, 1] },
      error: NONE,
    },
  },
};

Deno.test("a map has LOO where it is exact, and what the way says of the others", () => {
  assert.deepEqual(scoresAt(TEXT, "hybrid", 0).scores, [10, 20, 30]);
  assert.deepEqual(scoresAt(TEXT, "hybrid", 2), { exact: new Set([2, 0]), scores: [1, 20, 3] });
  assert.deepEqual(scoresAt(TEXT, "hybrid", 3).scores, TEXT.loo);
});

Deno.test("a step that changes nothing of the others has what the step before has", () => {
  assert.deepEqual(scoresAt(TEXT, "random", 1).scores, [7, 2, 7]);
  assert.deepEqual(scoresAt(TEXT, "random", 2).scores, [7, 2, 3]);
});

Deno.test("what a budget buys is the last step that it pays for", () => {
  const ways = { hybrid: { label: "Hybrid" }, random: { label: "Random" } };
  const at = (/** @type {string} */ way, /** @type {number} */ step) =>
    compared(ways, { text: TEXT, way, tokens: "no-special", step }).split(": ")[1];
  assert.equal(at("random", 1), "Hybrid takes more; Random r undefined, error undefined.");
  assert.equal(at("random", 3), "Hybrid r 0.50, error 1.00; Random r undefined, error undefined.");
  assert.match(at("hybrid", 3), /^Hybrid r 1\.00, error 0\.00;/);
});

Deno.test("an undefined r is said, not shown as a number", () => {
  const view = { text: TEXT, way: "random", tokens: "all", step: 0 };
  const words = "r with LOO on words and special tokens undefined. LOO itself takes 4 forward passes.";
  assert.equal(inWords(view), `0 forward passes: ${words}`);
  assert.match(
    inWords({ ...view, way: "hybrid", tokens: "no-special", step: 1 }),
    /: r with LOO 0\.50; 1 token has LOO's own value \(dots\)\. /,
  );
});

Deno.test("an undefined point breaks the line", () => {
  assert.equal(pathThrough([[0, 1], [1, 2], [2, null], [3, 4], [4, 5]]), "M0.0 1.0L1.0 2.0M3.0 4.0L4.0 5.0");
  assert.equal(pathThrough([[0, null], [1, null]]), "");
});
