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
const BOX = { left: 36, right: 304, top: 24, bottom: 160 }; // the names of the lines stand below it
const RUNG = 0.25; // r on the vertical axis goes in these steps
const GAPS = [1, 2, 5, 10, 20, 50, 100, 200, 500]; // between numbers of passes
const FALL = 0.1; // a fall of r below an earlier step that asks for a word
const KEY = "Orange with a line below: for the class; blue with a dotted line above: against it. " +
  "Both rows are on the scale of LOO's words. ";
const ERROR = "Error: sum of |estimate − LOO| over sum of |LOO|, on the same tokens as r.";

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
  const back = backwards ? ` and ${backwards} backward` : "";
  return `${forwards} forward${back} pass${(backwards || forwards) === 1 ? "" : "es"}`;
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
 * What is said of the map in force, and announced.
 * @param {View} view
 * @returns {string}
 */
function inWords({ text, way, tokens, step }) {
  const { passes, r, exact } = text.ways[way], known = exact[step];
  const groups = way === "groups" && step > 1 ? `, ${step} groups` : "";
  const where = tokens === "all" ? " on words and special tokens" : "";
  const own = known ? `; ${known} token${known === 1 ? " has" : "s have"} LOO's own value (dots)` : "";
  const agreement = `r with LOO${where} ${say(r[tokens][step] ?? NaN)}${own}`;
  const cost = `LOO itself takes ${passesInWords([text.forwards, 0])}`;
  return `${passesInWords(passes[step])}${groups}: ${agreement}. ${cost}.`;
}

/**
 * r and error of every way for the passes that are spent here.
 * @param {Ways} ways
 * @param {View} view
 * @returns {string}
 */
function compared(ways, { text, way, tokens, step }) {
  const most = costOf(text, way, step);
  const parts = Object.entries(ways).map(([name, { label }]) => {
    const { passes, r, error } = text.ways[name], last = passes.findLastIndex((one) => sum(one) <= most);
    if (last < 0) return `${label} takes more`;
    return `${label} r ${say(r[tokens][last] ?? NaN)}, error ${say(error[tokens][last] ?? NaN)}`;
  });
  return `For at most ${most} passes, forward and backward: ${parts.join("; ")}.`;
}

/**
 * The word whose scores by groups explain the deepest falls of r, the tokens that fade with it, and
 * the numbers of groups at which they do.
 * @param {View} view
 * @returns {{ word: number, mates: number[], groups: number[] } | null}
 */
function fallOfGroups({ text, way, tokens }) {
  const { tokens: names, special, loo } = text, r = text.ways[way].r[tokens];
  const falls = r.map((value, p) => Math.max(...r.slice(0, p).map((r) => r ?? -1)) - (value ?? 1));
  const ranked = falls.map((_, p) => p).filter((p) => falls[p] >= FALL).sort((p, q) => falls[q] - falls[p]);
  const gaps = (/** @type {number} */ p) =>
    scoresAt(text, way, p).scores.map((x, i) => tokens !== "all" && special[i] ? 0 : Math.abs(x - loo[i]));
  const worst = (/** @type {number} */ p) => gaps(p).indexOf(Math.max(...gaps(p)));
  const word = ranked.length ? worst(ranked[0]) : -1;
  const mates = names.map((_, i) => i).filter((i) => i !== word && (i - word) % ranked[0] === 0);
  if (!mates.length) return null;
  const alike = ranked.filter((p) => worst(p) === word && mates.every((i) => (i - word) % p === 0));
  return { word, mates, groups: alike };
}

/**
 * Why r falls on this sentence as more passes are spent; nothing where it does not.
 * @param {View} view
 * @returns {(string | Node)[]}
 */
