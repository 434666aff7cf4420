// ProtocolSwitchboard: cells and their order, the nearest combination, scales, the rows beneath the curve.
import assert from "node:assert/strict";
import { load, packed } from "./load.js";

const {
  curvePaths,
  decimalsOf,
  keysOf,
  optionPath,
  placesOf,
  rankAfterKey,
  signed,
  startOf,
  tableOf,
} = await load("protocol_switchboard");

const LACKS = -32768;
const SITES = ["word", "embedding"], REMOVALS = ["mask", "delete", "erase"];
/** Mean, low and high of the difference in each cell, in steps; the second run lacks half of the cells. */
const FIRST = [
  [30, 10, 50],
  [-400, -500, -300],
  [0, -20, 20],
  [900, 800, 1000],
  [-50, LACKS, LACKS],
  [30, -5, 60],
];
const SECOND = [[100, 50, 150], [200, 100, 300], null, null, [-10, -20, -1], null];

/**
 * @param {string} key
 * @param {(number[] | null)[]} differences
 * @param {number[]} lacking
 * @returns {{ key: string, label: string, n: number, paper: { a: number, b: number } | null, cells: string,
 *   undefined: string }}
 */
function runOf(key, differences, lacking) {
  const none = Array(9).fill(LACKS);
  const filled = (/** @type {number[]} */ cell) => [5000, 4900, 5100, 5000 + cell[0], 4000, 6000, ...cell];
  const cells = packed(Int16Array.from(differences.flatMap((cell) => (cell ? filled(cell) : none))));
  const paper = key === "first" ? { a: 0.5, b: 0.2 } : null;
  return { key, label: `run ${key}`, n: 1000, paper, cells, undefined: packed(Uint16Array.from(lacking)) };
}

const options = (/** @type {string[]} */ keys) => keys.map((key) => ({ key, label: `option ${key}` }));
const BOARD = {
  key: "text",
  label: "Text",
  a: "CP-LRP",
  b: "AttnLRP",
  axes: [
    { key: "site", label: "read at", options: options(SITES) },
    { key: "removal", label: "removal", options: options(REMOVALS) },
  ],
  runs: [runOf("first", FIRST, [0, 0, 7, 0, 0, 0]), runOf("second", SECOND, Array(6).fill(0))],
  start: { run: "first", site: "word", removal: "mask" },
  presets: [],
};
const [RUN, OTHER] = BOARD.runs, TABLE = tableOf(BOARD, RUN);

/** @param {number} cell */
const viewAt = (cell) => ({ board: BOARD, run: RUN, table: TABLE, cell });

Deno.test("cells come out of base64 in steps of 1e-4, and what lacks is undefined", () => {
  assert.deepEqual(TABLE.interval(1, "b"), { mean: 0.5, low: 0.49, high: 0.51 });
  assert.deepEqual(TABLE.interval(1, "a"), { mean: 0.46, low: 0.4, high: 0.6 });
  assert.deepEqual(TABLE.interval(1, "d"), { mean: -0.04, low: -0.05, high: -0.03 });
  assert.deepEqual(TABLE.interval(4, "d"), { mean: -0.005, low: NaN, high: NaN });
  assert.deepEqual([...TABLE.lacking], [0, 0, 7, 0, 0, 0]);
  assert.equal(tableOf(BOARD, RUN), TABLE, "unpacked once");
});

Deno.test("a cell is the number of its options, and leads back to them", () => {
  for (let cell = 0; cell < 6; cell++) {
    const places = [0, 1].map((axis) => TABLE.option(cell, axis));
    assert.equal(TABLE.cellOf(places), cell);
    assert.deepEqual(placesOf(BOARD, keysOf(viewAt(cell), cell)), places);
    for (const place of [0, 1, 2]) {
      assert.equal(TABLE.turned(cell, 1, place), TABLE.cellOf([places[0], place]));
    }
  }
  assert.deepEqual(keysOf(viewAt(4), 4), ["embedding", "delete"]);
});

