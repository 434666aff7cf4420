// One attention read-out on sliders.

/** @typedef {"logits" | "values"} Input */
/** @typedef {{ logits: number[], values: number[] }} Inputs one of each per token */
/** @typedef {Inputs & { data: { limits: { [input in Input]: number } } }} State */
/** @typedef {"attention" | "loo" | "cp" | "attnlrp" | "value" | "logit"} Quantity a number per token */
/** @typedef {{ [quantity in Quantity]: number[] } & { output: number }} Result */
/** @typedef {"loo" | "cp" | "value" | "logit" | "attnlrp"} Bar */

/** @type {{ [name: string]: { set: Inputs, ask: string, note: string } }} */
const PRESETS = {
  "equal values": {
    set: { logits: [0, 0, 0, 0], values: [1, 1, 1, 1] },
    ask: "All values are equal. What does removal change, and what do the rules say? " +
      "Move one value: which bars react?",
    note: "A form of the paper's structural bias. All values are equal, so no token matters and LOO is 0, " +
      "whatever the logits; CP-LRP still gives each token A·v, and AttnLRP half of that. " +
      "Move one value: LOO reacts at every token, the two rules only at that token.",
  },
  "large equal logits": {
    set: { logits: [6, 6, 6, 6], values: [2, 1, 0, -1] },
    ask: "Attention is flat, as with logits of 0. Press “all logits + 1”: which bars move, and which stay?",
    note: "The paper's linearisation error. Attention is flat, and AttnLRP's part at the logit is " +
      `z·(n − 1)/2n times LOO, here ${(6 * 3) / 8} times. ` +
      "Shift all logits: LOO stays, and this part grows, vanishes or changes sign.",
  },
  "one dominates": {
    set: { logits: [6, 0, 0, 0], values: [1, -1, 0.5, -0.5] },
    ask: "Token 1 holds nearly all of the attention. How large is its effect, and how large is AttnLRP's " +
      "part at its logit?",
    note: "Token 1 holds nearly all of the attention. The slope A·(v − o) is almost 0 there, and so is " +
      "AttnLRP's part at the logit, shifted or not; LOO, the effect of removing the token, is large.",
  },
};
const FREE = {
  ask: "Shift all logits by 1. Which bars move, and which stay?",
  note: "Attention, output and LOO stay the same, because the softmax does not see a constant. " +
    "AttnLRP's part at the logit moves.",
};
/** @type {{ key: Quantity, name: string, formula: string }[]} */
const ROWS = [
  { key: "attention", name: "attention", formula: "A" },
  { key: "loo", name: "LOO", formula: "what removal changes" },
  { key: "cp", name: "CP-LRP", formula: "A·v" },
  { key: "attnlrp", name: "AttnLRP", formula: "both parts" },
  { key: "value", name: "at the value", formula: "½ A·v" },
  { key: "logit", name: "at the logit", formula: "½ z·A·(v − o)" },
];
/** @type {Bar[]} */
const BARS = ["loo", "cp", "value", "logit", "attnlrp"];
/** @type {{ key: Input, letter: string, label: string, decimals: number, step: number }[]} */
const SLIDERS = [
  { key: "logits", letter: "z", label: "logit", decimals: 1, step: 0.1 },
  { key: "values", letter: "v", label: "value", decimals: 2, step: 0.05 },
];
const FEWEST = 3, MOST = 6; // tokens

/**
 * A sum such as 0.1 + 1 + 1 is 2.1, in the address too.
 * @param {number} x
 * @returns {number}
 */
function withoutNoise(x) {
  return Math.round(x * 1e9) / 1e9;
}

/**
 * The sum of all numbers but one, without subtracting it.
 * @param {number[]} list
 * @param {number} i
 * @returns {number}
 */
function sumOfOthers(list, i) {
  return sum(list.filter((_, j) => j !== i));
}

/**
 * All quantities of one step, as `toys/__init__.py` has them; sums over the others are made without
 * subtracting, and equal values give a LOO of exactly 0.
 * @param {number[]} logits
 * @param {number[]} values
 * @returns {Result}
 */
