// Passes spent one after another on a sentence: the map nears LOO, with r and cost.

/**
 * What one way gives at each step: which tokens are exact, what it says of the others, passes, r and error.
 * @typedef {object} Steps
 * @property {number[]} order
 * @property {number[]} exact how many tokens of the order have LOO's value
 * @property {(number | number[] | null)[]} rest one number or one per token; null where nothing changes
 * @property {[number, number][]} passes forward and backward
 * @property {{ [tokens: string]: (number | null)[] }} r null where it is undefined
 * @property {{ [tokens: string]: (number | null)[] }} error
 */

/**
 * @typedef {Tokens & { label: string, loo: number[], forwards: number, ways: { [way: string]: Steps } }} Text
 * @typedef {{ [way: string]: { label: string, counts: string, says: string } }} Ways
 * @typedef {{ data: { ways: Ways, texts: Text[] }, text: number, way: string, tokens: string,
 *   step: number }} State
 * @typedef {{ text: Text, way: string, tokens: string, step: number }} View the state in force
 */

/** @type {{ [tokens: string]: string }} */
const TOKEN_NAMES = { "no-special": "words", all: "words and special tokens" };
const BOX = { left: 36, right: 200, top: 24, bottom: 160 }; // names of the lines stand right of it
const RUNG = 0.25; // r on the vertical axis goes in these steps
const GAPS = [1, 2, 5, 10, 20, 50, 100, 200, 500]; // between numbers of passes
const KEY = "Orange with a line below: for the class. Blue with a dotted line above: against it. " +
  "Both rows have LOO's scale, set by its words; what is larger has the end's colour. ";
const KEY_OF_MARK = " after a token: the value is LOO's own. " +
  "Error: sum of |map − LOO| over sum of |LOO|, on the same tokens as r.";

/**
 * @param {"text" | "way" | "tokens" | "step"} key
 * @param {number | string} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { ways, texts } = model.get("data");
  return {
    text: () => isPlace(value, texts.length),
    way: () => Object.hasOwn(ways, value),
    tokens: () => Object.hasOwn(TOKEN_NAMES, value),
    step: () => isPlace(value, 1 + Math.max(...texts.map((text) => text.tokens.length))),
  }[key]();
}

/**
 * The map at a step: LOO where it is exact, elsewhere what the way says of the others.
 * @param {Text} text
 * @param {string} way
 * @param {number} step
 * @returns {{ exact: Set<number>, scores: number[] }}
 */
function scoresAt({ loo, ways }, way, step) {
  const { order, exact, rest } = ways[way];
  const others = rest.slice(0, step + 1).findLast((values) => values !== null) ?? 0; // null: as before
  const known = new Set(order.slice(0, exact[step]));
  const guess = (/** @type {number} */ i) => Array.isArray(others) ? others[i] : others;
  return { exact: known, scores: loo.map((value, i) => (known.has(i) ? value : guess(i))) };
}

/**
 * @param {[number, number]} passes forward and backward
 * @returns {string}
 */
function passesInWords([forwards, backwards]) {
  const count = (/** @type {number} */ number, /** @type {string} */ kind) =>
    `${number} ${kind} pass${number === 1 ? "" : "es"}`;
  if (!backwards) return count(forwards, "forward");
  if (forwards === backwards) return `${count(forwards, "forward")} and as many backward`;
  return `${forwards} forward and ${count(backwards, "backward")}`;
}

/**
 * Forward and backward passes of a way at a step.
 * @param {Text} text
 * @param {string} way
 * @param {number} step
 * @returns {number}
 */
function costOf(text, way, step) {
  return sum(text.ways[way].passes[step]);
}

/**
 * The last step of a way that takes no more passes than given; -1 where there is none.
 * @param {Text} text
 * @param {string} way
 * @param {number} passes
 * @returns {number}
 */
function affordable(text, way, passes) {
  return text.ways[way].passes.findLastIndex((_, step) => costOf(text, way, step) <= passes);
}

/**
 * What is said of the map in force: passes, r and error.
 * @param {View} view
 * @returns {string}
 */