Deno.test("combinations are ordered by their difference, equals by their number", () => {
  assert.deepEqual(TABLE.order, [1, 4, 2, 0, 5, 3]);
  assert.deepEqual(
    [...TABLE.rank],
    TABLE.order.map((/** @type {number} */ cell, /** @type {number} */ k) => [cell, k]),
  );
  assert.deepEqual(tableOf(BOARD, OTHER).order, [4, 0, 1], "what was not run has no place");
});

Deno.test("an interval lies above 0, below it, or across; an undefined one lies across", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(TABLE.sign), [
    "above",
    "below",
    "across",
    "above",
    "across",
    "across",
  ]);
});

Deno.test("an option is found by its former key, too", () => {
  const [site, removal] = BOARD.axes, [mask, ...rest] = removal.options;
  const board = { ...BOARD, axes: [site, { ...removal, options: [{ ...mask, was: "hide" }, ...rest] }] };
  assert.deepEqual(placesOf(board, ["embedding", "hide"]), [1, 0]);
  assert.deepEqual(placesOf(board, ["embedding", "delete"]), [1, 1]);
  assert.equal(placesOf(board, ["embedding"]), null);
  assert.equal(placesOf(board, ["embedding", "show"]), null);
});

Deno.test("a preset changes the start where it says so", () => {
  assert.deepEqual(startOf(BOARD), { run: RUN, choices: ["word", "mask"] });
  assert.deepEqual(startOf(BOARD, { run: "second", site: "embedding" }), {
    run: OTHER,
    choices: ["embedding", "mask"],
  });
});

Deno.test("an option's row covers the combinations that have it, and says their mean", () => {
  assert.deepEqual(optionPath(TABLE, 0, 0), {
    path: "M0 0h1v1h-1zM2 0h2v1h-2z",
    mean: (-0.04 + 0 + 0.003) / 3,
  });
  assert.deepEqual(optionPath(tableOf(BOARD, OTHER), 1, 2), { path: "", mean: NaN });
  const covered = [0, 1, 2].flatMap((place) =>
    [...optionPath(TABLE, 1, place).path.matchAll(/M(\d+) 0h(\d+)/g)].flatMap(([, from, width]) =>
      Array.from({ length: Number(width) }, (_, i) => Number(from) + i)
    )
  );
  assert.deepEqual(covered.sort(), [0, 1, 2, 3, 4, 5], "each combination has one option");
});

Deno.test("the curve has every mean once, and no interval where there is none", () => {
  const { above, across, below } = curvePaths(TABLE, { part: (/** @type {number} */ x) => x + 0.5 });
  assert.equal(below.means, "M0 54.00h1");
  assert.equal(above.means, "M3 49.70h1M5 41.00h1");
  assert.equal(across.means, "M1 50.50h1M2 50.00h1M4 49.70h1");
  assert.equal(across.intervals, "M2.5 50.20V49.80M4.5 50.05V49.40");
});

Deno.test("keys on the curve go by one, by a twentieth, and to the ends", () => {
  const to = (/** @type {string} */ key, modifiers = {}) =>
    rankAfterKey({ key, altKey: false, ctrlKey: false, metaKey: false, ...modifiers }, 50, 200);
  assert.deepEqual(["ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"].map((key) => to(key)), [
    51,
    51,
    49,
    49,
  ]);
  assert.deepEqual(["PageUp", "PageDown", "Home", "End"].map((key) => to(key)), [60, 40, 0, 199]);
  assert.deepEqual([to("a"), to("End", { ctrlKey: true })], [undefined, undefined]);
});

Deno.test("a difference that is smaller than its decimals gets more of them", () => {
  assert.equal(decimalsOf({ mean: 0.3, low: 0.1, high: 0.5 }), 2);
  assert.equal(decimalsOf({ mean: 0.02, low: 0.004, high: 0.05 }), 4);
  assert.equal(decimalsOf({ mean: 0.3, low: NaN, high: NaN }), 2);
});

Deno.test("signs before numbers: none before what rounds to 0", () => {
  assert.deepEqual([0.126, -0.126, 0.004, -0.004, 0].map((value) => signed(value, 2)), [
    "+0.13",
    "\u22120.13",
    "0.00",
    "0.00",
    "0.00",
  ]);
});
