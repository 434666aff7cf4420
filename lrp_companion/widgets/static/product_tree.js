// A product as a tree: regroup it, and see relevance move. A grouping is a factor's place (from 0) or a list of groupings.
const MOST = 5, LARGEST = 1e60, HALF = 21, FLOW = 20, LEVEL = 78; // factors; size of one; in pixels: half a box, a number above it, a level
const FRACTIONS = { 2: "½", 3: "⅓", 4: "¼", 5: "⅕" };

const flat = (n) => Array.from({ length: n }, (_, i) => i);
const left = (n) => flat(n).reduce((tree, leaf) => [tree, leaf]);
const right = (n) => flat(n).reduceRight((tree, leaf) => [leaf, tree]);
const PRESETS = { left, right, flat };
const isLeaf = Number.isInteger;
const leaves = (tree) => [tree].flat(Infinity);
const write = (tree) => (isLeaf(tree) ? `x${tree + 1}` : tree.map(bracket).join(" "));
const bracket = (part) => (isLeaf(part) ? write(part) : `(${write(part)})`);
const undo = (name) => `Dissolve the product ${name}`;
const pair = (first, second) => `Multiply ${bracket(first)} and ${bracket(second)} first`;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const times = (list) => list.reduce((all, x) => all * x, 1);
const evaluate = (tree, values) => (isLeaf(tree) ? values[tree] : times(tree.map((part) => evaluate(part, values))));

/** A grouping from its text, or null where it is none of 2 to 5 factors in order. */
function parse(text) {
  const stack = [[]], lone = (list) => (list.length === 1 ? list[0] : list);
  if (text.length > 200) return null;
  for (const piece of text.match(/[()]|x\d+|[^\s()·*]+/g) ?? []) {
    if (piece === "(") stack.push([]);
    else if (piece === ")" && stack.length > 1 && stack.at(-1).length) { const inner = lone(stack.pop()); stack.at(-1).push(inner); }
    else if (/^x\d+$/.test(piece)) stack.at(-1).push(Number(piece.slice(1)) - 1);
    else return null;
  }
  const tree = lone(stack[0]), found = leaves(tree);
  return stack.length === 1 && found.length > 1 && found.length <= MOST && same(found, flat(found.length)) ? tree : null;
}

/** The grouping with some of its products rewritten; a product of one part is that part. */
function rewrite(tree, change) {
  if (isLeaf(tree)) return tree;
  const parts = change(tree).map((part) => rewrite(part, change));
  return parts.length === 1 ? parts[0] : parts;
}
const join = (tree, product, i) => rewrite(tree, (own) => (own === product ? [...own.slice(0, i), [own[i], own[i + 1]], ...own.slice(i + 2)] : own));
const dissolve = (tree, product) => rewrite(tree, (own) => own.flatMap((part) => (part === product ? part : [part])));
const drop = (tree, leaf) => rewrite(tree, (own) => own.filter((part) => part !== leaf));

/** Every node from the output down, with what the uniform rule hands it: each of k parts receives 1/k (Eq. 3). */
function nodes(tree, values) {
  const list = [];
  const visit = (node, relevance, parts, depth, above) => {
    const own = leaves(node), value = evaluate(node, values);
    const item = { node, name: write(node), value, relevance, parts, depth, above, x: (100 * ((own[0] + own.at(-1)) / 2 + 0.5)) / values.length };
    list.push(item);
    if (!isLeaf(node)) item.below = node.map((part) => visit(part, relevance / node.length, parts * node.length, depth + 1, item));
    return item;
  };
  visit(tree, evaluate(tree, values), 1, 0, null);
  return list;
}

/** The curve on which relevance comes down to a node: where it bends, where it ends, and its x at some height. */
function curve({ x, y, above, below }) {
  const end = y - FLOW - (below ? HALF : 0), deep = end - above.y, bend = Math.min(deep / 2, 60);
  const path = `M${above.x} ${above.y}Q${x} ${above.y + bend} ${x} ${end}`;
  return { path, end, at(down) {
    const t = down / (bend + Math.sqrt(bend * bend + (deep - 2 * bend) * down));
    return above.x * (1 - t) ** 2 + x * (1 - (1 - t) ** 2);
  } };
}

/** At most four significant digits, no trailing zeros. */
function short(value) {
  const size = Math.abs(value), text = size && (size >= 1e6 || size < 1e-4) ? value.toExponential(3).replace(/\.?0*e\+?/, "e") : String(Number(value.toPrecision(4)));
  return (size ? text : "0").replaceAll("-", "\u2212");
}

/** A name such as `(x1 x2) x3` with its indices set low. */
const pretty = (name) => name.split(/(\d)/).map((piece, i) => (i % 2 ? h("sub", {}, piece) : piece));

const fits = (value) => Number.isFinite(value) && Math.abs(value) <= LARGEST;

