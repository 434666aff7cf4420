// ProductTree: groupings as text and as lists, relevance along them, and where they are drawn.
import assert from "node:assert/strict";
import { load } from "./load.js";

const { dissolve, drop, evaluate, itemsOf, join, leaves, parse, presetsOf, short, sum, write } = await load(
  "product_tree",
);

/**
 * Every grouping of the factors from a place up to, but not, another.
 * @param {number} from
 * @param {number} to
 * @returns {any[]}
 */
function groupings(from, to) {
  return to - from === 1 ? [from] : lists(from, to, to - 1);
}

/**
 * Every list of groupings of these factors, in order; the first ends at the place `last` or before it.
 * @param {number} from
 * @param {number} to
 * @param {number} [last]
 * @returns {any[][]}
 */
function lists(from, to, last = to) {
  if (from === to) return [[]];
  return Array.from({ length: last - from }, (_, i) => from + i + 1).flatMap((end) =>
    groupings(from, end).flatMap((first) => lists(end, to).map((rest) => [first, ...rest]))
  );
}

const ALL = [2, 3, 4, 5].flatMap((count) => groupings(0, count));

Deno.test("there are 1, 3, 11 and 45 groupings of 2 to 5 factors (Schröder), each with its own text", () => {
  assert.deepEqual([2, 3, 4, 5].map((count) => groupings(0, count).length), [1, 3, 11, 45]);
  assert.equal(new Set(ALL.map(write)).size, 60);
});

Deno.test("a text is read with any spaces, dots and needless brackets", () => {
  assert.deepEqual(parse("((x1·x2))*x3"), [[0, 1], 2]);
  assert.deepEqual(parse("x1x2"), [0, 1]);
  assert.deepEqual(parse("(x1) x2"), [0, 1]);
});

Deno.test("to multiply two neighbours first and to dissolve the product again changes nothing", () => {
  for (const tree of ALL) {
    if (tree.length < 3) continue;
    const joined = join(tree, tree, 1);
    assert.deepEqual(leaves(joined), leaves(tree));
    assert.equal(joined.length, tree.length - 1);
    assert.deepEqual(dissolve(joined, joined[1]), tree);
  }
});

Deno.test("without its last factor a grouping is still one, and no product has a single part", () => {
  for (const tree of ALL) {
    const count = leaves(tree).length, less = drop(tree, count - 1);
    if (count > 2) assert.deepEqual(parse(write(less)), less);
    else assert.equal(less, 0);
  }
});

Deno.test("relevance is conserved at every product, whatever the grouping (toys/__init__.py)", () => {
  const values = [2, -3, 0.5, 7, 4];
  for (const tree of ALL) {
    const own = values.slice(0, leaves(tree).length), items = itemsOf(tree, own), f = evaluate(tree, own);
    assert.equal(items[0].relevance, f);
    for (const { relevance, parts, below } of items) {
      assert.ok(Math.abs(relevance - f / parts) < 1e-12);
      if (below.length) {
        const handed = sum(below.map((/** @type {any} */ item) => item.relevance));
        assert.ok(Math.abs(handed - relevance) < 1e-12, write(tree));
      }
    }
  }
});

Deno.test("numbers have at most four digits, no trailing zeros, and a power far from 1", () => {
  /** @type {[number, string][]} */
  const texts = [
    [0, "0"],
    [-0, "0"],
    [24, "24"],
    [-2.50004, "\u22122.5"],
    [1 / 3, "0.3333"],
    [123456, "123500"],
    [1e6, "1e6"],
    [-1234567, "\u22121.235e6"],
    [0.0001, "0.0001"],
    [0.00001234, "1.234e\u22125"],
  ];
  for (const [value, text] of texts) assert.equal(short(value), text);
});

Deno.test("the groupings with a name know each other", () => {
  assert.deepEqual(presetsOf([[0, 1], 2]), ["left"]);
  assert.deepEqual(presetsOf([0, [1, [2, 3]]]), ["right"]);
  assert.deepEqual(presetsOf([0, 1]), ["left", "right", "flat"]);
  assert.deepEqual(presetsOf([0, [1, 2], 3]), []);
});
