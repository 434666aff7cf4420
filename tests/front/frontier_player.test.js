// FrontierPlayer: the map at a step, what passes buy, and where they lie in the picture.
import assert from "node:assert/strict";
import { load, modelOf } from "./load.js";

const { accept, axesOf, compared, fallOfGroups, inWords, passesInWords, pathThrough, scoresAt } = await load(
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

Deno.test("passes in words", () => {
  assert.equal(passesInWords([1, 0]), "1 forward pass");
  assert.equal(passesInWords([0, 0]), "0 forward passes");
  assert.equal(passesInWords([5, 5]), "5 forward and 5 backward passes");
  assert.equal(passesInWords([1, 1]), "1 forward and 1 backward pass");
  assert.equal(passesInWords([5, 1]), "5 forward and 1 backward pass");
  assert.equal(passesInWords([2, 3]), "2 forward and 3 backward passes");
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

Deno.test("the picture holds the way in force from 0 on, and what LOO costs", () => {
  const { x, y, rungs, marks } = axesOf({ text: TEXT, way: "hybrid", tokens: "all", step: 0 });
  assert.deepEqual(rungs, [-0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(marks, [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([x(0), x(5), y(-0.5), y(1)], [36, 304, 160, 24]);
  const random = axesOf({ text: TEXT, way: "random", tokens: "all", step: 0 });
  assert.deepEqual([random.rungs[0], random.marks.at(-1)], [0, 4]);
});

Deno.test("a fall by groups is told by the word that is furthest off and what fades with it", () => {
  const none = { order: [], exact: [0, 0, 0, 0, 0], passes: [] };
  const rest = [[1, 0, 0, 2], [1, 0, 0, 2], [1, 0, 0, 1.9], [1, 0, 0, 0], [1, 0, 0, 2]];
  const groups = { ...none, rest, r: { all: [0.9, 0.9, 0.9, 0.2, 1] }, error: {} };
  const text = { tokens: ["a", "b", "c", "d"], special: [], loo: [1, 0, 0, 2], ways: { groups } };
  const view = { text, way: "groups", tokens: "all", step: 0 };
  assert.deepEqual(fallOfGroups(view), { word: 3, mates: [0], groups: [3] });
  groups.r.all[3] = 0.85;
  assert.equal(fallOfGroups(view), null);
});

Deno.test("marks of passes stay a few, however many passes there are", () => {
  const passes = TEXT.ways.random.passes.map(([forwards]) => [100 * forwards, 0]);
  const ways = { random: { ...TEXT.ways.random, passes } };
  const view = { text: { ...TEXT, ways }, way: "random", tokens: "all", step: 0 };
  assert.deepEqual(axesOf(view).marks, [0, 50, 100, 150, 200, 250, 300]);
});

Deno.test("an undefined point breaks the line", () => {
  assert.equal(pathThrough([[0, 1], [1, 2], [2, null], [3, 4], [4, 5]]), "M0.0 1.0L1.0 2.0M3.0 4.0L4.0 5.0");
  assert.equal(pathThrough([[0, null], [1, null]]), "");
});

Deno.test("the address can only say what there is", () => {
  const longer = { ...TEXT, tokens: ["a", "b", "c", "d"] };
  const model = modelOf({ data: { ways: { hybrid: {} }, texts: [TEXT, longer] } });
  for (const [key, value] of [["text", 1], ["way", "hybrid"], ["tokens", "all"], ["step", 4]]) {
    assert.ok(accept(key, value, model), `${key}`);
  }
  for (const [key, value] of [["text", 2], ["way", "toString"], ["tokens", ""], ["step", 5], ["step", -1]]) {
    assert.ok(!accept(key, value, model), `${key} ${value}`);
  }
});
