// What all widgets share: numbers as text, ticks and labels, tokens, the address, and the model of a page.
import assert from "node:assert/strict";
import { load, packed, randomFrom } from "./load.js";

const base = await load("base");

const MINUS = "\u2212";

Deno.test("a number has a true minus sign, and a word where it is not defined", () => {
  assert.equal(base.say(-0.456), `${MINUS}0.46`);
  assert.equal(base.say(2, 3), "2.000");
  for (const value of [NaN, Infinity, -Infinity]) assert.equal(base.say(value), "undefined");
});

Deno.test("no minus sign stands before zeros, and none is lost before a number", () => {
  assert.equal(base.say(-0.004), `${MINUS}0.00`);
  assert.equal(base.sayTidy(-0.004, 2), "0.00");
  assert.equal(base.sayTidy(-0.006, 2), `${MINUS}0.01`);
  assert.equal(base.sayTidy(-0.006, 1), "0.0");
  assert.equal(base.sayTidy(NaN, 2), "undefined");
});

Deno.test("three digits of the largest number, from 3 to 9 decimals (show/tokens.py: decimals)", () => {
  assert.equal(base.decimalsFor([0.1, -23]), 3);
  assert.equal(base.decimalsFor([0.0123, 0.001]), 4);
  assert.equal(base.decimalsFor([1e-30]), 9);
  for (const none of [[], [0, 0], [NaN], [Infinity]]) assert.equal(base.decimalsFor(none), 3);
});

Deno.test("colours run from blue over white to orange and stop there (show/palette.py: hexes)", () => {
  assert.deepEqual([-1, 0, 1].map(base.shade), ["#3f90dd", "#fafafa", "#d16e0d"]);
  assert.equal(base.shade(7), base.shade(1));
  assert.equal(base.shade(-7), base.shade(-1));
});

Deno.test("a channel is cut to its byte", () => {
  assert.deepEqual([-0.2, 0, 1, 1.7].map(base.byteInHex), ["00", "00", "ff", "ff"]);
});

Deno.test("Pearson's r does not see scale or shift, and is undefined for a constant side", () => {
  const random = randomFrom(1), x = Array.from({ length: 9 }, random), y = Array.from({ length: 9 }, random);
  const r = base.pearson(x, y);
  assert.ok(Math.abs(r) < 1);
  assert.ok(Math.abs(base.pearson(x, y.map((value) => 3 - 2 * value)) + r) < 1e-12);
  assert.ok(Number.isNaN(base.pearson(x, x.map(() => 4))));
  assert.ok(Number.isNaN(base.pearson([], [])));
});

Deno.test("only the places that are kept count for r", () => {
  const keep = [true, true, true, false, true];
  assert.ok(Math.abs(base.pearson([1, 2, 3, 90, 4], [2, 4, 6, -7, 8], keep) - 1) < 1e-12);
  assert.ok(base.pearson([1, 2, 3, 90, 4], [2, 4, 6, -7, 8]) < 0);
});

Deno.test("ticks are multiples of a round number, and all of them between the limits", () => {
  assert.deepEqual(base.roundTicks(0, 10, 4), { ticks: [0, 5, 10], digits: 0 });
  const { ticks, digits } = base.roundTicks(-0.31, 0.52, 6);
  assert.deepEqual(ticks.map((/** @type {number} */ x) => base.sayTidy(x, digits)), [
    `${MINUS}0.2`,
    "0.0",
    "0.2",
    "0.4",
  ]);
});

Deno.test("ticks hold for every size of a picture", () => {
  const random = randomFrom(2);
  for (let k = 0; k < 300; k++) {
    const size = 10 ** (6 * random() - 4),
      low = size * (random() - 0.7),
      high = low + size * (0.2 + random());
    const { ticks, digits } = base.roundTicks(low, high, 4);
    assert.ok(ticks.length >= 1 && ticks.length <= 5, `${ticks}`);
    assert.ok(ticks[0] >= low - 1e-9 && ticks.at(-1) <= high + 1e-9);
    const texts = ticks.map((/** @type {number} */ x) => base.sayTidy(x, digits));
    assert.equal(new Set(texts).size, ticks.length, `each tick has a text of its own: ${texts}`);
  }
});

