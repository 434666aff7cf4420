// Every choice of the protocol as a row of switches; the numbers of each combination were computed before.

/** @typedef {{ key: string, label: string, was?: string }} Option `was`: another key, in older addresses */
/** @typedef {{ key: string, label: string, options: Option[] }} Axis one choice of the protocol */
/** @typedef {{ [key: string]: string }} Start a run, and an option per axis */

/**
 * A data set and model. `cells` has nine numbers per combination, mean, low and high of b, of a and of a - b;
 * `undefined` how many examples have no r. Both are base64.
 * @typedef {{ key: string, label: string, n: number, paper: { a: number, b: number } | null, cells: string,
 *   undefined: string }} Run
 */

/**
 * Two methods, a and b, under all combinations of the axes' options.
 * @typedef {{ key: string, label: string, a: string, b: string, axes: Axis[], runs: Run[], start: Start,
 *   presets: { label: string, state: Partial<Start> }[] }} Board
 * @typedef {{ data: { boards: Board[] }, board: string, run: string, choices: string[], all: boolean }} State
 */

/** @typedef {"above" | "across" | "below"} Sign where an interval lies against 0 */
/** @typedef {"a" | "b" | "d"} Measure either method's r, or their difference */
/** @typedef {{ mean: number, low: number, high: number }} Interval NaN where it is undefined */

/**
 * A run's numbers, unpacked. A combination is a cell: the number of its options in the axes' order.
 * @typedef {object} Table
 * @property {(cell: number) => boolean} has whether the combination was measured
 * @property {(cell: number, measure: Measure) => Interval} interval
 * @property {(cell: number) => number} difference the mean of a - b
 * @property {(cell: number) => Sign} sign of the difference
 * @property {(cell: number, axis: number) => number} option the place of its option on an axis
 * @property {(cell: number, axis: number, place: number) => number} turned the cell with another option there
 * @property {(places: number[]) => number} cellOf
 * @property {number[]} order the measured cells by their difference
 * @property {Map<number, number>} rank the place of a cell in this order
 * @property {Uint16Array} lacking how many examples have no r
 */

/** @typedef {{ board: Board, run: Run, table: Table, cell: number }} View the state in force */

/**
 * Limits of an axis in a picture, the numbers along it, and where a value lies as a part of it.
 * @typedef {{ ticks: number[], digits: number, part: (value: number) => number }} Scale
 */

/** @typedef {(board: Board, run: Run, choices: string[]) => void} Go to another state */
/** @typedef {{ text?: string, sign?: Sign, reason?: string }} Note what a switch would give, or why not */

const STEPS = 10000, LACKS = -32768; // values lie in steps of 1e-4; this one stands for none
const TALL = 100; // the curve's height in its own units
/** @type {{ [measure in Measure]: number }} */
const FIRST = { b: 0, a: 3, d: 6 }; // the place of a measure's mean in a cell
/** @type {Measure[]} */
const MEASURES = ["a", "b", "d"];
/** @type {Sign[]} */
const SIGNS = ["above", "across", "below"];
const MARKS = { a: "M-4 -4L4 4M-4 4L4 -4", b: "M0 -5L5 0 0 5 -5 0Z" };
const FLAT = { preserveAspectRatio: "none", "aria-hidden": "true" };
const FEW = ["site", "tokens", "map"]; // the choices that matter most: their combinations are drawn first
/** @type {WeakMap<Run, Table>} */
const tables = new WeakMap();
/** @type {WeakMap<Table, Map<string, Table>>} */
const few = new WeakMap();

/**
 * @template {{ key: string }} Item
 * @param {Item[]} list
 * @param {unknown} key
 * @returns {Item | undefined}
 */
function byKey(list, key) {
  return list.find((item) => item.key === key);
}

/**
 * Where an interval lies against 0; an undefined one is taken to include it.
 * @param {Interval} interval
 * @returns {Sign}
 */
function signOf({ low, high }) {
  return low > 0 ? "above" : high < 0 ? "below" : "across";
}

/**
 * @param {number} value
 * @param {number} decimals
 * @returns {string} with a plus or minus sign, unless it rounds to 0
 */
function signed(value, decimals) {
  return (value > 0 && Number(value.toFixed(decimals)) ? "+" : "") + sayTidy(value, decimals);
}

/**
 * @param {number} n
 * @returns {string}
 */
function count(n) {
  return n.toLocaleString("en");
}

/**
 * @param {number} part
 * @returns {string}
 */
function percent(part) {
  return `${(100 * part).toFixed(2)}%`;
}

/**
 * A run's numbers, unpacked when it is first looked at.
 * @param {Board} board
 * @param {Run} run
 * @returns {Table}
 */
function tableOf(board, run) {
  const kept = tables.get(run) ?? unpack(board, run);
  tables.set(run, kept);
  return kept;
}

/**
 * @param {Board} board
 * @param {Run} run
 * @returns {Table}
 */
