// A product as a tree: regroup it, and see relevance move.

/** @typedef {Tree[]} Product its parts */
/** @typedef {number | Product} Tree a factor's place from 0, or a product */

/**
 * A node of the drawn tree: its value, what it is handed, and where it stands (x in percent, y in pixels).
 * @typedef {object} Item
 * @property {Tree} node
 * @property {string} name
 * @property {number} value
 * @property {number} relevance
 * @property {number} parts its relevance is f over this number
 * @property {number} depth
 * @property {Item | null} above
 * @property {Item[]} below
 * @property {number} x
 * @property {number} y
 */

/**
 * How amounts are drawn next to f: as a fraction of it, and as a colour.
 * @typedef {object} Scale
 * @property {number} f
 * @property {string} ink
 * @property {(amount: number) => number} part
 * @property {(amount: number) => string} tint
 */

/** @typedef {{ data: {}, values: number[], grouping: string }} State */

const MOST = 5; // factors
const LARGEST = 1e60; // size of a factor
const HALF = 21, FLOW = 20, LEVEL = 78; // in pixels: half a box, a number above it, a level
/** @type {{ [count: number]: string }} */
const FRACTIONS = { 2: "½", 3: "⅓", 4: "¼", 5: "⅕" };
const HINT = "× multiplies two neighbours first. Press an inner product to dissolve it. Type other numbers.";

/** @type {{ [name: string]: (count: number) => Tree }} */
const PRESETS = {
  left: (count) => flat(count).reduce((tree, leaf) => [tree, leaf]),
  right: (count) => flat(count).reduceRight((tree, leaf) => [leaf, tree]),
  flat,
};

/**
 * All factors in one product.
 * @param {number} count
 * @returns {Product}
 */
function flat(count) {
  return Array.from({ length: count }, (_, i) => i);
}

/**
 * @param {Tree} tree
 * @returns {tree is number}
 */
function isLeaf(tree) {
  return typeof tree === "number";
}

/**
 * The factors of a grouping, in order.
 * @param {Tree} tree
 * @returns {number[]}
 */
function leaves(tree) {
  return isLeaf(tree) ? [tree] : tree.flatMap(leaves);
}

/**
 * A grouping as text, such as `(x1 x2) x3`.
 * @param {Tree} tree
 * @returns {string}
 */
function write(tree) {
  return isLeaf(tree) ? `x${tree + 1}` : tree.map(bracket).join(" ");
}

/**
 * @param {Tree} part
 * @returns {string}
 */
function bracket(part) {
  return isLeaf(part) ? write(part) : `(${write(part)})`;
}

/**
 * A grouping from its text, or null where it is none of 2 to 5 factors in order.
 * @param {string} text
 * @returns {Tree | null}
 */
function parse(text) {
  if (text.length > 200) return null;
  /** @type {Product[]} */
  const open = [[]];
  const lone = (/** @type {Product} */ list) => (list.length === 1 ? list[0] : list);
  for (const piece of text.match(/[()]|x\d+|[^\s()·*]+/g) ?? []) {
    const inner = open[open.length - 1];
    if (piece === "(") open.push([]);
    else if (piece === ")" && open.length > 1 && inner.length) {
      open.pop();
      open[open.length - 1].push(lone(inner));
    } else if (/^x\d+$/.test(piece)) inner.push(Number(piece.slice(1)) - 1);
    else return null;
  }
  const tree = lone(open[0]), factors = leaves(tree);
  const fitting = factors.length > 1 && factors.length <= MOST && alike(factors, flat(factors.length));
  return open.length === 1 && fitting ? tree : null;
}

/**
 * The grouping with some of its products rewritten; a product of one part is that part.
 * @param {Tree} tree
 * @param {(product: Product) => Product} change
 * @returns {Tree}
 */
function rewrite(tree, change) {
  if (isLeaf(tree)) return tree;
  const parts = change(tree).map((part) => rewrite(part, change));
  return parts.length === 1 ? parts[0] : parts;
}