function softmaxStep(logits, values) {
  const top = Math.max(...logits), weights = logits.map((z) => Math.exp(z - top)), all = sum(weights);
  const attention = weights.map((weight) => weight / all);
  const relative = values.map((v) => v - values[0]),
    weighted = weights.map((weight, j) => weight * relative[j]);
  const gain = relative.map((v, i) => v - sumOfOthers(weighted, i) / sumOfOthers(weights, i));
  const loo = attention.map((a, i) => a * gain[i]);
  const slope = loo.map((x, i) => (x * sumOfOthers(weights, i)) / all);
  const cp = attention.map((a, i) => a * values[i]), value = cp.map((x) => x / 2);
  const logit = slope.map((d, i) => (logits[i] * d) / 2), attnlrp = value.map((x, i) => x + logit[i]);
  return { attention, output: sum(cp), loo, cp, value, logit, attnlrp };
}

/**
 * Pearson's r, undefined where a map is constant but for rounding; and the distance relative to LOO's size.
 * @param {number[]} map
 * @param {number[]} loo
 * @returns {{ r: number, error: number }}
 */
function agreement(map, loo) {
  const constant = [map, loo].some((list) => Math.max(...list) - Math.min(...list) <= 1e-12);
  const size = Math.hypot(...loo), distance = Math.hypot(...map.map((x, i) => x - loo[i]));
  return { r: constant ? NaN : pearson(map, loo), error: size > 1e-12 ? distance / size : NaN };
}

/**
 * The first of 1, 2, 5, 10, 20, ... (or 0.5, 0.2, ...) that is not below x, so that the scale stands still
 * under a slider.
 * @param {number} x
 * @returns {number}
 */
function ceiling(x) {
  if (x < 1e-9) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return Number((([1, 2, 5].find((k) => k * power >= x) ?? 10) * power).toPrecision(1));
}

/**
 * The end of the bars' scale: the largest bar fits, and so do both ends of the stack of AttnLRP's two parts.
 * @param {Result} result
 * @returns {number}
 */
function limitOf({ loo, cp, value, logit }) {
  const stacks = [1, -1].flatMap((sign) =>
    value.map((x, i) => Math.max(0, sign * x) + Math.max(0, sign * logit[i]))
  );
  return ceiling(Math.max(...stacks, ...[...loo, ...cp].map(Math.abs)));
}

/**
 * Where a bar between two numbers lies on a scale from -limit to limit, as CSS lengths.
 * @param {number} from
 * @param {number} to
 * @param {number} limit
 * @returns {{ top: string, bottom: string, height: string }}
 */
function barBetween(from, to, limit) {
  const percent = (/** @type {number} */ x) => `${50 + (50 * x) / limit}%`;
  const high = Math.max(from, to), height = `${(50 * Math.abs(to - from)) / limit}%`;
  if (high > 0) return { top: "", bottom: percent(Math.min(from, to)), height };
  return { top: percent(-high), bottom: "", height };
}

/**
 * @param {Input} key
 * @param {number[]} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const limit = model.get("data").limits[key];
  return value.length >= FEWEST && value.length <= MOST && value.every((x) => Math.abs(x) <= limit);
}

/**
 * The state in force: an address may name one of the two lists only, and then the shorter length counts.
 * @param {Model<State>} model
 * @returns {Inputs}
 */
function inputsOf(model) {
  const logits = model.get("logits"),
    values = model.get("values"),
    count = Math.min(logits.length, values.length);
  return { logits: logits.slice(0, count), values: values.slice(0, count) };
}

/**
 * Change both lists.
 * @param {Model<State>} model
 * @param {(list: number[], key: Input) => number[]} rule
 * @returns {void}
 */
function change(model, rule) {
  const { logits, values } = inputsOf(model);
  put(model, { logits: rule(logits, "logits"), values: rule(values, "values") });
}

/**
 * @param {string} text
 * @param {() => void} onclick
 * @returns {HTMLButtonElement}
 */
function button(text, onclick) {
  return h("button", { type: "button", onclick }, text);
}

/**
 * Buttons for states with a name, and the note on the state in force.
 * @param {Model<State>} model
 * @returns {{ buttons: HTMLElement[], note: HTMLElement, show: (inputs: Inputs) => void }}
 */