function unpack(board, run) {
  const cells = numbers(run.cells, Int16Array), lacking = numbers(run.undefined, Uint16Array);
  const sizes = board.axes.map(({ options }) => options.length);
  const strides = sizes.map((_, axis) => sizes.slice(axis + 1).reduce((product, size) => product * size, 1));
  const steps = (/** @type {number} */ cell, /** @type {number} */ k) => cells[9 * cell + k];
  const value = (/** @type {number} */ cell, /** @type {number} */ k) =>
    steps(cell, k) === LACKS ? NaN : steps(cell, k) / STEPS;
  /** @type {Table["has"]} */
  const has = (cell) => steps(cell, FIRST.d) !== LACKS;
  /** @type {Table["interval"]} */
  const interval = (cell, measure) => {
    const [mean, low, high] = [0, 1, 2].map((k) => value(cell, FIRST[measure] + k));
    return { mean, low, high };
  };
  /** @type {Table["option"]} */
  const option = (cell, axis) => Math.floor(cell / strides[axis]) % sizes[axis];
  const order = Array.from(lacking.keys()).filter(has);
  order.sort((i, j) => steps(i, FIRST.d) - steps(j, FIRST.d) || i - j);
  return {
    has,
    interval,
    difference: (cell) => value(cell, FIRST.d),
    sign: (cell) => signOf(interval(cell, "d")),
    option,
    turned: (cell, axis, place) => cell + (place - option(cell, axis)) * strides[axis],
    cellOf: (places) => sum(places.map((place, axis) => place * strides[axis])),
    order,
    rank: new Map(order.map((cell, place) => [cell, place])),
    lacking,
  };
}

/**
 * The state in force: what does not fit the board gives way to the start, and a combination that was not
 * measured to the nearest one.
 * @param {Model<State>} model
 * @returns {View}
 */
function settle(model) {
  const { boards } = model.get("data"), board = byKey(boards, model.get("board")) ?? boards[0];
  const start = startOf(board), run = byKey(board.runs, model.get("run")) ?? start.run;
  const table = tableOf(board, run);
  const places = placesOf(board, model.get("choices")) ?? placesOf(board, start.choices) ?? [];
  const cell = nearest(table, places);
  return { board, run, table: model.get("all") ? table : fewOf(board, table, cell), cell };
}

/**
 * The same table with the combinations in order that differ from a cell in the choices of `FEW` alone; on a
 * board without these choices, all.
 * @param {Board} board
 * @param {Table} table
 * @param {number} cell
 * @returns {Table}
 */
function fewOf(board, table, cell) {
  const keys = board.axes.map(({ key }) => key),
    fixed = [...keys.keys()].filter((k) => !FEW.includes(keys[k]));
  if (!FEW.every((key) => keys.includes(key))) return table;
  const kept = few.get(table) ?? new Map(), where = fixed.map((axis) => table.option(cell, axis));
  few.set(table, kept);
  if (!kept.has(String(where))) {
    const order = table.order.filter((other) =>
      fixed.every((axis, k) => table.option(other, axis) === where[k])
    );
    kept.set(String(where), { ...table, order, rank: new Map(order.map((other, place) => [other, place])) });
  }
  return kept.get(String(where));
}

/**
 * The run and the choices that a board starts with, changed where a preset says so.
 * @param {Board} board
 * @param {Partial<Start>} [state]
 * @returns {{ run: Run, choices: string[] }}
 */
function startOf(board, state = {}) {
  const full = /** @type {Start} */ ({ ...board.start, ...state });
  const run = byKey(board.runs, full.run) ?? board.runs[0];
  return { run, choices: board.axes.map(({ key }) => full[key]) };
}

/**
 * The places of the chosen options, or null where the choices do not fit the board.
 * @param {Board} board
 * @param {string[]} choices
 * @returns {number[] | null}
 */
function placesOf(board, choices) {
  const places = board.axes.map(({ options }, axis) =>
    options.findIndex(({ key, was }) => [key, was].includes(choices[axis]))
  );
  return choices.length === places.length && !places.includes(-1) ? places : null;
}

/**
 * The measured cell with the fewest other options, then the fewest steps along the rows, then the first, as
 * `widgets/maps.py` has it.
 * @param {Table} table
 * @param {number[]} places
 * @returns {number}
 */
function nearest(table, places) {
  if (table.has(table.cellOf(places))) return table.cellOf(places);
  const distance = (/** @type {number} */ cell) => {
    const steps = places.map((place, axis) => Math.abs(place - table.option(cell, axis)));
    return sum(steps.map((step) => step && 1000 + step));
  };
  return [...table.order].sort((i, j) => distance(i) - distance(j) || i - j)[0];
}

/**
 * The chosen options' keys.
 * @param {Pick<View, "board" | "table">} view
 * @param {number} cell
 * @returns {string[]}
 */
function keysOf({ board, table }, cell) {
  return board.axes.map(({ options }, axis) => options[table.option(cell, axis)].key);
}

/**
 * @param {"board" | "run" | "choices"} key
 * @param {string | string[]} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { boards } = model.get("data"), board = byKey(boards, model.get("board")) ?? boards[0];
  return {
    board: () => byKey(boards, value) !== undefined,
    run: () => byKey(board.runs, value) !== undefined,
    choices: () => Array.isArray(value) && placesOf(board, value) !== null,
    all: () => typeof value === "boolean",
  }[key]();
}

/**
 * An axis that holds all given numbers and 0, with some room beyond them.
 * @param {number[]} values
 * @returns {Scale}
 */
