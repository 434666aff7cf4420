// What all widgets share: numbers as text, ticks and labels, tokens, the address, and the model of a page.
import assert from "node:assert/strict";
import { load, packed } from "./load.js";

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

Deno.test("marks that are not seen are spelled out as Python does it", () => {
  assert.equal(base.visible("a\u202eb\u0085\n\u{e0041}\u2028"), "a\\u202eb\\x85\\n\\U000e0041\\u2028");
  assert.equal(base.visible("👨\u200d👩 é\u0301 שלום"), "👨\u200d👩 é\u0301 שלום");
});

Deno.test("a row runs in the direction of its first letter", () => {
  const of = (/** @type {string[]} */ ...words) =>
    base.direction({ tokens: ["[CLS]", ...words], special: [true, ...words.map(() => false)] });
  assert.deepEqual([of("3.5", "טוב", "x"), of("رائع"), of("x", "טוב"), of("!")], ["rtl", "rtl", null, null]);
});