function presets(model) {
  const names = Object.keys(PRESETS), ask = h("span", {}), answer = h("p", {});
  const more = h("details", {}, h("summary", {}, "Answer"), answer);
  const note = h("div", { class: "lrp-note" }, ask, more);
  const buttons = names.map((name) => button(name, () => put(model, PRESETS[name].set)));
  oneTabStop(buttons);
  /** @param {Inputs} inputs */
  const show = (inputs) => {
    const chosen = names.find((name) => alike(PRESETS[name].set, inputs));
    buttons.forEach((preset, i) => preset.setAttribute("aria-pressed", String(names[i] === chosen)));
    const said = chosen ? PRESETS[chosen] : FREE;
    if (ask.textContent !== said.ask) more.open = false;
    ask.textContent = said.ask;
    answer.textContent = said.note;
  };
  return { buttons, note, show };
}

/**
 * Buttons that shift all logits, take a token and add one. One that can do no more keeps its focus.
 * @param {Model<State>} model
 * @returns {{ buttons: HTMLElement[], show: (inputs: Inputs) => void }}
 */
function changes(model) {
  const { limits } = model.get("data");
  /** @param {number} constant */
  const shift = (constant) => () =>
    change(model, (list, key) => (key === "logits" ? list.map((z) => withoutNoise(z + constant)) : list));
  /** @param {string} name @param {() => void} act */
  const able = (name, act) => {
    const node = button(name, () => node.ariaDisabled === "true" || act());
    return node;
  };
  const down = able("all logits − 1", shift(-1)), up = able("all logits + 1", shift(1));
  const fewer = able("− token", () => change(model, (list) => list.slice(0, -1)));
  const more = able("+ token", () => change(model, (list) => [...list, 0]));
  /** @param {Inputs} inputs */
  const show = ({ logits }) => {
    down.ariaDisabled = String(logits.some((z) => Math.abs(z - 1) > limits.logits));
    up.ariaDisabled = String(logits.some((z) => Math.abs(z + 1) > limits.logits));
    fewer.ariaDisabled = String(logits.length <= FEWEST);
    more.ariaDisabled = String(logits.length >= MOST);
  };
  return { buttons: [down, up, fewer, more], show };
}

/**
 * Two sliders per token, for its logit and its value.
 * @param {Model<State>} model
 * @returns {{ bank: HTMLElement, paint: (inputs: Inputs) => void }}
 */
function sliderBank(model) {
  const { limits } = model.get("data"), bank = h("div", { class: "lrp-bank" });
  /** @type {((inputs: Inputs) => void)[]} */
  let painters = [];
  /** @param {number} place @param {typeof SLIDERS[number]} kind */
  const pair = (place, { key, letter, label, decimals, step }) => {
    const shown = h("span", {});
    const oninput = () =>
      change(model, (list, other) => {
        return other === key ? list.map((x, i) => (i === place ? Number(slider.value) : x)) : list;
      });
    const name = `${letter}, ${label} of token ${place + 1}`, ends = { min: -limits[key], max: limits[key] };
    const slider = h("input", { type: "range", ...ends, step, "aria-label": name, oninput });
    painters.push((inputs) => {
      const x = inputs[key][place], short = Math.abs(x - Number(x.toFixed(decimals))) < 1e-9;
      slider.value = String(x);
      shown.textContent = say(x, short ? decimals : 3);
    });
    return h("label", {}, h("i", {}, letter), shown, slider);
  };
  /** @param {number} count */
  const build = (count) => {
    painters = [];
    const names = [h("span", {}, "logit z"), h("span", {}, "value v")];
    const pairs = Array.from({ length: count }, (_, place) => {
      const sliders = SLIDERS.map((kind) => pair(place, kind));
      return h("div", { class: "lrp-pair" }, h("b", {}, `token ${place + 1}`), sliders);
    });
    bank.replaceChildren(h("div", { class: "lrp-side", "aria-hidden": "true" }, names), ...pairs);
  };
  /** @param {Inputs} inputs */
  const paint = (inputs) => {
    const count = inputs.logits.length;
    if (painters.length !== count * SLIDERS.length) build(count);
    for (const painter of painters) painter(inputs);
  };
  return { bank, paint };
}

