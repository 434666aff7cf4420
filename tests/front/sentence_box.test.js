// The text box under the grids of layers: what the engine computed, as they read it.
import assert from "node:assert/strict";
import { load } from "./load.js";

const { everyLevel } = await load("sentence_box");

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
