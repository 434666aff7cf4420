// Perturbation curves, step by step: two methods side by side.

/** @typedef {"left" | "right"} Side */
/** @typedef {"morf" | "lerf"} Order */

/**
 * Which tokens go at each step, the logit before each step and at the end, and its mean along the curve.
 * @typedef {{ steps: number[][], logits: number[], mean: number }} Curve
 */

/**
 * @typedef {{ scores: number[], morf: Curve, lerf: Curve }} Explanation
 * @typedef {Tokens & { label: string, methods: { [method: string]: Explanation } }} Text
 * @typedef {{ methods: { [method: string]: string }, texts: Text[] }} Data
 * @typedef {{ data: Data, text: number, left: string, right: string, order: Order, step: number }} State
 */

/** @typedef {{ name: string, logits: number[], removed: number[] }} Line logits over counts of gone tokens */

/** @type {Side[]} */
const SIDES = ["left", "right"];
const SIGNS = { left: "◆", right: "✕" };
const ORDER_NAMES = { morf: "most relevant first (MoRF)", lerf: "least relevant first (LeRF)" };
const BOX = { left: 44, right: 236, top: 22, bottom: 158 }; // names of the lines stand right of it
const MARKS = { left: "M0 -4.5L4.5 0 0 4.5 -4.5 0Z", right: "M-4 -4L4 4M-4 4L4 -4" };

/**
 * @param {"text" | "step" | "order" | Side} key
 * @param {number | string} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { methods, texts } = model.get("data");
  const explanations = texts.flatMap((text) => Object.values(text.methods));
  const longest = Math.max(
    ...explanations.flatMap(({ morf, lerf }) => [morf.steps.length, lerf.steps.length]),
  );
  return {
    text: () => isPlace(value, texts.length),
    step: () => isPlace(value, longest + 1),
    order: () => Object.hasOwn(ORDER_NAMES, value),
    left: () => Object.hasOwn(methods, value),
    right: () => Object.hasOwn(methods, value),
  }[key]();
}

/**
 * How many tokens are gone before each step and at the end.
 * @param {number[][]} steps
 * @returns {number[]}
 */
function removedBy(steps) {
  const counts = [0];
  for (const places of steps) counts.push(counts[counts.length - 1] + places.length);
  return counts;
}

/**
 * Where counts of tokens and logits lie in the picture, and the round numbers along its edges.
 * @param {Line[]} lines
 * @returns {{ x: (count: number) => number, y: (logit: number) => number, grid: SVGElement[] }}
 */
function axesOf(lines) {
  const logits = lines.flatMap((line) => line.logits);
  const spare = 0.06 * (Math.max(...logits) - Math.min(...logits) || 1);
  const low = Math.min(...logits) - spare, high = Math.max(...logits) + spare;
  const most = Math.max(1, ...lines.map(({ removed }) => removed[removed.length - 1]));
  const x = (/** @type {number} */ count) => BOX.left + ((BOX.right - BOX.left - 6) * count) / most;
  const y = (/** @type {number} */ logit) =>
    BOX.bottom - ((BOX.bottom - BOX.top) * (logit - low)) / (high - low);
  const { ticks, digits } = roundTicks(low, high, 4), counts = roundTicks(0, most, 4).ticks;
  const grid = gridOf(
    BOX,
    ticks.map((logit) => [y(logit), say(logit, digits)]),
    counts.filter(Number.isInteger).map((count) => [x(count), say(count, 0)]),
  );
  return { x, y, grid };
}

/**
 * The names right of the lines: of the whole text, and of both methods with their marks.
 * @param {Line[]} lines
 * @param {(logit: number) => number} y
 * @returns {SVGElement[]}
 */
function namesOf(lines, y) {
  /** @type {{ name: string, side: Side | null, at: number }[]} */
  const ends = [{ name: "whole text", side: null, at: y(lines[0].logits[0]) }];
  lines.forEach(({ name, logits }, k) => {
    ends.push({ name, side: SIDES[k], at: y(logits[logits.length - 1]) });
  });
  return spreadLabels(ends, 15, BOX.top, BOX.bottom).flatMap(({ name, side, at }) => {
    const short = name.length > 11 ? `${name.slice(0, 10)}…` : name;
    const text = svg("text", { x: BOX.right + (side ? 14 : 3), y: at + 4 }, short);
    if (!side) return [text];
    const transform = `translate(${BOX.right + 7} ${at})`;
    return [text, svg("path", { d: MARKS[side], transform, class: `lrp-marks lrp-${side}` })];
  });
}

/**
 * The logit against removed tokens, a line per side: drawn through up to the step, dotted after it.
 * @returns {{ node: SVGElement,
 *   paint: (lines: Line[], step: number, target: string, label: string) => void }}
 */