Deno.test("labels keep their places where there is room, and their gap where there is none", () => {
  const at = (/** @type {number[]} */ ...places) =>
    base.spreadLabels(places.map((place) => ({ at: place })), 10, 0, 100).map((/** @type {any} */ one) =>
      one.at
    );
  assert.deepEqual(at(80, 20, 50), [20, 50, 80]);
  assert.deepEqual(at(50, 51, 52), [50, 60, 70]);
  assert.deepEqual(at(99, 98, 100), [80, 90, 100]);
  assert.deepEqual(at(-5, -4), [0, 10]);
});

Deno.test("a label takes along what belongs to it, and the given ones stay as they are", () => {
  const given = [{ name: "low", at: 90 }, { name: "high", at: 10 }];
  const spread = base.spreadLabels(given, 10, 0, 100);
  assert.deepEqual(spread.map((/** @type {any} */ one) => one.name), ["high", "low"]);
  assert.deepEqual(given.map((one) => one.at), [90, 10]);
});

Deno.test("a text's beginning joins word pieces and leaves special tokens out", () => {
  const tokens = ["[CLS]", "over", "##wrought", "film", "[SEP]"], special = [true, false, false, false, true];
  assert.equal(base.beginning({ tokens, special }), "overwrought film");
  const long = { tokens: Array(30).fill("word"), special: Array(30).fill(false) };
  assert.equal(base.beginning(long).length, 72);
  assert.ok(base.beginning(long).endsWith(" …"));
});

Deno.test("the words set the scale of colours; special tokens where the words are 0; else 1", () => {
  assert.equal(base.scaleOf([9, -0.5, 0.25], [true, false, false]), 0.5);
  assert.equal(base.scaleOf([-9, 0, 0], [true, false, false]), 9);
  assert.equal(base.scaleOf([0, 0], [false, false]), 1);
});

Deno.test("numbers come out of base64 as they went in (widgets/base.py: packed)", () => {
  const steps = Int16Array.of(0, 1, -1, 32767, -32768), scores = Float32Array.of(0.1, -3e30, 0);
  assert.deepEqual(base.numbers(packed(steps), Int16Array), steps);
  assert.deepEqual(base.numbers(packed(scores), Float32Array), scores);
  assert.deepEqual([...base.numbers("AQACAA==", Int16Array)], [1, 2], "the low byte stands first");
});

Deno.test("a place is a whole number from 0 up to the limit", () => {
  for (const good of [0, 1, 2]) assert.ok(base.isPlace(good, 3));
  for (const bad of [-1, 3, 0.5, NaN, "1", null, undefined, [1]]) assert.ok(!base.isPlace(bad, 3), `${bad}`);
});

Deno.test("what goes into the address comes back from it", () => {
  for (const value of [0, -2.5, 1e-7, "", "word+position", true, false, [1, 2.5, -3], ["a", "b"]]) {
    assert.deepEqual(base.fromAddress(base.toAddress(value), value), value);
  }
  assert.deepEqual(base.fromAddress(base.toAddress([]), [1, 2]), []);
});

Deno.test("what is not of the kind that the widget starts with is dropped", () => {
  for (const text of ["", "x", "1e999", "0x", " ", "1,2"]) {
    assert.equal(base.fromAddress(text, 3), undefined, text);
  }
  for (const text of ["1,x", "1,,2", "1e999,0", "<img>"]) {
    assert.equal(base.fromAddress(text, [3]), undefined, text);
  }
  for (const text of ["", "2", "true"]) assert.equal(base.fromAddress(text, true), undefined, text);
  assert.deepEqual(base.fromAddress("1,x", ["a"]), ["1", "x"]);
});

