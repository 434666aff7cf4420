// Switches for the layers: which explanation results, and how it agrees with LOO.

/**
 * r of every mask, in order and sorted, and its histogram from low to high.
 * @typedef {object} Agreements
 * @property {Float64Array} all
 * @property {Float64Array} sorted
 * @property {number[]} bins
 * @property {number} low
 * @property {number} high
 */

/**
 * @typedef {{ steps: Int8Array, scale: Float32Array, r: { [tokens: string]: Agreements },
 *   corners?: Float32Array, mixed?: Float32Array }} Table a sentence's scores under every mask, and their r
 * @typedef {{ scores: string, scale: string, r: { [tokens: string]: string }, unpacked?: Table }} Packed
 * @typedef {Tokens & { label: string, logit: number, loo: number[], sites: { [site: string]: Packed } }
 *   } Sentence
 * @typedef {{ layers: number, sites: string[], sentences: Sentence[] }} Data
 * @typedef {{ data: Data, sentence: number, mode: string, bypassed: number[], amounts: number[],
 *   site: string, tokens: string }} State
 */

/** @type {{ name: string, layers: (k: number, last: number) => number[] }[]} */
const PATHS = [
  { name: "front to back, layers 1 to k", layers: (k) => range(1, k) },
  { name: "back to front, layers k to the last", layers: (k, last) => range(k, last) },
  { name: "layer k alone", layers: (k) => [k] },
];
/** @type {{ [site: string]: string }} */
const SITE_NAMES = { word: "word", "word+position": "word + position", embedding: "whole embedding" };
const TOKEN_NAMES = { "no-special": "left out of r", all: "counted" };
const MODE_NAMES = { switches: "on or off", "half-open": "half-open" };
const BINS = 40;
const LACKS = -32768; // r goes in 32767 steps; this one stands for an undefined r

/**
 * @param {number} from
 * @param {number} to included
 * @returns {number[]}
 */
function range(from, to) {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/**
 * A sentence's table for one site, unpacked when it is first looked at and kept.
 * @param {Sentence} sentence
 * @param {string} site
 * @returns {Table}
 */
function unpack(sentence, site) {
  const packed = sentence.sites[site];
  packed.unpacked ??= {
    steps: numbers(packed.scores, Int8Array),
    scale: numbers(packed.scale, Float32Array),
    r: Object.fromEntries(Object.entries(packed.r).map(([tokens, text]) => [tokens, agreements(text)])),
  };
  return packed.unpacked;
}

/**
 * The r of every mask from base64, sorted, and counted in bins between round limits.
 * @param {string} text
 * @returns {Agreements}
 */
function agreements(text) {
  const all = Float64Array.from(numbers(text, Int16Array), (step) => (step === LACKS ? NaN : step / 32767));
  const sorted = all.filter(Number.isFinite).sort(), bins = new Array(BINS).fill(0);
  const low = Math.floor(10 * (sorted[0] ?? -1)) / 10;
  const high = Math.max(low + 0.1, Math.ceil(10 * (sorted.at(-1) ?? 1)) / 10);
  for (const r of sorted) bins[Math.min(BINS - 1, Math.floor(((r - low) / (high - low)) * BINS))] += 1;
  return { all, sorted, bins, low, high };
}

/**
 * The number of a mask: bit l - 1 is set where layer l is bypassed.
 * @param {number[]} layers
 * @returns {number}
 */
function maskOf(layers) {
  return layers.reduce((bits, layer) => bits | (1 << (layer - 1)), 0);
}

/**
 * Scores under one mask.
 * @param {Table} table
 * @param {number} mask
 * @param {number} width how many tokens
 * @returns {number[]}
 */
function corner({ steps, scale }, mask, width) {
  return Array.from({ length: width }, (_, i) => (steps[mask * width + i] * scale[mask]) / 127);
}

/**
 * Scores with half-open layers: the mixture of all corners, exact because relevance is linear in each layer's
 * amount, as in `schema.py`.
 * @param {Table} table
 * @param {number[]} amounts per layer, from 0 to 1
 * @param {number} width how many tokens
 * @returns {number[]}
 */
function mixture(table, amounts, width) {
  const { steps, scale } = table;
  table.corners ??= Float32Array.from(steps, (step, at) => (step * scale[Math.floor(at / width)]) / 127);
  table.mixed ??= new Float32Array(steps.length / 2);
  const { mixed } = table;
  let from = table.corners, rows = scale.length;
  for (const amount of amounts) { // bit 0 is layer 1: neighbours first; a row is written after it was read
    rows /= 2;
    for (let row = 0; row < rows; row++) {
      const to = row * width, open = 2 * to, bypassed = open + width;
      for (let i = 0; i < width; i++) {
        mixed[to + i] = (1 - amount) * from[open + i] + amount * from[bypassed + i];
      }
    }
    from = mixed;
  }
  return Array.from(mixed.subarray(0, width));
}

/**
 * The mask with the largest r; where none is defined, the last.
 * @param {ArrayLike<number>} r of every mask
 * @returns {number}
 */
function bestMask(r) {
  let best = 0;
  for (let mask = 0; mask < r.length; mask++) {
    if (r[mask] > r[best] || !Number.isFinite(r[best])) best = mask;
  }
  return best;
}

/**
 * How many of the sorted numbers lie above a value, by a step of a mask's r at least.
 * @param {ArrayLike<number>} sorted
 * @param {number} value
 * @returns {number}
 */
function above(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value + 1e-9) high = middle;
    else low = middle + 1;
  }
  return sorted.length - low;
}