function scale(values) {
  const finite = values.filter(Number.isFinite),
    lowest = Math.min(0, ...finite),
    highest = Math.max(0, ...finite);
  const spare = 0.04 * (highest - lowest || 1);
  const low = Math.max(-1.02, lowest - spare), high = Math.min(highest + spare, Math.max(1.02, ...finite));
  return { ...roundTicks(low, high, 6), part: (value) => (value - low) / (high - low) };
}

/**
 * One axis for r and one for differences, over all combinations of all runs and what the paper reports.
 * @param {Board} board
 * @returns {{ [measure in Measure]: Scale }}
 */
function scalesOf(board) {
  /** @type {number[]} */
  const agreements = [];
  /** @type {number[]} */
  const differences = [];
  for (const run of board.runs) {
    const table = tableOf(board, run), { paper } = run;
    const values = (/** @type {Measure} */ measure) =>
      table.order.flatMap((cell) => Object.values(table.interval(cell, measure)));
    agreements.push(...values("a"), ...values("b"));
    differences.push(...values("d"));
    if (paper) {
      agreements.push(paper.a, paper.b);
      differences.push(paper.a - paper.b);
    }
  }
  const ofAgreements = scale(agreements);
  return { a: ofAgreements, b: ofAgreements, d: scale(differences) };
}

/**
 * How many decimals the measures need: two would hide on which side of 0 a small difference lies.
 * @param {Interval} difference
 * @returns {number}
 */
function decimalsOf(difference) {
  return Object.values(difference).some((value) => Math.abs(value) < 0.005) ? 4 : 2;
}

/**
 * @param {Interval} interval
 * @param {number} decimals
 * @returns {string}
 */
function rangeInWords({ low, high }, decimals) {
  if (!Number.isFinite(low)) return "[no interval]";
  return `[${sayTidy(low, decimals)}, ${sayTidy(high, decimals)}]`;
}

const MARGIN = 0.05; // of r: what is within it on both sides of 0 is level, as in `lab/paper/primary.py`

/**
 * What is said of the combination in force: its difference, and which method is nearer to LOO.
 * @param {View} view
 * @returns {{ sentence: string, verdict: string, sign: Sign, n: number, lacking: number }}
 */
function inWords({ board, run, table, cell }) {
  const difference = table.interval(cell, "d"), decimals = decimalsOf(difference), sign = table.sign(cell);
  const lacking = table.lacking[cell], n = run.n - lacking;
  const { mean, low, high } = difference, level = low > -MARGIN && high < MARGIN;
  const verdict = level
    ? `level, within ${MARGIN}`
    : sign === "across" || !(Math.abs(mean) >= MARGIN)
    ? `open, not within ${MARGIN} and not beyond it`
    : `${sign === "above" ? board.a : board.b} is nearer to LOO`;
  const value = `${sayTidy(difference.mean, decimals)} ${rangeInWords(difference, decimals)}`;
  const without = lacking ? ` (${count(lacking)} more without r)` : "";
  const sentence = `${board.a} minus ${board.b}: ${value}, n = ${count(n)}${without}`;
  return { sentence, verdict, sign, n, lacking };
}

/**
 * The place of the combination in force by its difference, from 0.
 * @param {View} view
 * @returns {number}
 */
function rankOf({ table, cell }) {
  return table.rank.get(cell) ?? 0;
}

/**
 * @param {View} view
 * @returns {string}
 */
function rankInWords(view) {
  const n = view.table.order.length;
  return `place ${count(rankOf(view) + 1)} of ${count(n)} from the smallest difference`;
}

/**
 * The sign of a measure.
 * @param {Measure} measure
 * @returns {SVGElement}
 */
function markOf(measure) {
  if (measure === "d") return svg("circle", { r: 4.5, class: "lrp-dot" });
  return svg("path", { d: MARKS[measure], class: "lrp-dot" });
}

/**
 * A mark as it stands in text.
 * @param {SVGElement} mark
 * @returns {SVGElement}
 */
function glyph(mark) {
  return svg("svg", { viewBox: "-7 -7 14 14", class: "lrp-glyph", "aria-hidden": "true" }, mark);
}

/**
 * A value with its interval on an axis, and the paper's as a ring.
 * @param {Scale} axis
 * @param {Measure} measure
 * @param {Interval} interval
 * @param {number} paper NaN where it reports none
 * @returns {SVGElement}
 */
function strip(axis, measure, { mean, low, high }, paper) {
  const place = (/** @type {number} */ value) => percent(axis.part(value));
  const at = (/** @type {number} */ value, /** @type {SVGElement} */ mark) =>
    svg("svg", { x: place(value), y: "50%", class: "lrp-at" }, mark);
  /** @type {SVGElement[]} */
  const parts = [svg("line", { x1: place(0), x2: place(0), y1: 0, y2: "100%", class: "lrp-origin" })];
  if (Number.isFinite(paper)) parts.push(at(paper, svg("circle", { r: 6, class: "lrp-paper" })));
  if (Number.isFinite(low)) {
    const width = percent(axis.part(high) - axis.part(low));
    parts.push(svg("rect", { x: place(low), width, y: 2, height: 18, class: "lrp-span" }));
  }
  if (Number.isFinite(mean)) parts.push(at(mean, markOf(measure)));
  return svg("svg", { class: "lrp-strip", "aria-hidden": "true" }, parts);
}