/**
 * The grouping in which a product's i-th part and the next are multiplied first.
 * @param {Tree} tree
 * @param {Tree} product one of the tree's own
 * @param {number} i
 * @returns {Tree}
 */
function join(tree, product, i) {
  return rewrite(tree, (parts) => {
    if (parts !== product) return parts;
    return [...parts.slice(0, i), [parts[i], parts[i + 1]], ...parts.slice(i + 2)];
  });
}

/**
 * The grouping in which a product's parts belong to the product above it.
 * @param {Tree} tree
 * @param {Tree} product one of the tree's own
 * @returns {Tree}
 */
function dissolve(tree, product) {
  return rewrite(tree, (parts) => parts.flatMap((part) => (part === product ? part : [part])));
}

/**
 * The grouping without one factor.
 * @param {Tree} tree
 * @param {number} leaf
 * @returns {Tree}
 */
function drop(tree, leaf) {
  return rewrite(tree, (parts) => parts.filter((part) => part !== leaf));
}

/**
 * @param {number[]} list
 * @returns {number}
 */
function times(list) {
  return list.reduce((product, x) => product * x, 1);
}

/**
 * The value of a grouping, multiplied in its order.
 * @param {Tree} tree
 * @param {number[]} values
 * @returns {number}
 */
function evaluate(tree, values) {
  return isLeaf(tree) ? values[tree] : times(tree.map((part) => evaluate(part, values)));
}

/**
 * Every node from the output down, with what the uniform rule hands it: each of k parts receives 1/k (Eq. 3).
 * @param {Tree} tree
 * @param {number[]} values
 * @returns {Item[]}
 */
function itemsOf(tree, values) {
  /** @type {Item[]} */
  const items = [];
  /** @type {(node: Tree, relevance: number, parts: number, depth: number, above: Item | null) => Item} */
  const visit = (node, relevance, parts, depth, above) => {
    const factors = leaves(node), middle = (factors[0] + factors[factors.length - 1]) / 2 + 0.5;
    const x = (100 * middle) / values.length, value = evaluate(node, values);
    /** @type {Item} */
    const item = { node, name: write(node), value, relevance, parts, depth, above, below: [], x, y: 0 };
    items.push(item);
    if (isLeaf(node)) return item;
    const count = node.length;
    item.below = node.map((part) => visit(part, relevance / count, parts * count, depth + 1, item));
    return item;
  };
  visit(tree, evaluate(tree, values), 1, 0, null);
  const deepest = Math.max(...items.map(({ depth }) => depth)), bottom = heightOf(values.length);
  for (const item of items) {
    item.y = isLeaf(item.node) ? bottom : HALF + ((bottom - HALF) * item.depth) / deepest;
  }
  return items;
}

/**
 * How far down the factors stand, in pixels.
 * @param {number} count
 * @returns {number}
 */
function heightOf(count) {
  return HALF + LEVEL * (count - 1);
}

/**
 * Integrated gradients from zero: f over n each.
 * @param {number[]} values
 * @returns {number[]}
 */
function integratedGradients(values) {
  return values.map((x, i) => (x * times(values.filter((_, j) => j !== i))) / values.length);
}

/**
 * What setting each factor to 0 takes from the product.
 * @param {Tree} tree
 * @param {number[]} values
 * @returns {number[]}
 */
function leaveOneOut(tree, values) {
  const f = evaluate(tree, values);
  return values.map((_, i) => f - evaluate(tree, values.map((x, j) => (i === j ? 0 : x))));
}

/**
 * The curve on which relevance comes down to a node: where it ends, and its x at some height below its start.
 * @param {Item} item
 * @param {Item} above
 * @returns {{ path: string, end: number, at: (down: number) => number }}
 */
function curve({ x, y, below }, above) {
  const end = y - FLOW - (below.length ? HALF : 0), deep = end - above.y, bend = Math.min(deep / 2, 60);
  const path = `M${above.x} ${above.y}Q${x} ${above.y + bend} ${x} ${end}`;
  const at = (/** @type {number} */ down) => {
    const t = down / (bend + Math.sqrt(bend * bend + (deep - 2 * bend) * down));
    return above.x * (1 - t) ** 2 + x * (1 - (1 - t) ** 2);
  };
  return { path, end, at };
}