/**
 * What a quantity is called and looks like.
 * @param {typeof ROWS[number]} quantity
 * @returns {(string | HTMLElement)[]}
 */
function legend({ key, name, formula }) {
  const sample = h("i", { class: `lrp-key lrp-fill-${key}` });
  return [sample, `${name} `, h("span", { class: "lrp-quiet" }, formula)];
}

/**
 * @param {HTMLElement} head
 * @param {Child[]} cells
 * @param {Child} [end] what follows the cells
 * @returns {HTMLElement}
 */
function tableRow(head, cells, end = []) {
  return h("tr", { role: "row" }, head, cells.map((inside) => h("td", { role: "cell" }, inside)), end);
}

/**
 * One quantity in numbers, a cell per token and their sum; the attention also as bars.
 * @param {typeof ROWS[number]} quantity
 * @param {number} count
 * @returns {{ node: HTMLElement, paint: (result: Result) => void }}
 */
function scoreRow(quantity, count) {
  const texts = Array.from({ length: count }, () => h("span", {}));
  const bars = texts.map(() => h("i", {})), total = h("td", { role: "cell", class: "lrp-sum" });
  const shares = bars.map((bar, i) => [texts[i], h("div", { class: "lrp-share" }, bar)]);
  const { key } = quantity, head = h("th", { role: "rowheader", scope: "row" }, legend(quantity));
  const node = tableRow(head, key === "attention" ? shares : texts, total);
  node.className = `lrp-row-${key}`;
  /** @param {Result} result */
  const paint = (result) => {
    const scores = result[key];
    total.textContent = sayTidy(sum(scores), 3);
    texts.forEach((text, i) => {
      text.textContent = sayTidy(scores[i], 3);
      text.dataset.x = String(scores[i]);
      if (key === "attention") bars[i].style.width = `${100 * scores[i]}%`;
    });
  };
  return { node, paint };
}

/**
 * The bars of every token: LOO, CP-LRP, and AttnLRP's two parts on one another with a mark at their sum.
 * @param {number} count
 * @returns {{ node: HTMLElement, paint: (result: Result) => void }}
 */
function plotRow(count) {
  const places = Array.from({ length: count }, (_, i) => i);
  const column = (/** @type {Bar} */ key) =>
    places.map(() => h("i", { class: `lrp-column lrp-fill-${key}` }));
  const bars = { loo: column("loo"), cp: column("cp"), value: column("value"), logit: column("logit") };
  const marks = column("attnlrp"), all = { ...bars, attnlrp: marks };
  const ticks = ["lrp-top", "lrp-middle", "lrp-bottom"].map((name) => h("span", { class: name }));
  const node = tableRow(h("th", {}, ticks), places.map((i) => BARS.map((key) => all[key][i])));
  node.setAttribute("aria-hidden", "true"); // the rows below say the same in numbers
  node.className = "lrp-plot";
  /** @param {Result} result */
  const paint = (result) => {
    const limit = limitOf(result), { loo, cp, value, logit, attnlrp } = result;
    ["", "0", "−"].forEach((sign, k) => {
      ticks[k].textContent = k === 1 ? sign : `${sign}${limit}`;
    });
    for (const i of places) {
      const base = value[i] * logit[i] > 0 ? value[i] : 0;
      Object.assign(bars.loo[i].style, barBetween(0, loo[i], limit));
      Object.assign(bars.cp[i].style, barBetween(0, cp[i], limit));
      Object.assign(bars.value[i].style, barBetween(0, value[i], limit));
      Object.assign(bars.logit[i].style, barBetween(base, base + logit[i], limit));
      marks[i].style.bottom = `${50 + (50 * attnlrp[i]) / limit}%`;
    }
  };
  return { node, paint };
}

/**
 * Attention, the bars and all scores, a column per token; remade for another number of tokens.
 * @returns {{ table: HTMLElement, paint: (result: Result) => void }}
 */