/**
 * The paths of the curve: a line per interval and a step per mean, all combinations by their difference.
 * @param {Table} table
 * @param {Scale} axis
 * @returns {{ [sign in Sign]: { intervals: string, means: string } }}
 */
function curvePaths(table, axis) {
  const y = (/** @type {number} */ value) => (TALL * (1 - axis.part(value))).toFixed(2);
  const paths = {
    above: { intervals: "", means: "" },
    across: { intervals: "", means: "" },
    below: { intervals: "", means: "" },
  };
  table.order.forEach((cell, x) => {
    const path = paths[table.sign(cell)], { mean, low, high } = table.interval(cell, "d");
    if (Number.isFinite(low)) path.intervals += `M${x + 0.5} ${y(low)}V${y(high)}`;
    path.means += `M${x} ${y(mean)}h1`;
  });
  return paths;
}

/**
 * All combinations by their difference; it stays while the choices change.
 * @param {Table} table
 * @param {Scale} axis
 * @returns {SVGElement}
 */
function curve(table, axis) {
  const n = table.order.length, paths = curvePaths(table, axis);
  const grid = axis.ticks.map((value) => {
    const y = (TALL * (1 - axis.part(value))).toFixed(2), kind = Math.abs(value) < 1e-9 ? "origin" : "rung";
    return svg("line", { x1: 0, x2: n, y1: y, y2: y, class: `lrp-${kind}` });
  });
  const thin = `stroke-width:${n > 200 ? 1 : 2}px`;
  const bands = SIGNS.map((sign) =>
    svg("path", { d: paths[sign].intervals, class: `lrp-band lrp-${sign}`, style: thin })
  );
  const means = SIGNS.map((sign) => svg("path", { d: paths[sign].means, class: `lrp-mean lrp-${sign}` }));
  return svg("svg", { ...FLAT, viewBox: `0 0 ${n} ${TALL}`, class: "lrp-picture" }, grid, bands, means);
}

/**
 * The combinations with an option, as boxes along the curve, and their mean difference (NaN without any).
 * @param {Table} table
 * @param {number} axis
 * @param {number} place
 * @returns {{ path: string, mean: number }}
 */
function optionPath(table, axis, place) {
  const inside = table.order.map((cell) => table.option(cell, axis) === place);
  let path = "", from = inside.indexOf(true);
  while (from >= 0) {
    const end = inside.indexOf(false, from), to = end < 0 ? inside.length : end;
    path += `M${from} 0h${to - from}v1h${from - to}z`;
    from = inside.indexOf(true, to);
  }
  const differences = table.order.filter((_, x) => inside[x]).map(table.difference);
  return { path, mean: sum(differences) / differences.length };
}

/**
 * A row beneath the curve: an option, the combinations that have it, and their mean difference.
 * @param {Table} table
 * @param {Option} option
 * @param {number} axis
 * @param {number} place
 * @returns {{ axis: number, place: number, nodes: (HTMLElement | SVGElement)[] }}
 */
function optionRow(table, { label }, axis, place) {
  const { path, mean } = optionPath(table, axis, place), tag = place ? "" : "lrp-leading";
  const box = { ...FLAT, viewBox: `0 0 ${table.order.length} 1`, class: `lrp-ticks ${tag}` };
  const average = Number.isNaN(mean) ? "–" : signed(mean, 2);
  const nodes = [
    h("span", { class: `lrp-option ${tag}`, "data-label": label }, label),
    svg("svg", box, svg("path", { d: path })),
    h("span", { class: `lrp-average ${tag}` }, average),
  ];
  return { axis, place, nodes };
}

/**
 * One row of switches. Each says next to its name what the difference would be there; the row says why some
 * of them cannot be turned.
 * @param {string} legend
 * @param {Option[]} options
 * @param {(key: string) => void} pick
 * @returns {{ node: HTMLElement, show: (chosen: string, tell: (place: number) => Note) => void }}
 */
function switchRow(legend, options, pick) {
  const name = groupName("lrp-board"), why = h("p", { class: "lrp-why" });
  const switches = options.map(({ key, label }) => {
    const input = h("input", { type: "radio", name, value: key, onchange: () => pick(key) });
    const note = h("small", {});
    return { key, label, input, note, node: h("label", {}, input, h("span", {}, label), note) };
  });
  /** @param {string} chosen @param {(place: number) => Note} tell */
  const show = (chosen, tell) => {
    /** @type {{ [reason: string]: string[] }} */
    const refused = {};
    switches.forEach(({ key, label, input, note, node }, place) => {
      const { text = "", sign = "across", reason } = tell(place);
      input.checked = key === chosen;
      input.disabled = reason !== undefined;
      note.textContent = text;
      note.className = `lrp-would lrp-${sign}`;
      node.title = reason ?? "";
      if (reason) (refused[reason] ??= []).push(label);
    });
    const reasons = Object.entries(refused).map(([reason, names]) => `${reason}: ${names.join(", ")}`);
    why.textContent = reasons.join("; ");
    why.hidden = !reasons.length;
  };
  const labels = h("div", {}, switches.map(({ node }) => node), why);
  return { node: h("fieldset", { class: "lrp-turn" }, h("legend", {}, legend), labels), show };
}