/**
 * At most four significant digits, no trailing zeros.
 * @param {number} value
 * @returns {string}
 */
function short(value) {
  const size = Math.abs(value);
  if (!size) return "0";
  const far = size >= 1e6 || size < 1e-4;
  const text = far ? value.toExponential(3).replace(/\.?0*e\+?/, "e") : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "\u2212");
}

/**
 * A name such as `(x1 x2) x3` with its indices set low.
 * @param {string} name
 * @returns {Piece[]}
 */
function pretty(name) {
  return name.split(/(\d)/).map((piece, i) => (i % 2 ? h("sub", {}, piece) : piece));
}

/**
 * @param {number} value
 * @returns {boolean}
 */
function fits(value) {
  return Number.isFinite(value) && Math.abs(value) <= LARGEST;
}

/**
 * @param {"values" | "grouping"} _key
 * @param {number[] | string} value
 * @returns {boolean}
 */
function accept(_key, value) {
  if (typeof value === "string") return parse(value) !== null;
  return value.length >= 2 && value.length <= MOST && value.every(fits);
}

/**
 * The grouping in force; while the address names another number of factors, all of them in one product.
 * @param {Model<State>} model
 * @returns {Tree}
 */
function treeOf(model) {
  const tree = parse(model.get("grouping")), count = model.get("values").length;
  return tree !== null && leaves(tree).length === count ? tree : flat(count);
}

/**
 * The presets that give a grouping.
 * @param {Tree} tree
 * @returns {string[]}
 */
function presetsOf(tree) {
  const count = leaves(tree).length;
  return Object.keys(PRESETS).filter((name) => alike(PRESETS[name](count), tree));
}

/**
 * How amounts are drawn next to an output.
 * @param {number} f
 * @returns {Scale}
 */
function scaleFor(f) {
  const part = (/** @type {number} */ amount) => (f ? Math.abs(amount / f) : 0);
  const tint = (/** @type {number} */ amount) => shade(0.9 * part(amount) * Math.sign(amount));
  return { f, ink: f ? shade(Math.sign(f)) : "var(--lrp-rule)", part, tint };
}

/**
 * @param {string} text
 * @param {() => void} onclick
 * @param {string} [label]
 * @returns {HTMLButtonElement}
 */
function button(text, onclick, label) {
  return h("button", { type: "button", onclick, "aria-label": label, title: label }, text);
}

/**
 * Buttons for groupings with a name and for the number of factors; `show()` marks what holds.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, presets: HTMLElement[], show: () => void }}
 */
function controls(model) {
  const count = () => model.get("values").length;
  const names = Object.keys(PRESETS);
  const presets = names.map((name) =>
    button(name, () => put(model, { grouping: write(PRESETS[name](count())) }))
  );
  const add = () => {
    const next = count() + 1, tree = treeOf(model), [preset] = presetsOf(tree);
    if (next > MOST) return;
    const grown = preset ? PRESETS[preset](next) : [...(isLeaf(tree) ? [tree] : tree), next - 1];
    put(model, { values: [...model.get("values"), next + 1], grouping: write(grown) });
  };
  const remove = () => {
    if (count() <= 2) return;
    const grouping = write(drop(treeOf(model), count() - 1));
    put(model, { values: model.get("values").slice(0, -1), grouping });
  };
  const less = button("\u2212 factor", remove, "Remove the last factor");
  const more = button("+ factor", add, "Add a factor");
  const node = h(
    "div",
    { class: "lrp-controls" },
    h("div", { role: "group", "aria-label": "Grouping" }, presets),
    h("div", { role: "group", "aria-label": "Number of factors" }, less, more),
  );
  const show = () => {
    const holding = presetsOf(treeOf(model));
    presets.forEach((preset, i) => preset.setAttribute("aria-pressed", String(holding.includes(names[i]))));
    less.setAttribute("aria-disabled", String(count() === 2));
    more.setAttribute("aria-disabled", String(count() === MOST));
  };
  return { node, presets, show };
}