function accept(key, value) {
  return key === "values" ? value.length >= 2 && value.length <= MOST && value.every(fits) : parse(value) !== null;
}

function render({ model, el }) {
  const live = liveLine();
  const values = () => model.get("values"), count = () => values().length;
  const grouped = () => {
    const tree = parse(model.get("grouping"));
    return tree && leaves(tree).length === count() ? tree : flat(count());
  };
  const preset = () => Object.keys(PRESETS).filter((name) => same(PRESETS[name](count()), grouped()));
  const set = (tree, list) => put(model, { ...(list && { values: list }), grouping: write(tree) });
  const add = () => {
    const n = count() + 1, kept = preset()[0];
    if (n <= MOST) set(kept ? PRESETS[kept](n) : [...grouped(), n - 1], [...values(), n + 1]);
  };
  const remove = () => { if (count() > 2) set(drop(grouped(), count() - 1), values().slice(0, -1)); };
  const regroup = (tree, next) => { focused = next; set(tree); };

  const button = (text, onclick, label) => h("button", { type: "button", onclick, "aria-label": label, title: label }, text);
  const presets = Object.keys(PRESETS).map((name) => button(name, () => set(PRESETS[name](count()))));
  const less = button("\u2212 factor", remove, "Remove the last factor"), more = button("+ factor", add, "Add a factor");
  const head = h("p", { class: "lrp-readout lrp-head" }), problem = h("p", { class: "lrp-problem", hidden: true });
  const lines = svg("svg", { role: "img", preserveAspectRatio: "none" }), stage = h("div", { class: "lrp-stage", role: "group", "aria-label": "Tree of the product" });
  const row = h("div", { class: "lrp-leaves" }), chart = h("div", { class: "lrp-chart" }), sums = h("p", { class: "lrp-readout" });
  let inputs = [], labels = [], focused = null;

  const fill = () => inputs.forEach((input, i) => {
    if (input.valueAsNumber !== values()[i]) input.value = values()[i];
    input.setAttribute("aria-invalid", false);
  });
  const type = (i) => {
    const value = inputs[i].valueAsNumber, fine = fits(value);
    inputs[i].setAttribute("aria-invalid", !fine);
    problem.hidden = fine;
    problem.textContent = fine ? "" : `x${i + 1} has to be a number of at most 1e60 in size; ${short(values()[i])} is kept.`;
    if (fine) put(model, { values: values().map((own, k) => (k === i ? value : own)) });
    else live.say(problem.textContent);
  };
  const build = (n) => {
    inputs = flat(n).map((i) => h("input", { type: "number", step: "any", "aria-label": `x${i + 1}`, oninput: () => type(i), onchange: () => { problem.hidden = true; fill(); } }));
    labels = flat(n).map((i) => h("span", {}, pretty(`x${i + 1}`)));
    row.replaceChildren(...inputs.map((input, i) => h("label", {}, labels[i], input)));
  };

  const paintTree = (items, part, ink) => {
    const n = count(), tall = HALF + LEVEL * (n - 1), height = Math.max(...items.map((item) => item.depth));
    const controls = [], shown = [];
    for (const item of items) item.y = isLeaf(item.node) ? tall : HALF + ((tall - HALF) * item.depth) / height;
    stage.style.height = `${tall}px`;
    stage.dataset.n = n;
    lines.setAttribute("viewBox", `0 0 100 ${tall}`);
    lines.setAttribute("aria-label", items.filter(({ below }) => below).map(({ name, value, below }, i) =>
      `${i ? name : `The output ${name}`} = ${short(value)} hands ${short(below[0].relevance)} each to ${below.map((own) => bracket(own.node)).join(", ")}`).join("; "));
    lines.replaceChildren(...items.filter(({ above }) => above).map((item) =>
      svg("path", { d: curve(item).path, fill: "none", stroke: ink, "stroke-width": 1.5 + 9 * part(item.relevance), "vector-effect": "non-scaling-stroke" })));
    const at = (node, x, y) => { node.style.left = `${x}%`; node.style.top = `${y}px`; return node; };
    const visit = (item) => {
      const { node, name, value, relevance, above, below, x, y } = item;
      if (above) shown.push(at(h("span", { class: "lrp-flow", "aria-hidden": "true" }, h("span", {}, "↓ "), short(relevance)), x, y - FLOW / 2 - (below ? HALF : 0)));
      if (!below) return;
      const inside = [h("span", {}, above ? h("span", { class: "lrp-name" }, pretty(name), " = ") : "f = ", h("b", {}, short(value))), h("small", {}, `${FRACTIONS[node.length]} to each`)];
      const label = undo(name);
      const box = above
        ? h("button", { type: "button", class: "lrp-box", "aria-label": label, title: label, onclick: () => regroup(dissolve(items[0].node, node), pair(node[0], node[1])) }, inside)
        : h("div", { class: "lrp-box", "aria-hidden": "true" }, inside);
      box.style.background = shade(0.9 * part(relevance) * Math.sign(relevance));
      shown.push(at(box, x, y));
      if (above) controls.push(box);
      below.forEach((first, i) => {
        visit(first);
        const second = below[i + 1];
        if (below.length < 3 || !second) return;
        const arcs = [curve(first), curve(second)], room = Math.min(arcs[0].end, arcs[1].end) - y;
        const down = Math.min(0.55 * room, room - 13);
        const label = pair(first.node, second.node);
        const cross = h("button", { type: "button", class: "lrp-join", "aria-label": label, title: label, onclick: () => regroup(join(items[0].node, node, i), undo(write([first.node, second.node]))) }, "×");
        shown.push(at(cross, (arcs[0].at(down) + arcs[1].at(down)) / 2, y + down));
        controls.push(cross);
      });
    };
    const inside = stage.contains(document.activeElement);
    focused ??= document.activeElement?.getAttribute("aria-label");
    visit(items[0]);
    stage.replaceChildren(lines, ...shown);
    const stop = oneTabStop(controls), next = controls.find((control) => control.getAttribute("aria-label") === focused);
    if (next) stop(next);
    if (inside) (next ?? controls[0] ?? presets[0]).focus({ preventScroll: true });
    focused = null;
  };

  const paintChart = (series, f, part, ink) => {
    chart.replaceChildren(...series.map(([kind, title, scores]) => {
      const sum = short(scores.reduce((a, b) => a + b, 0));
      const cells = scores.map((score) => {
        const bar = h("i", {});
        bar.style.cssText = `width:${100 * part(score)}%;--lrp-bar:${kind === "lrp" ? ink : "var(--lrp-ink)"}`;
        return h("div", { class: f < 0 ? "lrp-minus" : "" }, h("div", { class: "lrp-track" }, bar), h("span", {}, short(score)));
      });
      const label = `${title}: ${scores.map((score, i) => `x${i + 1} ${short(score)}`).join(", ")}; sum ${sum}`;
      return h("div", { class: "lrp-series", role: "img", "aria-label": label, "data-kind": kind, "data-scores": JSON.stringify(scores) },
        h("p", {}, h("span", {}, title), h("span", { class: "lrp-quiet" }, `sum ${sum}`)), h("div", { class: "lrp-cells" }, cells));
    }));
  };

  const paint = () => {
    const list = values(), n = list.length, tree = grouped(), items = nodes(tree, list), f = items[0].value;
    if (inputs.length !== n) build(n);
    const leaf = flat(n).map((i) => items.find((item) => item.node === i)), relevance = leaf.map((item) => item.relevance);
    const part = (amount) => (f ? Math.abs(amount / f) : 0), ink = f ? shade(Math.sign(f)) : "var(--lrp-rule)";
    el.style.setProperty("--lrp-count", n);
    fill();
    labels.forEach((label, i) => { label.style.background = shade(0.9 * part(relevance[i]) * Math.sign(relevance[i])); });
    Object.keys(PRESETS).forEach((name, i) => presets[i].setAttribute("aria-pressed", preset().includes(name)));
    less.setAttribute("aria-disabled", n === 2);
    more.setAttribute("aria-disabled", n === MOST);
    paintTree(items, part, ink);
    const ig = list.map((x, i) => (x * times(list.filter((_, j) => j !== i))) / n);
    const loo = list.map((_, i) => f - evaluate(tree, list.map((x, j) => (i === j ? 0 : x))));
    paintChart([["lrp", "LRP along the tree", relevance], ["ig", `IG from zero: f/${n} each`, ig], ["loo", "LOO: all of f each", loo]], f, part, ink);
    const text = `relevance ${relevance.map(short).join(", ")} of f = ${short(f)}.`;
    head.replaceChildren("Grouping ", ...pretty(write(tree)), `: ${text}`);
    sums.textContent = `Shares of f: ${leaf.map(({ parts }) => `1/${parts}`).join(", ")}; they sum to 1. LOO sums to ${n} f = ${short(loo.reduce((a, b) => a + b, 0))}.`;
    live.say(`Grouping ${write(tree)}: ${text}`);
  };

  el.replaceChildren(h("div", { class: "lrp-product" },
    h("div", { class: "lrp-controls" }, h("div", { role: "group", "aria-label": "Grouping" }, presets), h("div", { role: "group", "aria-label": "Number of factors" }, less, more)),
    head, stage, row, problem,
    h("p", { class: "lrp-quiet lrp-hint" }, "× multiplies two neighbours first. Click an inner product to dissolve it. Type other numbers."),
    chart, sums, live.node));
  return follow(model, ["values", "grouping"], paint);
}

export default front({ render, accept });