function fallInWords(view) {
  const { text, way, tokens } = view, r = text.ways[way].r[tokens];
  if (way === "hybrid" && r.some((value, p) => (r[p - 1] ?? -1) - (value ?? 1) >= FALL)) {
    return [" Where r falls, no token has moved away from LOO: some have its values, others the gradient's."];
  }
  const fall = way === "groups" ? fallOfGroups(view) : null;
  if (!fall) return [];
  const { word, mates, groups } = fall, name = (/** @type {number} */ i) => h("bdi", {}, text.tokens[i]);
  const [score, loo] = [scoresAt(text, way, groups[0]).scores, text.loo].map((all) => sayScore(all[word], 2));
  const others = mates.length > 1 ? ` and ${mates.length - 1} more` : "";
  const at = new Intl.ListFormat("en-GB").format(groups.toSorted((p, q) => p - q).map(String));
  const told = `”${others} there and gets ${score} (at ${groups[0]}); alone, as in LOO, ${loo}.`;
  return [` Why r falls at ${at} groups: “`, name(word), "” fades together with “", name(mates[0]), told];
}

/**
 * Where passes and r lie in the picture, and which numbers stand along its edges: all that the way in force
 * reaches, from 0.
 * @param {View} view
 * @returns {{ x: (passes: number) => number, y: (r: number) => number, rungs: number[], marks: number[] }}
 */
