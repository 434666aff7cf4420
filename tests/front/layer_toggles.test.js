// LayerToggles: masks, their scores and r as they are carried, mixtures of masks, and what is said of them;
// a reader's own sentence: what is kept of a text, paths, removals, obstacles.
import assert from "node:assert/strict";
import { load, modelOf, packed, randomFrom } from "./load.js";

const {
  accept,
  agreements,
  amountsInForce,
  bestMask,
  computedBefore,
  corner,
  mixture,
  obstacle,
  pathMasks,
  range,
  removalInWords,
  rOf,
  sentenceOf,
  shared,
  tidy,
  unpack,
} = await load("layer_toggles");

const LAYERS = 3, WIDTH = 4;

/**
 * A sentence's scores under all masks, as Python packs them.
 * @returns {{ steps: Int16Array, step: number }}
 */
function madeTable() {
  const random = randomFrom(3);
  const steps = Int16Array.from({ length: 2 ** LAYERS * WIDTH }, () => Math.round(6e4 * random() - 3e4));
  return { steps, step: 0.001 / 9 };
}

/**
 * @param {number[]} a
 * @param {number[]} b
 * @param {number} tolerance
 * @returns {void}
 */
function close(a, b, tolerance) {
  assert.equal(a.length, b.length);
  a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) <= tolerance, `${a} against ${b}`));
}

Deno.test("half-open layers give each mask's scores at 0 and 1", () => {
  const table = madeTable();
  for (let mask = 0; mask < 2 ** LAYERS; mask++) {
    const amounts = range(1, LAYERS).map((/** @type {number} */ layer) => mask >> (layer - 1) & 1);
    close(mixture(table, amounts, WIDTH), corner(table, mask, WIDTH), 1e-6);
  }
});

Deno.test("r comes in 32767 steps; a step below all others stands for none", () => {
  const { all, sorted, bins, low, high } = agreements(packed(Int16Array.of(32767, -32768, -16384, 0)));
  assert.deepEqual([...all], [1, NaN, -16384 / 32767, 0]);
  assert.deepEqual([...sorted], [-16384 / 32767, 0, 1]);
  assert.deepEqual([low, high], [-0.6, 1]);
  assert.equal(bins.reduce((/** @type {number} */ sum, /** @type {number} */ n) => sum + n), 3);
  assert.deepEqual([bins.length, bins[39]], [40, 1], "the largest r is in the last bin");
});

Deno.test("a sentence is unpacked once", () => {
  const { steps, step } = madeTable(), r = packed(Int16Array.from({ length: 8 }, (_, mask) => 100 * mask));
  const word = { scores: packed(steps), step, r: { all: r } };
  const table = unpack(word);
  assert.deepEqual([table.steps, table.step], [steps, step]);
  assert.equal(table.r.all.all[3], 300 / 32767);
  assert.equal(unpack(word), table);
});

Deno.test("the best mask has the largest r, wherever undefined ones stand", () => {
  assert.equal(bestMask([0.1, 0.7, 0.3]), 1);
  assert.equal(bestMask([NaN, -0.2, NaN, 0.4, NaN]), 3);
  assert.equal(bestMask([0.5, 0.5]), 0, "the first of equals");
});

const data = { layers: 3, sites: ["word", "word+position"], sentences: [] };

Deno.test("characters that nobody sees are dropped, white space becomes a space", () => {
  assert.equal(tidy("  a\tfilm\r\n of \x00gr\x07ace\u202e\u2066\u200b "), "a film of grace");
  assert.equal(tidy("naïve 電影 😀 <b>&amp;"), "naïve 電影 😀 <b>&amp;");
  assert.equal(tidy(" \u200b\n"), "");
});

Deno.test("with a model in the page an address may hold texts and a class", () => {
  const live = { labels: ["bad", "good"], longest: 9, drops: true }, model = modelOf({ data, live });
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
  const known = { tokens: ["[CLS]", "fine"], logit: 2.5, label: "good", maps: { loo: [0.1, 1.5] } };
  assert.equal(
    removalInWords(known, 1),
    "Without “fine” the logit of good falls by 1.500, from 2.500 to 1.000.",
  );
  known.maps.loo[1] = -0.25;
  assert.match(removalInWords(known, 1), /rises by 0\.250, from 2\.500 to 2\.750/);
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

/**
 * An embedded sentence with every mask at the words.
 * @returns {any}
 */
function embeddedSentence() {
  const { steps, step } = madeTable(), r = packed(Int16Array.from({ length: 8 }, (_, mask) => 100 * mask));
  const word = { scores: packed(steps), step, r: { all: r } };
  const tokens = ["[CLS]", "a", "film", "[SEP]"],
    loo = [0, 1, 2, 0],
    maps = { "mask-gradient": [0, 1, 1, 0] };
  const says = {
    text: "a film",
    target: 1,
    label: "good",
    logit: 2,
    tokens,
    special: [true, false, false, true],
  };
  return { ...says, loo, maps, sites: { word } };
}

Deno.test("an embedded sentence brings its ends; of another class or site the model is asked", () => {
  const sentence = embeddedSentence(), asked = { site: "word", target: -1, layers: LAYERS };
  const known = computedBefore(sentence, asked);
  assert.deepEqual(known.maps.attnlrp, corner(known.table, 0, WIDTH));
  assert.deepEqual(known.maps["cp-lrp"], corner(known.table, 7, WIDTH));
  assert.deepEqual([known.maps.loo, known.maps["mask-gradient"]], [[0, 1, 2, 0], [0, 1, 1, 0]]);
  assert.ok(computedBefore(sentence, { ...asked, target: 1 }), "its own class");
  assert.equal(computedBefore(sentence, { ...asked, target: 0 }), null);
  assert.equal(computedBefore({ ...sentence, sites: {} }, { ...asked, site: "word+position" }), null);
  assert.equal(computedBefore({ ...sentence, sites: {} }, asked).table, null, "its maps at the words");
  assert.equal(computedBefore({ text: "another" }, asked), null);
});

Deno.test("a typed text that is embedded is the embedded one", () => {
  const sentences = [embeddedSentence(), { ...embeddedSentence(), text: "two" }];
  const of = (/** @type {object} */ state) =>
    sentenceOf(modelOf({ data: { sentences }, sentence: 1, other: "", ...state }), "text");
  assert.equal(of({ text: "" }), sentences[1]);
  assert.equal(of({ text: "a film" }), sentences[0]);
  assert.deepEqual(of({ text: "mine" }), { text: "mine" });
  assert.deepEqual(sentenceOf(modelOf({ data: { sentences }, other: "" }), "other"), { text: "" });
});