function inWords({ text, way, tokens, step }) {
  const { passes, r, error } = text.ways[way], value = r[tokens][step];
  const size = value === null ? "undefined" : `= ${say(value)}`;
  const agreement = `r ${size} with LOO on the ${TOKEN_NAMES[tokens]}`;
  const cost = `LOO itself: ${passesInWords([text.forwards, 0])}`;
  return `${passesInWords(passes[step])}: ${agreement}, error ${say(error[tokens][step] ?? NaN)} (${cost})`;
}

/**
 * Where passes and r lie in the picture, and which numbers stand along its edges.
 * @param {Text} text
 * @returns {{ x: (passes: number) => number, y: (r: number) => number, rungs: number[], marks: number[] }}
 */
function axesOf(text) {
  const names = Object.keys(text.ways), last = text.tokens.length, rungs = [], marks = [];
  const all = names.flatMap((way) => Object.values(text.ways[way].r).flat()).filter((r) => r !== null);
  const low = Math.min(1 - RUNG, RUNG * Math.floor(Math.min(...all) / RUNG));
  const most = Math.max(text.forwards, ...names.map((way) => costOf(text, way, last)));
  const gap = GAPS.find((size) => most / size <= 6) ?? most;
  for (let r = low; r <= 1; r += RUNG) rungs.push(r);
  for (let passes = 0; passes <= most; passes += gap) marks.push(passes);
  return {
    x: (passes) => BOX.left + ((BOX.right - BOX.left) * passes) / most,
    y: (r) => BOX.bottom - ((BOX.bottom - BOX.top) * (r - low)) / (1 - low),
    rungs,
    marks,
  };
}

/**
 * A line through points; an undefined one breaks it.
 * @param {[number, number | null][]} points
 * @returns {string}
 */