/**
 * The row of factors under the tree, to type into, and the line that says what cannot be.
 * @param {Model<State>} model
 * @param {(text: string) => void} announce
 * @returns {{ row: HTMLElement, problem: HTMLElement, paint: (relevance: number[], scale: Scale) => void }}
 */
function factors(model, announce) {
  const row = h("div", { class: "lrp-leaves" }), problem = h("p", { class: "lrp-problem", hidden: true });
  /** @type {HTMLInputElement[]} */
  let inputs = [];
  /** @type {HTMLElement[]} */
  let labels = [];
  const fill = () => {
    const values = model.get("values");
    problem.hidden = true;
    inputs.forEach((input, i) => {
      if (input.valueAsNumber !== values[i]) input.value = String(values[i]);
      input.setAttribute("aria-invalid", "false");
    });
  };
  const read = (/** @type {number} */ i) => {
    const value = inputs[i].valueAsNumber, fine = fits(value), values = model.get("values");
    const kept = `x${i + 1} must be a number of at most 1e60 in size; ${short(values[i])} is kept.`;
    inputs[i].setAttribute("aria-invalid", String(!fine));
    problem.hidden = fine;
    problem.textContent = fine ? "" : kept;
    if (fine) put(model, { values: values.map((x, k) => (k === i ? value : x)) });
    else announce(kept);
  };
  const build = (/** @type {number} */ count) => {
    const shared = { type: "number", step: "any", onchange: fill };
    const names = flat(count).map(write);
    inputs = names.map((name, i) => h("input", { ...shared, "aria-label": name, oninput: () => read(i) }));
    labels = names.map((name) => h("span", {}, pretty(name)));
    row.replaceChildren(...inputs.map((input, i) => h("label", {}, labels[i], input)));
  };
  /** @param {number[]} relevance @param {Scale} scale */
  const paint = (relevance, scale) => {
    if (inputs.length !== relevance.length) build(relevance.length);
    fill();
    labels.forEach((label, i) => {
      label.style.background = scale.tint(relevance[i]);
    });
  };
  return { row, problem, paint };
}

/**
 * The tree: lines, what comes down each, boxes that dissolve a product and crosses that make one.
 * @param {Model<State>} model
 * @param {HTMLElement[]} presets the first has the focus where the tree has no control left
 * @returns {{ stage: HTMLElement, paint: (items: Item[], scale: Scale) => void }}
 */
function treeView(model, presets) {
  const lines = svg("svg", { role: "img", preserveAspectRatio: "none" });
  const stage = h("div", { class: "lrp-stage", role: "group", "aria-label": "Tree of the product" });
  /** @type {string | null} */
  let focused = null; // the label of the control that takes the focus once the tree is repainted
  /** @param {Tree} tree @param {string} next */
  const regroup = (tree, next) => {
    focused = next;
    put(model, { grouping: write(tree) });
  };
  /** @param {Item[]} items @param {Scale} scale */
  const paint = (items, scale) => {
    const count = model.get("values").length, bottom = heightOf(count);
    stage.style.height = `${bottom}px`;
    stage.dataset.n = String(count);
    lines.setAttribute("viewBox", `0 0 100 ${bottom}`);
    lines.setAttribute("aria-label", treeInWords(items));
    lines.replaceChildren(...linesOf(items, scale));
    const { nodes, controls } = partsOf(items, scale, regroup);
    const inside = stage.contains(document.activeElement);
    focused ??= document.activeElement?.getAttribute("aria-label") ?? null;
    stage.replaceChildren(lines, ...nodes);
    const stop = oneTabStop(controls);
    const next = controls.find((control) => control.getAttribute("aria-label") === focused);
    if (next) stop(next);
    if (inside) (next ?? controls[0] ?? presets[0]).focus({ preventScroll: true });
    focused = null;
  };
  return { stage, paint };
}

