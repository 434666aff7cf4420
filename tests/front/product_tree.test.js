// ProductTree: groupings as text and as lists, relevance along them, and where they are drawn.
import assert from "node:assert/strict";
import { load } from "./load.js";

const {
  accept,
  curve,
  dissolve,
  drop,
  evaluate,
  integratedGradients,
  itemsOf,
  join,
  leaveOneOut,
  leaves,
  parse,
  presetsOf,
  scaleFor,
  short,
  sum,
  treeInWords,
  write,
} = await load("product_tree");

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

Deno.test("every grouping comes back from its text (toys/product.py: parse, write)", () => {
  for (const tree of ALL) {
    assert.deepEqual(parse(write(tree)), tree);
    assert.deepEqual(leaves(tree), leaves(tree).map((/** @type {number} */ _, /** @type {number} */ i) => i));
  }
});

Deno.test("a text is read with any spaces, dots and needless brackets", () => {
  assert.deepEqual(parse("((x1·x2))*x3"), [[0, 1], 2]);
  assert.deepEqual(parse("x1x2"), [0, 1]);
  assert.deepEqual(parse("(x1) x2"), [0, 1]);
});

Deno.test("what is no grouping of 2 to 5 factors in order is refused", () => {
  const bad = ["", "x1", "x2 x1", "x1 x1", "x1 x3", "(x1 x2", "x1 x2)", "() x1 x2", "x1 <b> x2", "x0 x1"];
  for (const text of [...bad, "x1 x2 x3 x4 x5 x6", "(".repeat(300)]) assert.equal(parse(text), null, text);
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

Deno.test("relevance is conserved at every product, whatever the grouping (toys/product.py)", () => {
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

Deno.test("IG from zero and LOO do not see the grouping", () => {
  const values = [2, -3, 4];
  assert.deepEqual(integratedGradients(values), [-8, -8, -8]);
  for (const tree of groupings(0, 3)) assert.deepEqual(leaveOneOut(tree, values), [-24, -24, -24]);
  assert.deepEqual(integratedGradients([0, 5]), [0, 0]);
});

Deno.test("a product has its box above its parts, in their middle; factors stand on one line", () => {
  for (const tree of ALL) {
    const items = itemsOf(tree, Array(leaves(tree).length).fill(2));
    const bottom = Math.max(...items.map((/** @type {any} */ item) => item.y));
    for (const { node, x, y, above, below } of items) {
      assert.ok(x > 0 && x < 100);
      if (above) assert.ok(above.y < y);
      if (typeof node === "number") assert.equal(y, bottom);
      else assert.ok(below[0].x < x && x < below.at(-1).x);
    }
  }
});

Deno.test("the curve to a node begins at the product above it and ends over the node", () => {
  const [output, product] = itemsOf([[0, 1], 2], [2, 3, 4]), { end, at, path } = curve(product, output);
  assert.ok(Math.abs(at(0) - output.x) < 1e-9 && Math.abs(at(end - output.y) - product.x) < 1e-9);
  assert.ok(end < product.y && path.endsWith(`${product.x} ${end}`));
  const middle = at((end - output.y) / 2);
  assert.ok(middle < output.x && middle > product.x);
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

Deno.test("amounts are parts of f and take its colour; of nothing there are no parts", () => {
  const { part, tint, ink } = scaleFor(-8);
  assert.deepEqual([part(-4), part(4)], [0.5, 0.5]);
  assert.notEqual(tint(-4), tint(4));
  assert.equal(ink, "#3f90dd");
  assert.deepEqual([scaleFor(0).part(3), scaleFor(0).ink], [0, "var(--lrp-rule)"]);
});

Deno.test("the groupings with a name know each other", () => {
  assert.deepEqual(presetsOf([[0, 1], 2]), ["left"]);
  assert.deepEqual(presetsOf([0, [1, [2, 3]]]), ["right"]);
  assert.deepEqual(presetsOf([0, 1]), ["left", "right", "flat"]);
  assert.deepEqual(presetsOf([0, [1, 2], 3]), []);
});

Deno.test("the tree in words", () => {
  const said = "The output (x1 x2) x3 = 24 gives 12 each to (x1 x2), x3; x1 x2 = 6 gives 6 each to x1, x2";
  assert.equal(treeInWords(itemsOf([[0, 1], 2], [2, 3, 4])), said);
});

Deno.test("the address can only say what there is", () => {
  for (const good of [[1, 2], [0, -1e60, 3, 4, 5]]) assert.ok(accept("values", good));
  for (const bad of [[1], [1, 2, 3, 4, 5, 6], [1, 2e60], [1, NaN]]) {
    assert.ok(!accept("values", bad), `${bad}`);
  }
  assert.ok(accept("grouping", "x1 (x2 x3)") && !accept("grouping", "x3 x2 x1"));
});