function scoreTable() {
  const table = h("table", { class: "lrp-lab", role: "table" });
  /** @type {ReturnType<typeof scoreRow>[]} */
  let rows = [];
  let columns = 0;
  /** @param {number} count */
  const build = (count) => {
    const header = { role: "columnheader", scope: "col" };
    const tokens = Array.from({ length: count }, (_, i) => h("th", header, `token ${i + 1}`));
    const total = h("th", { ...header, class: "lrp-sum" }, "sum");
    const names = h("tr", { role: "row" }, h("td", { role: "cell" }), tokens, total);
    const [attention, ...scores] = ROWS.map((quantity) => scoreRow(quantity, count));
    columns = count;
    rows = [attention, plotRow(count), ...scores];
    table.replaceChildren(
      h("caption", { class: "lrp-hidden" }, "Attention and scores of each token"),
      h("thead", { role: "rowgroup" }, names),
      h("tbody", { role: "rowgroup" }, rows.map(({ node }) => node)),
    );
  };
  /** @param {Result} result */
  const paint = (result) => {
    if (columns !== result.loo.length) build(result.loo.length);
    for (const row of rows) row.paint(result);
  };
  return { table, paint };
}

/**
 * Both rules against LOO, over the tokens.
 * @returns {{ table: HTMLElement, paint: (result: Result) => void }}
 */
function verdicts() {
  const body = h("tbody", {}), head = tableHead(["against LOO", "r over tokens", "|R − LOO| / |LOO|"]);
  /** @param {string} name @param {number[]} map @param {number[]} loo */
  const row = (name, map, loo) => {
    const { r, error } = agreement(map, loo);
    const cells = [r, error].map((value) => h("td", {}, sayTidy(value, 2)));
    return h("tr", { "data-r": r, "data-error": error }, h("th", { scope: "row" }, name), cells);
  };
  /** @param {Result} result */
  const paint = ({ cp, attnlrp, loo }) => {
    body.replaceChildren(row("CP-LRP", cp, loo), row("AttnLRP", attnlrp, loo));
  };
  return { table: h("table", { class: "lrp-facts" }, head, body), paint };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const live = liveLine(), named = presets(model), moves = changes(model), sliders = sliderBank(model);
  const scores = scoreTable(), facts = verdicts(), output = h("strong", { class: "lrp-lab-output" });
  const fold = h("button", { type: "button", class: "lrp-fold-lab", onclick: () => unfold() });
  const unfold = (wanted = lab.classList.contains("lrp-lean")) => {
    lab.classList.toggle("lrp-lean", !wanted);
    fold.textContent = wanted ? "Hide the numbers" : "Show all numbers";
    fold.setAttribute("aria-expanded", String(wanted));
  };
  const lab = h(
    "div",
    { class: "lrp-softmax" },
    h("div", { class: "lrp-controls" }, named.buttons),
    h("div", { class: "lrp-controls" }, moves.buttons),
    named.note,
    sliders.bank,
    h(
      "p",
      { class: "lrp-lab-key", "aria-hidden": "true" },
      ROWS.slice(1).map((row) => h("span", {}, legend(row))),
    ),
    scores.table,
    fold,
    h("p", { class: "lrp-readout" }, "output o = Σ A·v = ", output),
    facts.table,
    live.node,
  );
  el.replaceChildren(lab);
  unfold(Boolean(document.querySelector(".reveal"))); // a slide shows them at once
  return follow(model, ["logits", "values"], () => {
    const inputs = inputsOf(model), result = softmaxStep(inputs.logits, inputs.values);
    lab.style.setProperty("--n", String(inputs.logits.length));
    sliders.paint(inputs);
    named.show(inputs);
    moves.show(inputs);
    scores.paint(result);
    facts.paint(result);
    output.textContent = sayTidy(result.output, 3);
    output.dataset.x = String(result.output);
    const [loo, attnlrp, cp] = [result.loo, result.attnlrp, result.cp].map((scores) =>
      scores.map((x) => sayTidy(x, 2)).join(", ")
    );
    live.say(`Output ${sayTidy(result.output, 2)}. LOO ${loo}. AttnLRP ${attnlrp}. CP-LRP ${cp}.`);
  });
}

export default front({ render, accept });