/**
 * Which product hands how much to which parts, in words.
 * @param {Item[]} items
 * @returns {string}
 */
function treeInWords(items) {
  return items.filter(({ below }) => below.length).map(({ name, value, below }, i) => {
    const parts = below.map(({ node }) => bracket(node)).join(", ");
    const product = i ? name : `The output ${name}`;
    return `${product} = ${short(value)} gives ${short(below[0].relevance)} each to ${parts}`;
  }).join("; ");
}

/**
 * A line down to each node, as wide as what it carries.
 * @param {Item[]} items
 * @param {Scale} scale
 * @returns {SVGElement[]}
 */
function linesOf(items, { ink, part }) {
  return items.flatMap((item) => {
    if (!item.above) return [];
    const width = 1.5 + 9 * part(item.relevance);
    const look = { fill: "none", stroke: ink, "stroke-width": width, "vector-effect": "non-scaling-stroke" };
    return [svg("path", { d: curve(item, item.above).path, ...look })];
  });
}

/**
 * All that stands on the lines, from the output down, and which of it can be clicked.
 * @param {Item[]} items
 * @param {Scale} scale
 * @param {(tree: Tree, next: string) => void} regroup
 * @returns {{ nodes: HTMLElement[], controls: HTMLElement[] }}
 */
function partsOf(items, scale, regroup) {
  /** @type {HTMLElement[]} */
  const nodes = [];
  /** @type {HTMLElement[]} */
  const controls = [];
  const { node: tree } = items[0];
  const visit = (/** @type {Item} */ item) => {
    const { relevance, above, below, x, y } = item;
    if (above) {
      const flow = h(
        "span",
        { class: "lrp-flow", "aria-hidden": "true" },
        h("span", {}, "↓ "),
        short(relevance),
      );
      nodes.push(putAt(flow, x, y - FLOW / 2 - (below.length ? HALF : 0)));
    }
    if (!below.length) return;
    const box = boxOf(item, tree, regroup);
    box.style.background = scale.tint(relevance);
    nodes.push(putAt(box, x, y));
    if (above) controls.push(box);
    below.forEach((first, i) => {
      visit(first);
      if (below.length < 3 || i + 1 === below.length) return;
      const cross = crossOf(item, i, tree, regroup);
      nodes.push(cross);
      controls.push(cross);
    });
  };
  visit(items[0]);
  return { nodes, controls };
}

/**
 * @param {HTMLElement} node
 * @param {number} x in percent
 * @param {number} y in pixels
 * @returns {HTMLElement}
 */
function putAt(node, x, y) {
  node.style.left = `${x}%`;
  node.style.top = `${y}px`;
  return node;
}

/**
 * @param {string} name
 * @returns {string}
 */
function labelOfBox(name) {
  return `Dissolve the product ${name}`;
}

/**
 * @param {Tree} first
 * @param {Tree} second
 * @returns {string}
 */
function labelOfCross(first, second) {
  return `Multiply ${bracket(first)} and ${bracket(second)} first`;
}

/**
 * A product's box: the output's only shows, an inner one's dissolves it.
 * @param {Item} item
 * @param {Tree} tree
 * @param {(tree: Tree, next: string) => void} regroup
 * @returns {HTMLElement}
 */
function boxOf({ node, name, value, above, below }, tree, regroup) {
  const called = above ? h("span", { class: "lrp-name" }, pretty(name), " = ") : "f = ";
  const inside = [
    h("span", {}, called, h("b", {}, short(value))),
    h("small", {}, `${FRACTIONS[below.length]} to each`),
  ];
  if (!above) return h("div", { class: "lrp-box", "aria-hidden": "true" }, inside);
  const label = labelOfBox(name), next = labelOfCross(below[0].node, below[1].node);
  const onclick = () => regroup(dissolve(tree, node), next);
  return h(
    "button",
    { type: "button", class: "lrp-box", "aria-label": label, title: label, onclick },
    inside,
  );
}