Deno.test("a widget's part of the address takes the place of its part before, and of nothing else", () => {
  const join = base.joinAddress;
  assert.equal(join("", "tree", ["tree.values=1,2"]), "tree.values=1,2");
  assert.equal(join("tree.values=1,2&lab.x=3", "tree", ["tree.values=5"]), "tree.values=5&lab.x=3");
  assert.equal(join("tree.values=1,2&lab.x=3", "tree", []), "lab.x=3");
  assert.equal(join("trees.x=1", "tree", ["tree.x=2"]), "tree.x=2&trees.x=1");
  assert.equal(join("a-heading", "tree", []), "a-heading");
  assert.equal(
    join("a-heading", "tree", ["tree.x=2"]),
    "tree.x=2",
    "a state and a heading do not stand together",
  );
});

Deno.test("arrow keys go round, Home and End to the ends, and keys with a modifier are left alone", () => {
  const to = (/** @type {string} */ key, /** @type {number} */ place, modifiers = {}) =>
    base.placeAfterKey({ key, altKey: false, ctrlKey: false, metaKey: false, ...modifiers }, place, 3);
  assert.deepEqual([to("ArrowRight", 2), to("ArrowDown", 0), to("ArrowLeft", 0), to("ArrowUp", 1)], [
    0,
    1,
    2,
    0,
  ]);
  assert.deepEqual([to("Home", 1), to("End", 1)], [0, 2]);
  assert.equal(to("a", 1), undefined);
  for (const modifier of ["altKey", "ctrlKey", "metaKey"]) {
    assert.equal(to("ArrowRight", 1, { [modifier]: true }), undefined);
  }
});

Deno.test("a page's model tells of a change, not of the same value again", () => {
  const model = base.pageModel({ list: [1], other: 0 });
  let calls = 0;
  const stop = base.follow(model, ["list"], () => calls += 1);
  assert.equal(calls, 1, "painted once at the start");
  model.set("list", [1]);
  model.set("other", 5);
  assert.equal(calls, 1);
  base.put(model, { list: [1, 2], other: 6 });
  assert.deepEqual([calls, model.get("list"), model.get("other")], [2, [1, 2], 6]);
  stop();
  model.set("list", []);
  assert.equal(calls, 2);
});

Deno.test("a listener that leaves while others are called keeps none of them from being called", () => {
  const model = base.pageModel({ x: 0 });
  /** @type {string[]} */
  const heard = [];
  const first = () => {
    heard.push("first");
    model.off("change:x", first);
  };
  model.on("change:x", first);
  model.on("change:x", () => heard.push("second"));
  model.set("x", 1);
  model.set("x", 2);
  assert.deepEqual(heard, ["first", "second", "second"]);
});

Deno.test("a front end without a guard accepts what the address says", () => {
  const { accept } = base.front({ render: () => () => {} });
  assert.equal(accept("anything", 1, base.pageModel({})), true);
  const guarded = base.front({
    render: () => () => {},
    accept: (/** @type {string} */ key) => key === "good",
  });
  assert.deepEqual([guarded.accept("good"), guarded.accept("bad")], [true, false]);
});

Deno.test("sums and likeness", () => {
  assert.equal(base.sum([]), 0);
  assert.equal(base.sum([1, -2.5, 4]), 2.5);
  assert.ok(base.alike([1, ["a"]], [1, ["a"]]) && !base.alike([1], ["1"]));
});

Deno.test("marks that are not seen are spelled out as Python does it", () => {
  assert.equal(base.visible("a\u202eb\u0085\n\u{e0041}\u2028"), "a\\u202eb\\x85\\n\\U000e0041\\u2028");
  assert.equal(base.visible("👨\u200d👩 é\u0301 שלום"), "👨\u200d👩 é\u0301 שלום");
});

Deno.test("a row runs in the direction of its first letter", () => {
  const of = (/** @type {string[]} */ ...words) =>
    base.direction({ tokens: ["[CLS]", ...words], special: [true, ...words.map(() => false)] });
  assert.deepEqual([of("3.5", "טוב", "x"), of("رائع"), of("x", "טוב"), of("!")], ["rtl", "rtl", null, null]);
});
