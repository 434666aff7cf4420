// LayerFlow: what colours are measured by, and where two methods differ.
import assert from "node:assert/strict";
import { load } from "./load.js";

const { differing, scaleAt } = await load("layer_flow");

const TEXT = {
  tokens: ["[CLS]", "a", "b", "[SEP]"],
  scores: [[[1, 0, 0, 0], [0.5, -2, 0.5, 0]], [[1, 0, 0, 0], [0.5, 1, 2, 0]]],
};

Deno.test("a level has one scale for both methods", () => {
  assert.equal(scaleAt(TEXT, 0), 1);
  assert.equal(scaleAt(TEXT, 1), 2);
  assert.equal(scaleAt({ scores: [[[0, 0]], [[0, 0]]] }, 0), 1, "nothing is divided by zero");
});

Deno.test("tokens that differ by half of the most are marked, the most first", () => {
  assert.deepEqual(differing(TEXT, 1), [1, 2]);
  assert.deepEqual(differing(TEXT, 0), [], "none where the methods are the same");
});