function chart() {
  const grid = svg("g", {}), names = svg("g", {}), middle = (BOX.left + BOX.right) / 2;
  const whole = svg("line", { x1: BOX.left, x2: BOX.right, class: "lrp-whole" });
  const under = svg("text", { x: middle, y: 194, "text-anchor": "middle" }, "tokens removed");
  const beside = svg("text", { x: 4, y: 12 });
  const dotted = svg("text", { x: 316, y: 194, "text-anchor": "end" }, "dotted: to come");
  const drawn = SIDES.map((side) => ({
    side,
    ahead: svg("path", { class: `lrp-ahead lrp-${side}` }),
    done: svg("path", { class: `lrp-done lrp-${side}` }),
    marks: svg("g", { class: `lrp-marks lrp-${side}` }),
  }));
  const frame = { viewBox: "0 0 320 200", role: "img", class: "lrp-curve" };
  const parts = drawn.flatMap(({ ahead, done, marks }) => [ahead, done, marks]);
  const node = svg("svg", frame, grid, whole, parts, names, under, dotted, beside);
  /** @param {Line[]} lines @param {number} step @param {string} target @param {string} label */
  const paint = (lines, step, target, label) => {
    const { x, y, grid: drawnGrid } = axesOf(lines);
    grid.replaceChildren(...drawnGrid);
    for (const end of ["y1", "y2"]) whole.setAttribute(end, String(y(lines[0].logits[0])));
    beside.textContent = `logit of ${target}`;
    drawn.forEach(({ side, ahead, done, marks }, k) => {
      const { logits, removed } = lines[k], now = Math.min(step, logits.length - 1);
      const points = logits.map((logit, i) => `${x(removed[i]).toFixed(1)} ${y(logit).toFixed(1)}`);
      const past = points.slice(0, now + 1);
      done.dataset.logits = logits.join(" ");
      ahead.setAttribute("d", `M${points.slice(now).join("L")}`);
      done.setAttribute("d", `M${past.join("L")}`);
      const mark = (/** @type {string} */ at) =>
        svg("path", { d: MARKS[side], transform: `translate(${at})` });
      marks.replaceChildren(...past.map(mark));
    });
    names.replaceChildren(...namesOf(lines, y));
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

/**
 * A curve's state at a step: which tokens are gone, which go next, and the logit.
 * @param {Curve} curve
 * @param {number} step
 * @returns {{ gone: number[], next: number[], logit: number }}
 */
function curveAt({ steps, logits }, step) {
  const now = Math.min(step, steps.length);
  return { gone: steps.slice(0, now).flat(), next: steps[now] ?? [], logit: logits[now] };
}

/**
 * One side: its method, the tokens as they go, and what goes next. `paint` returns what is read out.
 * @param {Model<State>} model
 * @param {Side} side
 * @returns {{ node: HTMLElement, paint: (step: number) => string }}
 */
function panel(model, side) {
  const { methods, texts } = model.get("data"), names = Object.keys(methods);
  const pick = (/** @type {number} */ place) => put(model, { [side]: names[place] });
  const choose = dropdown(`Method ${SIGNS[side]}`, Object.values(methods), pick);
  const tokens = h("div", {}), ahead = h("p", { class: "lrp-readout" });
  const frame = { class: `lrp-panel lrp-${side}`, "aria-label": `${side} method` };
  let shown = "", row = tokenRow([], [], "");
  /** @param {number} step */
  const paint = (step) => {
    const place = model.get("text"), text = texts[place], method = model.get(side);
    const explanation = text.methods[method],
      { gone, next, logit } = curveAt(explanation[model.get("order")], step);
    if (shown !== `${place} ${method}`) {
      shown = `${place} ${method}`;
      row = tokenRow(text.tokens, text.special, `Relevance by ${methods[method]}`);
      row.paint(explanation.scores);
      tokens.replaceChildren(row.node);
    }
    markTokens([...row.node.children], gone, next);
    choose.show(names.indexOf(method));
    const words = next.map((i) => text.tokens[i]).join(" ");
    const score = sum(next.map((i) => explanation.scores[i])), sign = score >= 0 ? "+" : "";
    const value = `${sign}${say(score, decimalsFor(explanation.scores))}`;
    if (next.length) ahead.replaceChildren("next: “", h("bdi", {}, words), `” (${value})`);
    else ahead.replaceChildren("only the special tokens are left");
    const removed = gone.map((i) => text.tokens[i]).join(", ");
    return `${methods[method]} has removed ${gone.length ? removed : "nothing"}, logit ${say(logit)}`;
  };
  return { node: h("div", frame, choose.node, tokens, ahead), paint };
}

/**
 * Show which tokens are gone and which go next, by class and for screen readers.
 * @param {Element[]} items
 * @param {number[]} gone
 * @param {number[]} next
 * @returns {void}
 */
function markTokens(items, gone, next) {
  items.forEach((item, i) => {
    const isGone = gone.includes(i), isNext = next.includes(i);
    item.classList.toggle("lrp-gone", isGone);
    item.classList.toggle("lrp-next", isNext);
    if (isGone || isNext) item.setAttribute("aria-description", isGone ? "removed" : "goes next");
    else item.removeAttribute("aria-description");
  });
}

/**
 * Both methods in numbers: the logit now, and the means of their curves.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, paint: (step: number) => void }}
 */
function summary(model) {
  const { methods, texts } = model.get("data"), body = h("tbody", {});
  const caption = h("caption", {}, "Mean logit along the curves; Δ = LeRF − MoRF");
  const head = tableHead(["Method", "logit now", "MoRF ↓", "LeRF ↑", "Δ"]);
  const node = h("table", { class: "lrp-numbers" }, caption, head, body);
  /** @param {number} step */
  const paint = (step) => {
    const rows = SIDES.map((side) => {
      const method = model.get(side), explanation = texts[model.get("text")].methods[method];
      const { logits } = explanation[model.get("order")], logit = logits[Math.min(step, logits.length - 1)];
      const morf = explanation.morf.mean, lerf = explanation.lerf.mean;
      const cells = [logit, morf, lerf, lerf - morf].map((value) => h("td", {}, say(value)));
      const name = h("th", { scope: "row" }, `${SIGNS[side]} ${methods[method]}`);
      return h("tr", { "data-logit": logit, "data-morf": morf, "data-lerf": lerf }, name, cells);
    });
    body.replaceChildren(...rows);
  };
  return { node, paint };
}

/**
 * What the reader turns besides the methods: text, order, and the step by button, by slider or by itself.
 * @param {Model<State>} model
 * @returns {{ nodes: HTMLElement[], stop: () => void, here: () => number, show: () => string }}
 *   `show` brings the controls up to date and returns the step in words
 */
function controls(model) {
  const { texts } = model.get("data");
  const last = () => {
    const { methods } = texts[model.get("text")];
    return Math.max(...SIDES.map((side) => methods[model.get(side)][model.get("order")].steps.length));
  };
  const steps = stepper(model, { last, pause: 900 }), { stop, here } = steps;
  /** @param {Partial<State>} values */
  const turn = (values) => {
    stop();
    put(model, values);
  };
  const text = dropdown("Text", texts.map(beginning), (place) => turn({ text: place }));
  const order = choice("Remove the", ORDER_NAMES, (value) => turn({ order: /** @type {Order} */ (value) }));
  const button = (/** @type {string} */ name, /** @type {() => number} */ step) =>
    h("button", { type: "button", onclick: () => steps.jump(step()) }, name);
  const back = [button("First", () => 0), button("Back", () => here() - 1)];
  const forward = [button("Forward", () => here() + 1), button("Last", last)];
  const show = () => {
    text.show(model.get("text"));
    order.show(model.get("order"));
    steps.show();
    return `Step ${here()} of ${last()}, ${ORDER_NAMES[model.get("order")]}`;
  };
  const buttons = h("div", { class: "lrp-buttons" }, back, steps.play, forward);
  const nodes = [
    h("div", { class: "lrp-controls" }, text.node, order.node),
    h("div", { class: "lrp-controls" }, buttons, steps.slider, steps.count),
  ];
  return { nodes, stop, here, show };
}

/**
 * Both methods' curves for the text and order in force.
 * @param {Model<State>} model
 * @returns {Line[]}
 */
function linesOf(model) {
  const { methods, texts } = model.get("data");
  return SIDES.map((side) => {
    const method = model.get(side),
      { steps, logits } = texts[model.get("text")].methods[method][model.get("order")];
    return { name: methods[method], logits, removed: removedBy(steps) };
  });
}

/**
 * What the curves show at a step, in words.
 * @param {Line[]} lines
 * @param {Order} order
 * @param {number} step
 * @returns {string}
 */
function inWords(lines, order, step) {
  const [a, b] = lines.map(({ logits }) => say(logits[Math.min(step, logits.length - 1)]));
  const [first, second] = lines.map(({ name }) => name);
  if (a === b) return `At step ${step} the logit is ${a} in either order.`;
  const says = order === "morf"
    ? "The lower one removed what matters sooner."
    : "The higher one kept what matters longer.";
  return `At step ${step} the logit is ${a} in the order of ${first}, ${b} in that of ${second}. ${says}`;
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { texts } = model.get("data"), live = liveLine(), turns = controls(model);
  const panels = SIDES.map((side) => panel(model, side));
  const curve = chart(), said = h("p", { class: "lrp-readout lrp-gap" }), table = summary(model);
  const means = { class: "lrp-scroll", role: "region", tabindex: 0, "aria-label": "Means of the curves" };
  el.replaceChildren(
    ...turns.nodes,
    said,
    h(
      "div",
      { class: "lrp-watch" },
      h("div", { class: "lrp-panels" }, panels.map(({ node }) => node)),
      h("div", { class: "lrp-outcome" }, h("figure", {}, curve.node), h("div", means, table.node)),
    ),
    live.node,
  );
  const end = follow(model, ["text", "left", "right", "order", "step"], () => {
    const { label } = texts[model.get("text")], step = turns.here(), at = turns.show();
    const gone = panels.map((side) => side.paint(step));
    const words = `${at}: ${gone.join("; ")}`;
    table.paint(step);
    const lines = linesOf(model);
    said.textContent = inWords(lines, model.get("order"), step);
    curve.paint(lines, step, label, `Curves of the logit of ${label}. ${words}`);
    live.say(words);
  });
  return () => {
    turns.stop();
    end();
  };
}

export default front({ render, accept });