/**
 * Which layers are bypassed, in words.
 * @param {number[]} layers in order
 * @param {number} last
 * @returns {string}
 */
function inWords(layers, last) {
  if (!layers.length) return "no layer bypassed, which is AttnLRP";
  if (layers.length === last) return "all layers bypassed, which is CP-LRP";
  /** @type {[number, number][]} */
  const runs = [];
  for (const layer of layers) {
    const run = runs.at(-1);
    if (run && run[1] === layer - 1) run[1] = layer;
    else runs.push([layer, layer]);
  }
  const texts = runs.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a} to ${b}`));
  return `bypassed: ${texts.join(", ")}`;
}

/**
 * A mask's place among all masks, in words.
 * @param {number} r
 * @param {number} rank
 * @param {number} masks how many there are
 * @param {boolean} open whether layers are half-open, which is no mask
 * @returns {string}
 */
function rankInWords(r, rank, masks, open) {
  if (!Number.isFinite(r)) return "no rank";
  const [place, all] = [rank, masks].map((count) => count.toLocaleString("en"));
  return open ? `would rank ${place} among the ${all} masks` : `rank ${place} of ${all}`;
}

/**
 * All r of a sentence as a histogram over their range, with a mark for the one in force and for the two ends.
 * @returns {{ node: SVGElement, paint: (agreements: Agreements, r: number, label: string) => void }}
 */
function histogram() {
  const bars = Array.from(
    { length: BINS },
    (_, k) => svg("rect", { x: 20 + 7 * k, width: 6, class: "lrp-bin" }),
  );
  const arrow = svg("path", { d: "M-5 3h10l-5 8z" });
  const mark = svg("g", { class: "lrp-here" }, svg("line", { y1: 10, y2: 70 }), arrow);
  const names = ["A", "C"].map((name) => svg("text", { y: 84, "text-anchor": "middle" }, name));
  const ends = names.map((name) => svg("g", {}, svg("line", { y1: 66, y2: 72, class: "lrp-end" }), name));
  const limits = [20, 300].map((x) => svg("text", { x, y: 98, "text-anchor": "middle", class: "lrp-axis" }));
  const base = svg("line", { x1: 20, x2: 300, y1: 66.5, y2: 66.5, class: "lrp-end" });
  const frame = { viewBox: "0 0 320 102", role: "img", class: "lrp-histogram" };
  const node = svg("svg", frame, bars, base, ends, limits, mark);
  /** @param {Agreements} agreements @param {number} r @param {string} label */
  const paint = ({ all, bins, low, high }, r, label) => {
    const x = (/** @type {number} */ value) =>
      20 + (280 * (Math.max(low, Math.min(high, value)) - low)) / (high - low);
    const most = Math.max(...bins), attnlrp = all[0], cpLrp = all[all.length - 1];
    bars.forEach((bar, k) => {
      const tall = bins[k] ? Math.max(1, (50 * bins[k]) / most) : 0;
      bar.setAttribute("y", String(66 - tall));
      bar.setAttribute("height", String(tall));
    });
    [attnlrp, cpLrp, r].forEach((value, k) => {
      const group = k < 2 ? ends[k] : mark, defined = Number.isFinite(value);
      group.setAttribute("visibility", defined ? "visible" : "hidden");
      if (defined) group.setAttribute("transform", `translate(${x(value)} 0)`);
    });
    const near = Math.abs(x(attnlrp) - x(cpLrp)) < 12, first = attnlrp <= cpLrp ? 0 : 1;
    names.forEach((name, k) => { // side by side where the ends meet
      name.setAttribute("text-anchor", near ? (k === first ? "end" : "start") : "middle");
    });
    limits.forEach((limit, k) => {
      limit.textContent = say([low, high][k], 1);
    });
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

/**
 * @param {"sentence" | "mode" | "bypassed" | "amounts" | "site" | "tokens"} key
 * @param {number | string | number[]} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { layers, sites, sentences } = model.get("data");
  const list = Array.isArray(value) ? value : [];
  return {
    sentence: () => isPlace(value, sentences.length),
    mode: () => Object.hasOwn(MODE_NAMES, String(value)),
    bypassed: () => list.every((layer) => isPlace(layer - 1, layers)) && new Set(list).size === list.length,
    amounts: () => list.length === layers && list.every((amount) => amount >= 0 && amount <= 1),
    site: () => sites.includes(String(value)),
    tokens: () => Object.hasOwn(TOKEN_NAMES, String(value)),
  }[key]();
}

/**
 * Bypass these layers, and close or open the half-open ones alike.
 * @param {Model<State>} model
 * @param {number[]} bypassed
 * @returns {void}
 */
function setMask(model, bypassed) {
  const layers = range(1, model.get("data").layers);
  put(model, { bypassed, amounts: layers.map((layer) => Number(bypassed.includes(layer))) });
}

/**
 * Sentence, site, tokens and kind of switch; `show()` marks what is in force.
 * @param {Model<State>} model
 * @returns {{ sentence: HTMLElement, options: HTMLElement[], show: () => void }}
 */
function choices(model) {
  const { layers, sites, sentences } = model.get("data");
  const sentence = dropdown("Sentence", sentences.map(beginning), (place) => put(model, { sentence: place }));
  const siteNames = Object.fromEntries(sites.map((name) => [name, SITE_NAMES[name]]));
  const site = choice("Read at", siteNames, (value) => put(model, { site: value }));
  const tokens = choice("Special tokens", TOKEN_NAMES, (value) => put(model, { tokens: value }));
  const mode = choice("Layers", MODE_NAMES, (value) => {
    if (value === "switches") {
      setMask(model, range(1, layers).filter((layer) => model.get("amounts")[layer - 1] >= 0.5));
    }
    put(model, { mode: value });
  });
  const show = () => {
    sentence.show(model.get("sentence"));
    site.show(model.get("site"));
    tokens.show(model.get("tokens"));
    mode.show(model.get("mode"));
  };
  return { sentence: sentence.node, options: [mode.node, site.node, tokens.node], show };
}

/**
 * Buttons for masks with a name, and the paths that the paper walks; `show()` presses the button that holds.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function shortcuts(model) {
  const { layers, sentences } = model.get("data"), every = range(1, layers);
  let path = PATHS[0];
  const walk = () => setMask(model, path.layers(Number(step.value), layers));
  const step = h("input", { type: "range", min: 1, max: layers, value: 1, "aria-label": "k", oninput: walk });
  const paths = dropdown("Path", PATHS.map(({ name }) => name), (place) => {
    path = PATHS[place];
    walk();
  });
  const best = () => {
    const table = unpack(sentences[model.get("sentence")], model.get("site"));
    const mask = bestMask(table.r[model.get("tokens")].all);
    setMask(model, every.filter((layer) => mask & maskOf([layer])));
  };
  const button = (/** @type {string} */ name, /** @type {() => void} */ onclick) =>
    h("button", { type: "button", onclick }, name);
  const ends = [button("AttnLRP", () => setMask(model, [])), button("CP-LRP", () => setMask(model, every))];
  const buttons = [...ends, button("Best for this sentence", best)];
  const show = () => {
    const count = model.get("bypassed").length, open = model.get("mode") === "half-open";
    ends.forEach((end, k) => end.setAttribute("aria-pressed", String(!open && count === (k ? layers : 0))));
  };
  return { node: h("div", { class: "lrp-controls" }, buttons, paths.node, h("label", {}, "k ", step)), show };
}

/**
 * One button per layer, which bypasses it or takes it back.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function switchBank(model) {
  const layers = range(1, model.get("data").layers), states = layers.map(() => h("span", {}));
  const flip = (/** @type {number} */ layer) => {
    const bypassed = model.get("bypassed");
    const others = bypassed.filter((other) => other !== layer);
    setMask(model, bypassed.includes(layer) ? others : [...others, layer].sort((a, b) => a - b));
  };
  const buttons = layers.map((layer, i) => {
    const label = `Bypass layer ${layer}`, onclick = () => flip(layer);
    const attributes = { type: "button", class: "lrp-switch", "aria-label": label, onclick };
    return h("button", attributes, h("b", {}, `L${layer}`), states[i]);
  });
  oneTabStop(buttons);
  const node = h("div", { class: "lrp-switches", role: "group", "aria-label": "Layers bypassed" }, buttons);
  const show = () => {
    node.hidden = model.get("mode") === "half-open";
    buttons.forEach((button, i) => {
      const on = model.get("bypassed").includes(layers[i]);
      button.setAttribute("aria-pressed", String(on));
      states[i].textContent = on ? "CP" : "Attn";
    });
  };
  return { node, show };
}

/**
 * One slider per layer, from AttnLRP to CP-LRP.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function mixer(model) {
  const layers = range(1, model.get("data").layers), amounts = layers.map(() => h("span", {}));
  const sliders = layers.map((layer, place) => {
    const oninput = () => {
      put(model, { amounts: model.get("amounts").map((x, i) => (i === place ? Number(slider.value) : x)) });
    };
    const label = `Layer ${layer}: from AttnLRP, 0, to CP-LRP, 1`;
    const slider = h("input", { type: "range", min: 0, max: 1, step: 0.05, "aria-label": label, oninput });
    return slider;
  });
  const labels = layers.map((layer, i) => h("label", {}, `L${layer} `, amounts[i], sliders[i]));
  const node = h("div", { class: "lrp-mixer", role: "group", "aria-label": "Half-open layers" }, labels);
  const show = () => {
    node.hidden = model.get("mode") !== "half-open";
    sliders.forEach((slider, i) => {
      slider.value = String(model.get("amounts")[i]);
      amounts[i].textContent = say(model.get("amounts")[i]);
    });
  };
  return { node, show };
}

/**
 * What the state in force gives: scores, their r with LOO and its rank among all masks.
 * @param {Model<State>} model
 * @returns {{ sentence: Sentence, agreements: Agreements, scores: number[], r: number, rank: number,
 *   says: string, ranked: string }}
 */
function inForce(model) {
  const { layers, sentences } = model.get("data"), sentence = sentences[model.get("sentence")];
  const tokens = model.get("tokens"),
    bypassed = model.get("bypassed"),
    open = model.get("mode") === "half-open";
  const table = unpack(sentence, model.get("site")), agreements = table.r[tokens];
  const width = sentence.tokens.length, mask = maskOf(bypassed);
  const keep = tokens === "all" ? null : sentence.special.map((special) => !special);
  const scores = open ? mixture(table, model.get("amounts"), width) : corner(table, mask, width);
  const r = open ? pearson(scores, sentence.loo, keep) : agreements.all[mask];
  const rank = above(agreements.sorted, r) + 1;
  const says = open ? "half-open layers" : inWords(bypassed, layers);
  return { sentence, agreements, scores, r, rank, says, ranked: rankInWords(r, rank, 2 ** layers, open) };
}

/**
 * The row of the explanation above that of LOO; `paint` makes both anew for another sentence.
 * @returns {{ nodes: HTMLElement[], paint: (sentence: Sentence, scores: number[]) => void }}
 */
function tokenRows() {
  const explanation = h("div", {}), reference = h("div", {});
  const title = h("p", { class: "lrp-quiet" }, "LOO, what each token's removal takes from the logit:");
  /** @type {Sentence | null} */
  let shown = null;
  let row = tokenRow([], [], "");
  /** @param {Sentence} sentence @param {number[]} scores */
  const paint = (sentence, scores) => {
    if (shown !== sentence) {
      shown = sentence;
      row = tokenRow(sentence.tokens, sentence.special, "Relevance of each token");
      const loo = tokenRow(sentence.tokens, sentence.special, "LOO of each token");
      loo.paint(sentence.loo);
      explanation.replaceChildren(row.node);
      reference.replaceChildren(loo.node);
    }
    row.paint(scores);
  };
  return { nodes: [explanation, title, reference], paint };
}

/**
 * Lay the widget out for its sentences.
 * @param {Model<State>} model
 * @param {HTMLElement} el
 * @param {ReturnType<typeof liveLine>} live
 * @returns {() => void} paints the state in force
 */
function build(model, el, live) {
  const masks = (2 ** model.get("data").layers).toLocaleString("en");
  const chosen = choices(model), buttons = shortcuts(model), bank = switchBank(model), sliders = mixer(model);
  const head = h("p", { class: "lrp-readout" }), result = h("p", { class: "lrp-readout lrp-result" });
  const rows = tokenRows(), chart = histogram();
  const caption = `how many of all ${masks} masks of this sentence have which r; A is AttnLRP, C is CP-LRP`;
  const figure = h("figure", {}, chart.node, h("figcaption", { class: "lrp-quiet" }, caption));
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, chosen.sentence),
    buttons.node,
    bank.node,
    sliders.node,
    h("div", { class: "lrp-controls" }, chosen.options),
    head,
    ...rows.nodes,
    h("div", { class: "lrp-outcome" }, result, figure),
    live.node,
  );
  return () => {
    const { sentence, agreements, scores, r, rank, says, ranked } = inForce(model);
    for (const part of [chosen, buttons, bank, sliders]) part.show();
    rows.paint(sentence, scores);
    head.textContent = `For “${sentence.label}” (logit ${say(sentence.logit)}); ${says}`;
    result.replaceChildren(h("span", {}, "r with LOO"), h("strong", {}, say(r)), h("span", {}, ranked));
    Object.assign(result.dataset, { r, rank });
    const [lowest, highest] = [agreements.sorted[0], agreements.sorted[agreements.sorted.length - 1]].map((
      x,
    ) => say(x));
    const range = `Histogram of r with LOO over all masks, from ${lowest} to ${highest}`;
    chart.paint(agreements, r, `${range}; this one has ${say(r)}, ${ranked}`);
    live.say(`${says}: r ${say(r)}, ${ranked}`);
  };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const live = liveLine();
  let paint = build(model, el, live);
  const renew = () => {
    paint = build(model, el, live);
    paint();
  };
  model.on("change:data", renew);
  const stop = follow(model, ["sentence", "mode", "bypassed", "amounts", "site", "tokens"], () => paint());
  return () => {
    stop();
    model.off("change:data", renew);
  };
}

export default front({ render, accept });