/**
 * What a switch says next to its name: the difference there.
 * @param {Table} table
 * @param {number} cell
 * @returns {Note}
 */
function differenceAt(table, cell) {
  return { text: signed(table.difference(cell), 2), sign: table.sign(cell) };
}

/**
 * The rows of switches: one for the runs, one per axis.
 * @param {Model<State>} model
 * @param {Board} board
 * @param {Go} go
 * @returns {{ node: HTMLElement, show: (view: View) => void }}
 */
function switches(model, board, go) {
  const runs = switchRow("data and model", board.runs, (key) => {
    const view = settle(model), run = byKey(board.runs, key) ?? view.run, table = tableOf(board, run);
    const places = board.axes.map((_, axis) => view.table.option(view.cell, axis));
    go(board, run, keysOf({ board, table }, nearest(table, places)));
  });
  const rows = board.axes.map(({ label, options }, axis) =>
    switchRow(label, options, (key) => {
      const view = settle(model), choices = keysOf(view, view.cell);
      go(board, view.run, choices.map((choice, k) => (k === axis ? key : choice)));
    })
  );
  /** @param {View} view */
  const show = ({ run, table, cell }) => {
    runs.show(run.key, (place) => {
      const other = tableOf(board, board.runs[place]);
      return other.has(cell) ? differenceAt(other, cell) : {};
    });
    rows.forEach((row, axis) => {
      const chosen = board.axes[axis].options[table.option(cell, axis)].key;
      row.show(chosen, (place) => {
        const other = table.turned(cell, axis, place);
        if (table.has(other)) return differenceAt(table, other);
        const anywhere = table.order.some((measured) => table.option(measured, axis) === place);
        return { reason: anywhere ? "no r together with these other choices" : `not run on ${run.label}` };
      });
    });
  };
  const about = `Next to each switch: ${board.a} minus ${board.b} if only this switch changes.`;
  const note = h("p", { class: "lrp-quiet lrp-about" }, about);
  return { node: h("div", { class: "lrp-board" }, runs.node, rows.map(({ node }) => node), note), show };
}

/**
 * Buttons for states with a name; `show` presses those that hold.
 * @param {Board} board
 * @param {Go} go
 * @returns {{ nodes: HTMLElement[], show: (view: View) => void }}
 */
function presetButtons(board, go) {
  const presets = board.presets.map(({ label, state }) => {
    const { run, choices } = startOf(board, state);
    return {
      run,
      choices,
      node: h("button", { type: "button", onclick: () => go(board, run, choices) }, label),
    };
  });
  /** @param {View} view */
  const show = (view) => {
    const keys = keysOf(view, view.cell);
    for (const { run, choices, node } of presets) {
      node.setAttribute("aria-pressed", String(run === view.run && alike(choices, keys)));
    }
  };
  const bar = h("div", { class: "lrp-controls lrp-presets" }, presets.map(({ node }) => node));
  return { nodes: presets.length ? [bar] : [], show };
}

/**
 * The row under a table's pictures: the numbers along the axis, and a word at each end and between them.
 * @param {Scale} axis
 * @param {string[]} words
 * @returns {HTMLElement}
 */
function scaleRow(axis, words) {
  const ticks = axis.ticks.map((value) =>
    h("span", { style: `left:${percent(axis.part(value))}` }, sayTidy(value, axis.digits))
  );
  const ends = h("div", { class: "lrp-ends" }, words.map((word) => h("span", {}, word)));
  const cell = h("td", {}, h("div", { class: "lrp-axis-numbers" }, ticks), ends);
  return h("tr", { class: "lrp-scale", "aria-hidden": "true" }, h("td", { colspan: 3 }), cell);
}

/**
 * Both methods' r and their difference, in numbers and on axes, and what the paper reports.
 * @param {Board} board
 * @param {{ [measure in Measure]: Scale }} scales
 * @returns {{ nodes: HTMLElement[], paint: (view: View) => void }}
 */