function pathThrough(points) {
  return points.map(([x, y], k) => {
    if (y === null) return "";
    return `${k && points[k - 1][1] !== null ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}

/**
 * The grid: a line per rung of r, and both edges' numbers.
 * @param {ReturnType<typeof axesOf>} axes
 * @returns {SVGElement[]}
 */
function gridOf({ x, y, rungs, marks }) {
  const rows = rungs.flatMap((r) => [
    svg("line", { x1: BOX.left, x2: BOX.right, y1: y(r), y2: y(r), class: "lrp-frontier-rung" }),
    svg("text", { x: BOX.left - 5, y: y(r) + 4, "text-anchor": "end" }, say(r)),
  ]);
  const columns = marks.map((passes) =>
    svg("text", { x: x(passes), y: BOX.bottom + 15, "text-anchor": "middle" }, say(passes, 0))
  );
  return [...rows, ...columns];
}

/**
 * The names right of the lines.
 * @param {Ways} ways
 * @param {View} view
 * @param {(r: number) => number} y
 * @returns {SVGElement[]}
 */
function endsOf(ways, { text, way, tokens }, y) {
  const ends = Object.keys(ways).map((name) => {
    const r = text.ways[name].r[tokens].at(-1) ?? null;
    return { name, at: r === null ? BOX.bottom : y(r) };
  });
  return spreadLabels(ends, 16, BOX.top, BOX.bottom).flatMap(({ name, at }) => {
    const kind = `lrp-frontier-line lrp-frontier-${name} ${name === way ? "lrp-frontier-on" : ""}`;
    const place = { x: BOX.right + 27, y: at + 4, class: name === way ? "lrp-frontier-name" : "" };
    return [
      svg("path", { d: `M${BOX.right + 5} ${at}h18`, class: kind }),
      svg("text", place, ways[name].label),
    ];
  });
}

/**
 * r against passes, one line per way, with the reader's point and what LOO costs.
 * @param {Ways} ways
 * @returns {{ node: SVGElement, paint: (view: View, label: string) => void }}
 */
function chart(ways) {
  const names = Object.keys(ways), middle = (BOX.left + BOX.right) / 2;
  const grid = svg("g", {}), ends = svg("g", {}), point = svg("circle", { r: 5, class: "lrp-frontier-here" });
  const now = svg("line", { y1: BOX.top, y2: BOX.bottom, class: "lrp-frontier-now" });
  const bound = svg("line", { y1: BOX.top, y2: BOX.bottom, class: "lrp-frontier-loo" });
  const over = svg("text", { y: BOX.top - 5, "text-anchor": "middle" }, "LOO");
  const lines = names.map((way) => svg("path", { class: `lrp-frontier-line lrp-frontier-${way}` }));
  const beside = svg("text", { x: 4, y: 12 }, "r with LOO");
  const under = svg("text", { x: middle, y: 194, "text-anchor": "middle" }, "passes, forward and backward");
  const frame = { viewBox: "0 0 320 200", role: "img", class: "lrp-frontier-chart" };
  const node = svg("svg", frame, grid, bound, over, now, lines, point, ends, beside, under);
  /** @param {View} view @param {string} label */
  const paint = (view, label) => {
    const { text, way, tokens, step } = view, axes = axesOf(text), { x, y } = axes;
    const height = (/** @type {number | null} */ r) => r === null ? null : y(r);
    const here = x(costOf(text, way, step)), level = height(text.ways[way].r[tokens][step]);
    grid.replaceChildren(...gridOf(axes));
    names.forEach((name, k) => {
      const r = text.ways[name].r[tokens];
      lines[k].setAttribute(
        "d",
        pathThrough(r.map((value, at) => [x(costOf(text, name, at)), height(value)])),
      );
      lines[k].classList.toggle("lrp-frontier-on", name === way);
    });
    for (const end of ["x1", "x2"]) {
      bound.setAttribute(end, String(x(text.forwards)));
      now.setAttribute(end, String(here));
    }
    over.setAttribute("x", String(x(text.forwards)));
    point.style.display = level === null ? "none" : "";
    point.setAttribute("class", `lrp-frontier-here lrp-frontier-${way}`);
    if (level !== null) {
      point.setAttribute("cx", String(here));
      point.setAttribute("cy", String(level));
    }
    ends.replaceChildren(...endsOf(ways, view, y));
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

/**
 * The map at this step above LOO's; both rows are remade for another text.
 * @returns {{ node: HTMLElement, paint: (view: View) => void }}
 */
function maps() {
  const node = h("div", { class: "lrp-frontier-maps" });
  const title = (/** @type {Child[]} */ ...words) => h("p", { class: "lrp-frontier-title" }, ...words);
  /** @type {Text | null} */
  let shown = null;
  let map = tokenRow([], [], "");
  /** @param {View} view */
  const paint = ({ text, way, step }) => {
    const { exact, scores } = scoresAt(text, way, step);
    if (shown !== text) {
      shown = text;
      map = tokenRow(text.tokens, text.special, "Map at this step");
      const loo = tokenRow(text.tokens, text.special, "LOO");
      loo.paint(text.loo);
      const titles = [title("Map at this step"), title("LOO, for the class ", h("bdi", {}, text.label))];
      node.replaceChildren(titles[0], map.node, titles[1], loo.node);
    }
    map.paint(scores, text.loo);
    map.node.dataset.scores = scores.join(" ");
    [...map.node.children].forEach((item, i) => {
      item.classList.toggle("lrp-frontier-exact", exact.has(i));
      if (exact.has(i)) item.setAttribute("aria-description", "exact LOO value");
      else item.removeAttribute("aria-description");
    });
  };
  return { node, paint };
}

/**
 * What each way gives for the passes that are spent here.
 * @param {Ways} ways
 * @returns {{ node: HTMLElement, paint: (view: View) => void }}
 */
function budgetTable(ways) {
  const caption = h("caption", {}), body = h("tbody", {});
  const head = tableHead(["Way", "passes", "r", "error"]);
  const node = h("table", { class: "lrp-frontier-bought" }, caption, head, body);
  /** @param {View} view */
  const paint = ({ text, way, tokens, step }) => {
    const most = costOf(text, way, step);
    caption.textContent = `What each way says for at most ${most} passes`;
    const rows = Object.keys(ways).map((name) => {
      const last = affordable(text, name, most), { r, error } = text.ways[name];
      const values = [r, error].map((list) => say(list[tokens][last] ?? NaN));
      const cells = last < 0 ? ["–", "–", "–"] : [say(costOf(text, name, last), 0), ...values];
      const attributes = { "data-way": name, class: name === way ? "lrp-frontier-name" : "" };
      return h(
        "tr",
        attributes,
        h("th", { scope: "row" }, ways[name].label),
        cells.map((cell) => h("td", {}, cell)),
      );
    });
    body.replaceChildren(...rows);
  };
  return { node, paint };
}

/**
 * Everything that the reader turns: sentence, way, tokens, and the step by slider or by itself.
 * @param {Model<State>} model
 * @returns {{ nodes: HTMLElement[], steps: HTMLElement, stop: () => void, view: () => View,
 *   show: () => string }} `show` brings the controls up to date and returns the step in words
 */
function controls(model) {
  const { ways, texts } = model.get("data");
  const last = (place = model.get("text")) => texts[place].tokens.length;
  const steps = stepper(model, { last, pause: 700, kind: "lrp-frontier-play" });
  /** @param {Partial<State>} values */
  const change = (values) => {
    steps.stop();
    put(model, { ...values, step: Math.min(steps.here(), last(values.text)) });
  };
  const sentence = dropdown("Sentence", texts.map(beginning), (text) => change({ text }));
  const labels = Object.fromEntries(Object.entries(ways).map(([name, { label }]) => [name, label]));
  const way = choice("More passes go to", labels, (value) => change({ way: value }));
  const tokens = choice("r on", TOKEN_NAMES, (value) => change({ tokens: value }));
  const slide = () => {
    steps.stop();
    steps.go(Number(slider.value));
  };
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step", oninput: slide });
  const count = h("span", { class: "lrp-readout" });
  const row = (/** @type {string} */ kind, /** @type {Child[]} */ ...parts) =>
    h("div", { class: kind }, ...parts);
  const view = () => ({
    text: texts[model.get("text")],
    way: model.get("way"),
    tokens: model.get("tokens"),
    step: steps.here(),
  });
  const show = () => {
    sentence.show(model.get("text"));
    way.show(model.get("way"));
    tokens.show(model.get("tokens"));
    slider.max = String(last());
    slider.value = String(steps.here());
    const words = `${ways[model.get("way")].counts}: ${steps.here()} of ${last()}`;
    count.textContent = words;
    slider.setAttribute("aria-valuetext", words);
    return words;
  };
  const nodes = [row("lrp-controls", sentence.node), row("lrp-controls", way.node, tokens.node)];
  const moving = row("lrp-controls lrp-frontier-steps", steps.play, slider, count);
  return { nodes, steps: moving, stop: steps.stop, view, show };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { ways } = model.get("data"), live = liveLine(), turns = controls(model);
  const rows = maps(), curve = chart(ways), table = budgetTable(ways);
  const about = h("p", { class: "lrp-quiet" }), said = h("p", { class: "lrp-readout lrp-frontier-said" });
  const mark = h("span", { class: "lrp-frontier-mark" }, "●"), caption = h("figcaption", {});
  el.replaceChildren(
    ...turns.nodes,
    about,
    turns.steps,
    said,
    rows.node,
    h("p", { class: "lrp-quiet" }, KEY, mark, KEY_OF_MARK),
    h("div", { class: "lrp-outcome" }, h("figure", {}, caption, curve.node), table.node),
    live.node,
  );
  const end = follow(model, ["text", "way", "tokens", "step"], () => {
    const view = turns.view(), { text, way, tokens } = view, words = inWords(view), at = turns.show();
    const title = `r with LOO on the ${TOKEN_NAMES[tokens]} against passes; upright line: what LOO costs`;
    about.textContent = `${ways[way].label}: ${ways[way].says}.`;
    said.textContent = words;
    caption.textContent = title;
    rows.paint(view);
    table.paint(view);
    const endings = Object.keys(ways).map((name) =>
      `${ways[name].label} ends at ${say(text.ways[name].r[tokens].at(-1) ?? NaN)}`
    );
    curve.paint(view, `${title}. ${ways[way].label} here: ${words}. ${endings.join(", ")}.`);
    live.say(`${ways[way].label}, ${at}. ${words}`);
  });
  return () => {
    turns.stop();
    end();
  };
}

export default front({ render, accept });
