// A reader's own sentence: what is kept of a text, what an address may say, paths, removals, obstacles.
import assert from "node:assert/strict";
import { load, modelOf } from "./load.js";

const front = await load("your_sentence");
const { accept, amountsInForce, obstacle, pathMasks, rOf, removalInWords, shared, signsInWords, tidy } =
  front;
const data = { layers: 3, sites: ["word", "word+position"], labels: ["bad", "good"] };

Deno.test("characters that nobody sees are dropped, white space becomes a space", () => {
  assert.equal(tidy("  a\tfilm\r\n of \x00gr\x07ace\u202e\u2066\u200b "), "a film of grace");
  assert.equal(tidy("naïve 電影 😀 <b>&amp;"), "naïve 電影 😀 <b>&amp;");
  assert.equal(tidy(" \u200b\n"), "");
});

Deno.test("the address can only say what there is", () => {
  const model = modelOf({ data });
  /** @type {[string, unknown][]} */
  const good = [["text", "a film"], ["other", ""], ["compare", true], ["target", -1], ["target", 1]];
  good.push(["site", "word+position"], ["bypassed", [3]], ["mode", "half-open"], ["tokens", "all"]);
  for (const [key, value] of good) assert.ok(accept(key, value, model), `${key} ${value}`);
  /** @type {[string, unknown][]} */
  const bad = [["text", "a\x00film"], ["text", "x".repeat(2001)], ["other", "\u202eabc"], ["target", 2]];
  bad.push(["target", -2], ["target", 0.5], ["site", "embedding"], ["bypassed", [4]], ["amounts", [1]]);
  bad.push(["data", 1], ["toString", 1]);
  for (const [key, value] of bad) assert.ok(!accept(key, value, model), `${key} ${value}`);
});

Deno.test("switches are amounts of 0 and 1; half-open layers have their own", () => {
  const state = { data, mode: "switches", bypassed: [2], amounts: [0.5, 0.5, 0.5] };
  assert.deepEqual(amountsInForce(modelOf(state)), [0, 1, 0]);
  assert.deepEqual(amountsInForce(modelOf({ ...state, mode: "half-open" })), [0.5, 0.5, 0.5]);
});

Deno.test("the three paths begin and end where the paper's do", () => {
  const [front, back, single] = pathMasks(3);
  const of = (/** @type {{ k: number, mask: number[] }[]} */ path) =>
    path.map(({ k, mask }) => [k, mask.join()]);
  assert.deepEqual(of(front), [[0, ""], [1, "1"], [2, "1,2"], [3, "1,2,3"]]);
  assert.deepEqual(of(back), [[1, "1,2,3"], [2, "2,3"], [3, "3"], [4, ""]]);
  assert.deepEqual(of(single), [[1, "1"], [2, "2"], [3, "3"]]);
});

Deno.test("a removal takes from the logit what LOO says", () => {
  const known = { tokens: ["[CLS]", "fine"], logits: [0, 2.5], target: 1, maps: { loo: [0.1, 1.5] } };
  assert.equal(
    removalInWords(known, 1, "good"),
    "Without “fine” the logit of good falls by 1.500, from 2.500 to 1.000.",
  );
  known.maps.loo[1] = -0.25;
  assert.match(removalInWords(known, 1, "good"), /rises by 0\.250, from 2\.500 to 2\.750/);
});

Deno.test("a browser that cannot run the model is told why; one with little memory is warned", () => {
  const able = { WebAssembly: {}, Worker: class {} };
  assert.deepEqual(obstacle(able, 2e8), { fails: false, line: "" });
  assert.deepEqual(obstacle({ ...able, navigator: { deviceMemory: 8 } }, 2e8).line, "");
  const small = obstacle({ ...able, navigator: { deviceMemory: 2 } }, 2e8);
  assert.ok(!small.fails && small.line.includes("2 GB") && small.line.includes("200 MB"));
  const old = obstacle({ Worker: able.Worker }, 2e8);
  assert.ok(old.fails && old.line.includes("no WebAssembly"));
});

Deno.test("signs are counted over words, and the largest of LOO with another sign is named", () => {
  const tokens = ["[CLS]", "not", "dull", "at"], words = [false, true, true, true];
  const maps = { loo: [-9, 1.5, 3, 0], attnlrp: [5, 1, -0.1, 2], "cp-lrp": [1, 2, 1, -1], lrp: [0, 0, 0, 0] };
  assert.equal(
    signsInWords(tokens, words, maps),
    "AttnLRP has LOO's sign on 1 of 2 tokens; the strongest of the others is “dull”. " +
      "CP-LRP has LOO's sign on every token.",
  );
});

Deno.test("r needs three tokens that count: two always lie on a line", () => {
  assert.ok(Math.abs(rOf([1, 2, 3], [2, 4, 6], null) - 1) < 1e-12);
  assert.ok(Number.isNaN(rOf([1, 2], [2, 5], null)));
  assert.ok(Number.isNaN(rOf([9, 1, 2, 9], [1, 2, 5, 1], [false, true, true, false])));
});

Deno.test("two texts share what they begin and end with, each token once", () => {
  assert.deepEqual(shared(["a", "b", "c"], ["a", "x", "y", "c"]), [[0, 0], [2, 3]]);
  assert.deepEqual(shared(["a", "a"], ["a", "a", "a"]), [[0, 0], [1, 1]]);
  assert.deepEqual(shared(["a"], ["b"]), []);
  assert.deepEqual(shared(["a", "b"], ["a", "b"]), [[0, 0], [1, 1]]);
});