function measureTable(board, scales) {
  const rows = MEASURES.map((measure) => {
    const number = h("td", {}), interval = h("td", {}), place = h("td", {});
    const name = measure === "d" ? "difference" : board[measure];
    const head = h("th", { scope: "row" }, glyph(markOf(measure)), ` ${name}`);
    return {
      measure,
      number,
      interval,
      place,
      node: h("tr", { class: `lrp-${measure}` }, head, number, interval, place),
    };
  });
  const [a, b, difference] = rows.map(({ node }) => node);
  const ends = [`← ${board.b} nearer`, "", `${board.a} nearer →`];
  const node = h(
    "table",
    { class: "lrp-measures" },
    tableHead(["mean r with LOO", "here", "95 % interval"], h("td", {})),
    h("tbody", {}, a, b, scaleRow(scales.a, ["", "r with LOO", ""])),
    h("tbody", {}, difference, scaleRow(scales.d, ends)),
  );
  const quote = h("span", {}), ring = glyph(svg("circle", { r: 5.5, class: "lrp-paper" }));
  const legend = h("p", { class: "lrp-quiet lrp-readout" }, ring, quote);
  /** @param {View} view */
  const paint = ({ run: { paper }, table, cell }) => {
    const reported = { a: paper?.a ?? NaN, b: paper?.b ?? NaN, d: paper ? paper.a - paper.b : NaN };
    const decimals = decimalsOf(table.interval(cell, "d"));
    for (const { measure, number, interval, place } of rows) {
      const here = table.interval(cell, measure);
      number.textContent = sayTidy(here.mean, decimals);
      interval.textContent = rangeInWords(here, decimals);
      place.replaceChildren(strip(scales[measure], measure, here, reported[measure]));
    }
    legend.hidden = !paper;
    if (!paper) return;
    const [ofA, ofB, ofD] = MEASURES.map((measure) => sayTidy(reported[measure], 2));
    quote.textContent =
      ` the paper (choices unknown): ${board.a} ${ofA}, ${board.b} ${ofB}, difference ${ofD}`;
  };
  return { nodes: [node, legend], paint };
}

/**
 * The rank that a key leads to, from 0; nothing for other keys and with a modifier.
 * @param {KeyboardEvent} event
 * @param {number} rank
 * @param {number} n
 * @returns {number | undefined}
 */
function rankAfterKey({ key, altKey, ctrlKey, metaKey }, rank, n) {
  if (altKey || ctrlKey || metaKey) return undefined;
  const page = Math.max(2, Math.round(n / 20));
  if (key === "ArrowRight" || key === "ArrowUp") return rank + 1;
  if (key === "ArrowLeft" || key === "ArrowDown") return rank - 1;
  if (key === "PageUp") return rank + page;
  if (key === "PageDown") return rank - page;
  return key === "Home" ? 0 : key === "End" ? n - 1 : undefined;
}

/**
 * The line over the curve that marks the combination in force; it goes to others by drag, click and keys.
 * @param {Model<State>} model
 * @param {Go} go
 * @param {Scale} axis of differences
 * @returns {{ node: HTMLElement, paint: (view: View) => void }}
 */
function cursor(model, go, axis) {
  const dot = h("i", {}), whisker = h("b", {}), line = h("u", {});
  const label = { "aria-valuemin": 1, "aria-label": "Combination, by its difference" };
  const node = h("div", { class: "lrp-cursor", role: "slider", tabindex: 0, ...label }, line, whisker, dot);
  const step = (/** @type {number} */ rank) => {
    const view = settle(model), { order } = view.table;
    const cell = order[Math.max(0, Math.min(order.length - 1, rank))];
    go(view.board, view.run, keysOf(view, cell));
  };
  const point = (/** @type {PointerEvent} */ event) => {
    const box = node.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
    step(Math.floor(part * settle(model).table.order.length));
  };
  followPointer(node, point);
  node.addEventListener("keydown", (event) => {
    const view = settle(model), rank = rankAfterKey(event, rankOf(view), view.table.order.length);
    if (rank === undefined) return;
    event.preventDefault();
    step(rank);
  });
  /** @param {View} view */
  const paint = (view) => {
    const { table, cell } = view, { mean, low, high } = table.interval(cell, "d"), rank = rankOf(view);
    const [middle, bottom, top] = [mean, low, high].map((value) => 1 - axis.part(value));
    const value = sayTidy(mean, decimalsOf(table.interval(cell, "d")));
    for (const part of [line, dot, whisker]) part.style.left = percent((rank + 0.5) / table.order.length);
    dot.style.top = `calc(var(--lrp-tall) * ${middle})`;
    whisker.hidden = !Number.isFinite(bottom);
    whisker.style.top = `calc(var(--lrp-tall) * ${top})`;
    whisker.style.height = `calc(var(--lrp-tall) * ${bottom - top})`;
    node.className = `lrp-cursor lrp-${table.sign(cell)}`;
    node.setAttribute("aria-valuenow", String(rank + 1));
    const { axes } = view.board, options = axes.map((axis, k) => axis.options[table.option(cell, k)].label);
    const verdict = `${value}, ${inWords(view).verdict}`;
    node.setAttribute("aria-valuetext", `${rankInWords(view)}: ${verdict}; ${options.join(", ")}`);
  };
  return { node, paint };
}

/**
 * How many combinations have which sign.
 * @param {Board} board
 * @param {Table} table
 * @returns {HTMLElement[]}
 */
function tallies({ a, b }, table) {
  const signs = table.order.map(table.sign);
  const part = (/** @type {Sign} */ sign, /** @type {string} */ text) => {
    const many = h("b", {}, count(signs.filter((other) => other === sign).length));
    return h("span", { class: `lrp-${sign}` }, `${text} `, many);
  };
  return [
    part("above", `${a} higher in`),
    part("below", `${b} higher in`),
    part("across", "interval across 0 in"),
  ];
}