function axesOf({ text, way, tokens }) {
  const { r, passes } = text.ways[way], rungs = [], marks = [];
  const low = Math.min(0, RUNG * Math.floor(Math.min(...r[tokens].map((value) => value ?? 0)) / RUNG));
  const most = Math.max(text.forwards, costOf(text, way, passes.length - 1));
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
 * r against passes: the way in force, the others faintly, the reader's point and what LOO costs.
 * @param {Ways} ways
 * @returns {{ node: SVGElement, paint: (view: View, label: string) => void }}
 */
function chart(ways) {
  const names = Object.keys(ways), middle = (BOX.left + BOX.right) / 2;
  const grid = svg("g", {}), point = svg("circle", { r: 5 });
  const upright = (/** @type {string} */ kind) => svg("line", { y1: BOX.top, y2: BOX.bottom, class: kind });
  const now = upright("lrp-frontier-now"), bound = upright("lrp-frontier-loo");
  const over = svg("text", { y: BOX.bottom - 6, "text-anchor": "end" }, "what LOO costs");
  const lines = names.map((way) => svg("path", { class: `lrp-frontier-line lrp-frontier-${way}` }));
  const key = names.map((way, k) => [
    svg("path", { d: `M${BOX.left + 92 * k} 206h20`, class: `lrp-frontier-line lrp-frontier-${way}` }),
    svg("text", { x: BOX.left + 92 * k + 25, y: 210 }, ways[way].label),
  ]);
  const drawn = names.map((_, k) => svg("g", {}, lines[k], key[k]));
  const beside = svg("text", { x: 4, y: 11 });
  const under = svg("text", { x: middle, y: 190, "text-anchor": "middle" }, "passes, forward and backward");
  const frame = { viewBox: "0 0 320 216", role: "img", class: "lrp-frontier-chart" };
  const node = svg("svg", frame, grid, bound, over, now, drawn, point, beside, under);
  /** @param {View} view @param {string} label */
  const paint = (view, label) => {
    const { text, way, tokens, step } = view, axes = axesOf(view), { x, y } = axes;
    const here = x(costOf(text, way, step)), level = text.ways[way].r[tokens][step];
    grid.replaceChildren(...gridOf(
      BOX,
      axes.rungs.map((r) => [y(r), say(r)]),
      axes.marks.map((passes) => [x(passes), say(passes, 0)]),
    ));
    names.forEach((name, k) => {
      const points = text.ways[name].r[tokens].map((r, step) => {
        const at = x(costOf(text, name, step)), seen = r !== null && r >= axes.rungs[0] && at <= BOX.right;
        return /** @type {[number, number | null]} */ ([at, seen ? y(r) : null]);
      });
      lines[k].setAttribute("d", pathThrough(points));
      drawn[k].setAttribute("class", name === way ? "lrp-frontier-on" : "");
    });
    for (const end of ["x1", "x2"]) {
      bound.setAttribute(end, String(x(text.forwards)));
      now.setAttribute(end, String(here));
    }
    over.setAttribute("x", String(x(text.forwards) - 4));
    point.style.display = level === null ? "none" : "";
    point.setAttribute("class", `lrp-frontier-here lrp-frontier-${way}`);
    point.setAttribute("cx", String(here));
    point.setAttribute("cy", String(y(level ?? 0)));
    beside.textContent = `r with LOO on the ${TOKEN_NAMES[tokens]}`;
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
      map = tokenRow(text.tokens, text.special, "Estimate so far");
      const loo = tokenRow(text.tokens, text.special, "LOO");
      loo.paint(text.loo);
      const titles = [title("Estimate so far"), title("LOO, for the class ", h("bdi", {}, text.label))];
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
 * Everything that the reader turns: sentence, way, tokens, and the step by slider or by itself.
 * @param {Model<State>} model
 * @returns {{ above: HTMLElement[], steps: HTMLElement, tokens: HTMLElement, stop: () => void,
 *   view: () => View, show: () => void }} `show` brings the controls up to date
 */
function controls(model) {
  const { ways, texts } = model.get("data");
  const last = (place = model.get("text")) => texts[place].tokens.length;
  const steps = stepper(model, { last, pause: 700 });
  /** @param {Partial<State>} values */
  const change = (values) => {
    steps.stop();
    put(model, { ...values, step: Math.min(steps.here(), last(values.text)) });
  };
  const sentence = dropdown("Sentence", texts.map(beginning), (text) => change({ text }));
  const labels = Object.fromEntries(Object.entries(ways).map(([name, { label }]) => [name, label]));
  const way = choice("More passes go to", labels, (value) => change({ way: value }));
  const tokens = choice("r on", TOKEN_NAMES, (value) => change({ tokens: value }));
  const row = (/** @type {Child[]} */ ...parts) => h("div", { class: "lrp-controls" }, ...parts);
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
    steps.show();
  };
  const moving = row(steps.play, steps.slider, steps.count);
  return {
    above: [row(sentence.node), row(way.node)],
    steps: moving,
    tokens: tokens.node,
    stop: steps.stop,
    view,
    show,
  };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { ways } = model.get("data"), live = liveLine(), turns = controls(model);
  const rows = maps(), curve = chart(ways);
  const about = h("p", { class: "lrp-quiet" }), said = h("p", { class: "lrp-readout lrp-frontier-said" });
  const numbers = h("p", { class: "lrp-readout lrp-frontier-numbers" });
  const mark = h("span", { class: "lrp-frontier-mark" }, "●");
  const key = h("p", { class: "lrp-quiet" }, KEY, mark, ": LOO's own value.");
  el.replaceChildren(
    said,
    ...turns.above,
    about,
    turns.steps,
    h(
      "div",
      { class: "lrp-outcome" },
      h("div", { class: "lrp-frontier-side" }, rows.node, key),
      h("figure", {}, curve.node),
    ),
    h(
      "details",
      { class: "lrp-more" },
      h("summary", {}, "More numbers"),
      turns.tokens,
      numbers,
      h("p", { class: "lrp-quiet" }, ERROR),
    ),
    live.node,
  );
  const end = follow(model, ["text", "way", "tokens", "step"], () => {
    const view = turns.view(), { label, says } = ways[view.way], words = inWords(view);
    turns.show();
    said.textContent = words;
    about.replaceChildren(`${label}: ${says}.`, ...fallInWords(view));
    numbers.textContent = compared(ways, view);
    rows.paint(view);
    curve.paint(view, `r with LOO against passes. ${label}: ${words} ${numbers.textContent}`);
    live.say(words);
  });
  return () => {
    turns.stop();
    end();
  };
}

export default front({ render, accept });