/**
 * The cross between a product's i-th part and the next, which multiplies the two first.
 * @param {Item} product
 * @param {number} i
 * @param {Tree} tree
 * @param {(tree: Tree, next: string) => void} regroup
 * @returns {HTMLElement}
 */
function crossOf(product, i, tree, regroup) {
  const { node, below, y } = product, first = below[i], second = below[i + 1];
  const curves = [curve(first, product), curve(second, product)];
  const room = Math.min(curves[0].end, curves[1].end) - y, down = Math.min(0.55 * room, room - 13);
  const label = labelOfCross(first.node, second.node), next = labelOfBox(write([first.node, second.node]));
  const onclick = () => regroup(join(tree, node, i), next);
  const cross = h(
    "button",
    { type: "button", class: "lrp-join", "aria-label": label, title: label, onclick },
    "×",
  );
  return putAt(cross, (curves[0].at(down) + curves[1].at(down)) / 2, y + down);
}

/**
 * One method's scores as a row of bars under the factors.
 * @param {string} kind
 * @param {string} title
 * @param {number[]} scores
 * @param {Scale} scale
 * @returns {HTMLElement}
 */
function barsOf(kind, title, scores, { f, ink, part }) {
  const all = short(sum(scores));
  const cells = scores.map((score) => {
    const bar = h("i", {}), colour = kind === "lrp" ? ink : "var(--lrp-ink)";
    bar.style.cssText = `width:${100 * part(score)}%;--lrp-bar:${colour}`;
    const track = h("div", { class: "lrp-track" }, bar);
    return h("div", { class: f < 0 ? "lrp-minus" : "" }, track, h("span", {}, short(score)));
  });
  const list = scores.map((score, i) => `x${i + 1} ${short(score)}`).join(", ");
  const said = { role: "img", "aria-label": `${title}: ${list}; sum ${all}` };
  const head = h("p", {}, h("span", {}, title), h("span", { class: "lrp-quiet" }, `sum ${all}`));
  const data = { "data-kind": kind, "data-scores": JSON.stringify(scores) };
  return h("div", { class: "lrp-series", ...said, ...data }, head, h("div", { class: "lrp-cells" }, cells));
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const live = liveLine(), turns = controls(model), leafRow = factors(model, live.say);
  const drawn = treeView(model, turns.presets);
  const head = h("p", { class: "lrp-readout lrp-head" }), sums = h("p", { class: "lrp-readout" });
  const chart = h("div", { class: "lrp-chart" }), hint = h("p", { class: "lrp-quiet lrp-hint" }, HINT);
  const inside = [turns.node, head, drawn.stage, leafRow.row, leafRow.problem, hint, chart, sums, live.node];
  el.replaceChildren(h("div", { class: "lrp-product" }, inside));
  return follow(model, ["values", "grouping"], () => {
    const values = model.get("values"), count = values.length, tree = treeOf(model);
    const items = itemsOf(tree, values), f = items[0].value, scale = scaleFor(f);
    const handed = items.filter(({ node }) => isLeaf(node)), relevance = handed.map((item) => item.relevance);
    const gradients = integratedGradients(values), loo = leaveOneOut(tree, values);
    el.style.setProperty("--lrp-count", String(count));
    leafRow.paint(relevance, scale);
    turns.show();
    drawn.paint(items, scale);
    chart.replaceChildren(
      barsOf("lrp", "LRP along the tree", relevance, scale),
      barsOf("ig", `IG from zero: f/${count} each`, gradients, scale),
      barsOf("loo", "LOO: all of f each", loo, scale),
    );
    const text = `relevance ${relevance.map(short).join(", ")} of f = ${short(f)}.`;
    head.replaceChildren("Grouping ", ...pretty(write(tree)), `: ${text}`);
    const shares = handed.map(({ parts }) => `1/${parts}`).join(", ");
    sums.textContent = `Shares of f: ${shares}; they sum to 1. LOO sums to ${count} f = ${short(sum(loo))}.`;
    live.say(`Grouping ${write(tree)}: ${text}`);
  });
}

export default front({ render, accept });