/**
 * A button that shows the options beneath the curve and hides them again; they are hidden at first.
 * @param {(open: boolean) => void} paint
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function foldOf(paint) {
  let open = false;
  const turn = () => {
    open = !open;
    show();
  };
  const node = h("button", { type: "button", class: "lrp-fold", onclick: turn });
  const show = () => {
    node.textContent = open ? "Hide the options beneath the curve" : "Show the options beneath the curve";
    node.setAttribute("aria-expanded", String(open));
    paint(open);
  };
  return { node, show };
}

/**
 * The numbers along the curve's height.
 * @param {Scale} axis
 * @returns {HTMLElement}
 */
function rungs(axis) {
  const levels = axis.ticks.map((value) =>
    h("span", { style: `top:${percent(1 - axis.part(value))}` }, sayTidy(value, axis.digits))
  );
  return h("div", { class: "lrp-rungs", "aria-hidden": "true" }, levels);
}

/**
 * A button that draws all combinations, or those of `FEW` alone, where the board has these choices.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, paint: (board: Board, whole: number, shown: number) => void }}
 */
function moreOf(model) {
  const turn = () => put(model, { all: !model.get("all") });
  const node = h("button", { type: "button", class: "lrp-every", onclick: turn });
  return {
    node,
    paint({ axes }, whole, n) {
      node.hidden = !FEW.every((key) => axes.some((axis) => axis.key === key));
      node.textContent = n < whole ? `Show all ${count(whole)}` : "Show site, tokens and map alone";
    },
  };
}

/**
 * What is counted above the curve.
 * @param {Board} board
 * @param {Run} run
 * @returns {string}
 */
const titled = (board, run) => `combinations on ${run.label}, by ${board.a} minus ${board.b}`;

/**
 * All combinations: the curve, the options beneath it, and the cursor.
 * @param {Model<State>} model
 * @param {Board} board
 * @param {Go} go
 * @param {Scale} axis of differences
 * @returns {{ node: HTMLElement, paint: (view: View) => void }}
 */
function overview(model, board, go, axis) {
  const spec = h("div", { class: "lrp-spec" }), title = h("p", { class: "lrp-heading" });
  const tally = h("p", { class: "lrp-tally lrp-readout" }), slider = cursor(model, go, axis);
  const caption = h("figcaption", { class: "lrp-readout" });
  /** @type {ReturnType<typeof optionRow>[]} */
  let rows = [];
  /** @type {Table | null} */
  let shown = null;
  const more = moreOf(model), average = h("span", { class: "lrp-average" }, "mean");
  const fold = foldOf((open) => {
    for (const node of [average, ...rows.flatMap(({ nodes }) => nodes)]) {
      node.toggleAttribute("hidden", !open);
    }
    slider.node.style.gridArea = `1 / 2 / span ${open ? 1 + rows.length : 1}`;
  });
  const buttons = h("div", { class: "lrp-controls" }, more.node, fold.node);
  /** @param {View} view */
  const redraw = ({ run, table }) => {
    const n = table.order.length, whole = tableOf(board, run).order.length;
    rows = board.axes.flatMap(({ options }, k) =>
      options.map((option, place) => optionRow(table, option, k, place))
    );
    rows.forEach(({ nodes }, k) =>
      nodes.forEach((node, column) => {
        node.style.gridArea = `${k + 2} / ${column + 1}`;
      })
    );
    slider.node.setAttribute("aria-valuemax", String(n));
    spec.replaceChildren(
      rungs(axis),
      curve(table, axis),
      average,
      ...rows.flatMap(({ nodes }) => nodes),
      slider.node,
      h("span", { class: "lrp-way lrp-up" }, `${board.a} nearer ↑`),
      h("span", { class: "lrp-way lrp-down" }, `${board.b} nearer ↓`),
    );
    fold.show();
    title.textContent = `${n < whole ? "" : "All "}${count(n)} ${titled(board, run)}`;
    more.paint(board, whole, n);
    tally.replaceChildren(...tallies(board, table));
  };
  /** @param {View} view */
  const paint = (view) => {
    const { table, cell } = view;
    if (shown !== table) redraw(view);
    shown = table;
    slider.paint(view);
    for (const { axis, place, nodes } of rows) {
      for (const node of nodes) node.classList.toggle("lrp-on", table.option(cell, axis) === place);
    }
    caption.textContent = `The line marks this combination, ${
      rankInWords(view)
    }; drag it, or use its arrow keys.`;
  };
  return {
    node: h("figure", { class: "lrp-all" }, title, tally, buttons, spec, caption),
    paint,
  };
}

/**
 * The lines above the table: the difference with its verdict, and all choices in words.
 * @param {Board} board
 * @returns {{ words: HTMLElement, chosen: HTMLElement, paint: (view: View) => void }}
 */
