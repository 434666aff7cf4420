// The text box under the switches: what the engine computed, as the switches read it.
import assert from "node:assert/strict";
import { load, randomFrom } from "./load.js";

const { everyLevel, everyMask, everyR, inSteps, pearson } = await load("sentence_box");
const { corner } = await load("layer_toggles");
const WIDTH = 5, MASKS = 8;

Deno.test("scores come back from their steps to half a step of the largest", () => {
  const random = randomFrom(5);
  const masks = Float32Array.from({ length: MASKS * WIDTH }, () => 2 * random() - 1);
  masks.fill(0, 3 * WIDTH, 4 * WIDTH);
  const table = inSteps(masks, WIDTH);
  for (let mask = 0; mask < MASKS; mask++) {
    const row = [...masks.subarray(mask * WIDTH, (mask + 1) * WIDTH)];
    const largest = Math.max(...row.map(Math.abs));
    corner(table, mask, WIDTH).forEach((/** @type {number} */ score, /** @type {number} */ i) => {
      assert.ok(Math.abs(score - row[i]) <= largest / 253, `${score} for ${row[i]}`);
    });
  }
});

Deno.test("r of every mask is that of its row", () => {
  const masks = Float32Array.of(1, 2, 3, 9, 3, 1, 2, 9), loo = [1, 2, 3, -5];
  const keep = [true, true, true, false], rows = [[1, 2, 3, 9], [3, 1, 2, 9]];
  assert.deepEqual([...everyR(masks, loo, keep)], rows.map((row) => pearson(row, loo, keep)));
  assert.deepEqual([...everyR(masks, loo, null)], rows.map((row) => pearson(row, loo, null)));
});

Deno.test("a text of two words is refused, since its r is always 1 or -1", async () => {
  const masks = () =>
    Promise.resolve({
      masks: Float32Array.of(0, 1, 2, 0),
      loo: [0, 1, 2, 0],
      special: [true, false, false, true],
    });
  const watch = { signal: new AbortController().signal, progress: () => {} };
  await assert.rejects(
    everyMask({ masks }, "not bad", { sites: ["word"] }, ["a", "b"], watch),
    /three tokens/,
  );
});

Deno.test("levels of another model are refused, and those of this one are a text of the grids", async () => {
  const flow = {
    levels: ["top", "words"],
    tokens: ["[CLS]"],
    special: [true],
    target: 1,
    logits: [0.5, 2],
    scores: [[[2], [1]], [[2], [3]]],
  };
  const companion = {
    card: { name: "small" },
    levels: () => Promise.resolve(flow),
    explain: () => Promise.resolve({ scores: [4] }),
  };
  const ask = (/** @type {string[]} */ levels) => everyLevel(companion, "a", { levels }, ["no", "yes"], {});
  const { label, logit, scores, loo } = await ask(["top", "words"]);
  assert.deepEqual({ label, logit, scores, loo }, { label: "yes", logit: 2, scores: flow.scores, loo: [4] });
  await assert.rejects(ask(["top", "middle", "words"]), /a model other than “small”/);
});