function sentences(board) {
  const words = h("p", { class: "lrp-words lrp-readout" }), chosen = h("p", { class: "lrp-chosen" });
  /** @param {View} view */
  const paint = (view) => {
    const { run, table, cell } = view, { sentence, verdict, sign, n, lacking } = inWords(view);
    const values = ["b", "a", "d"].flatMap((measure) =>
      Object.values(table.interval(cell, /** @type {Measure} */ (measure)))
    );
    words.replaceChildren(`${sentence}: `, h("strong", {}, verdict));
    words.className = `lrp-words lrp-readout lrp-${sign}`;
    Object.assign(words.dataset, { values: values.join(" "), n, undefined: lacking, rank: rankOf(view) + 1 });
    const choices = board.axes.map(({ label, options }, axis) =>
      `${label}: ${options[table.option(cell, axis)].label}`
    );
    chosen.textContent = [run.label, ...choices].join("; ");
  };
  return { words, chosen, paint };
}

/**
 * Lay out a board.
 * @param {Model<State>} model
 * @param {Board} board
 * @param {Go} go
 * @returns {{ nodes: HTMLElement[], paint: (view: View) => void }}
 */
function layOut(model, board, go) {
  const scales = scalesOf(board), presets = presetButtons(board, go), rows = switches(model, board, go);
  const said = sentences(board),
    table = measureTable(board, scales),
    all = overview(model, board, go, scales.d);
  /** @param {View} view */
  const paint = (view) => {
    rows.show(view);
    presets.show(view);
    table.paint(view);
    said.paint(view);
    all.paint(view);
  };
  const numbers = h("summary", {}, "Both methods in numbers, and the paper's");
  const more = h("details", { class: "lrp-more" }, numbers, table.nodes);
  more.toggleAttribute("open", Boolean(document.querySelector(".reveal"))); // a slide shows them at once
  return { nodes: [...presets.nodes, rows.node, said.words, said.chosen, all.node, more], paint };
}

/**
 * A tab per board, where there are several; `show` marks the board in view.
 * @param {Board[]} boards
 * @param {(board: Board) => void} open
 * @returns {{ nodes: HTMLElement[], panel: HTMLElement, show: (board: Board) => void }}
 */
function tabsOf(boards, open) {
  if (boards.length < 2) return { nodes: [], panel: h("div"), show() {} };
  const panel = h("div", { role: "tabpanel" });
  const tabs = boards.map((board) =>
    h("button", { type: "button", role: "tab", onclick: () => open(board) }, board.label)
  );
  const stop = oneTabStop(tabs);
  /** @param {Board} shown */
  const show = (shown) => {
    tabs.forEach((tab, k) => tab.setAttribute("aria-selected", String(boards[k] === shown)));
    stop(tabs[boards.indexOf(shown)]);
    panel.setAttribute("aria-label", shown.label);
  };
  const bar = h("div", { class: "lrp-tabs", role: "tablist", "aria-label": "Data" }, tabs);
  return { nodes: [bar], panel, show };
}

/**
 * Tell where a chart is pressed or drawn across. A finger counts once it goes across or is lifted as a tap:
 * a stroke up or down scrolls the page, and nothing else.
 * @param {Element} node
 * @param {(event: PointerEvent) => void} point
 * @returns {void}
 */
function followPointer(node, point) {
  /** @type {PointerEvent | null} */
  let first = null;
  let free = false;
  const on = (/** @type {string} */ kind, /** @type {(event: PointerEvent) => void} */ call) =>
    node.addEventListener(kind, (event) => call(/** @type {PointerEvent} */ (event)));
  on("pointerdown", (event) => {
    if (event.button !== 0) return;
    node.setPointerCapture(event.pointerId);
    [first, free] = [event, event.pointerType !== "touch"];
    if (free) point(event);
  });
  on("pointermove", (event) => {
    if (!first) return;
    free ||= Math.abs(event.clientX - first.clientX) > Math.abs(event.clientY - first.clientY);
    if (free) point(event);
  });
  on("pointerup", (event) => {
    if (first && !free) point(event);
    first = null;
  });
  on("pointercancel", () => {
    first = null;
  });
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { boards } = model.get("data"), live = liveLine();
  /** @type {Map<Board, { run: Run, choices: string[] }>} */
  const left = new Map(); // the state in which each board was left
  /** @type {Go} */
  const go = (board, run, choices) => put(model, { board: board.key, run: run.key, choices });
  const tabs = tabsOf(boards, (board) => {
    const { run, choices } = left.get(board) ?? startOf(board);
    go(board, run, choices);
  });
  /** @type {Board | null} */
  let shown = null;
  let paint = (/** @type {View} */ _view) => {};
  el.replaceChildren(...tabs.nodes, tabs.panel, live.node);
  return follow(model, ["board", "run", "choices", "all"], () => {
    const view = settle(model), { board, run, cell } = view;
    if (shown !== board) {
      const layout = layOut(model, board, go);
      tabs.panel.replaceChildren(...layout.nodes);
      shown = board;
      paint = layout.paint;
    }
    tabs.show(board);
    left.set(board, { run, choices: keysOf(view, cell) });
    paint(view);
    const { sentence, verdict } = inWords(view);
    live.say(`${sentence}: ${verdict}; ${rankInWords(view)}`);
  });
}

export default front({ render, accept });
