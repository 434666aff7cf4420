// Twelve switches for embedded sentences, all masks computed before; what switches share is in `layers.js`.

/**
 * @typedef {{ steps: Int8Array, scale: Float32Array, r: { [tokens: string]: Agreements },
 *   corners?: Float32Array, mixed?: Float32Array }} Table a sentence's scores under every mask, and their r
 * @typedef {{ scores: string, scale: string, r: { [tokens: string]: string }, unpacked?: Table }} Packed
 * @typedef {Tokens & { label: string, logit: number, loo: number[], sites: { [site: string]: Packed } }
 *   } Sentence
 * @typedef {{ layers: number, sites: string[], sentences: Sentence[], reduced?: boolean }} Data
 * @typedef {{ data: Data, sentence: number, mode: string, bypassed: number[], amounts: number[],
 *   site: string, tokens: string }} State
 */

const LACKS = -32768; // r goes in 32767 steps; this one stands for an undefined r

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
 * The r of every mask from base64.
 * @param {string} text
 * @returns {Agreements}
 */
function agreements(text) {
  return counted(
    Float64Array.from(numbers(text, Int16Array), (step) => (step === LACKS ? NaN : step / 32767)),
  );
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
 * @param {"sentence" | "mode" | "bypassed" | "amounts" | "site" | "tokens"} key
 * @param {number | string | number[]} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const data = model.get("data");
  return key === "sentence" ? isPlace(value, data.sentences.length) : acceptsLayered(key, value, data);
}

/**
 * Sentence, site, tokens and kind of switch; `show()` marks what is in force.
 * @param {Model<State>} model
 * @returns {{ sentence: HTMLElement, options: HTMLElement[], show: () => void }}
 */
function choices(model) {
  const { sentences } = model.get("data"), options = layerOptions(model);
  const sentence = dropdown("Sentence", sentences.map(beginning), (place) => put(model, { sentence: place }));
  const show = () => {
    sentence.show(model.get("sentence"));
    options.show();
  };
  return { sentence: sentence.node, options: options.nodes, show };
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
  const ends = endButtons(model);
  const buttons = [
    ...ends.buttons,
    h("button", { type: "button", class: "lrp-best", onclick: best }, "Best for this sentence"),
  ];
  const node = h("div", { class: "lrp-controls" }, buttons, paths.node, h("label", {}, "k ", step));
  return { node, show: ends.show };
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
 * The row of the explanation above that of LOO; `paint` remakes both for another sentence.
 * @returns {{ nodes: HTMLElement[], paint: (sentence: Sentence, scores: number[]) => void }}
 */
function tokenRows() {
  const explanation = h("div", {}), reference = h("div", {});
  const title = h("p", { class: "lrp-quiet" }, "LOO, the drop in the logit when each token is removed:");
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
  const caption = `distribution of r over all ${masks} masks of this sentence; A is AttnLRP, C is CP-LRP`;
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
 * A first look: a choice of sentences, the switches, LOO, both methods, and the layers as switched.
 * @param {Model<State>} model
 * @param {HTMLElement} el
 * @param {ReturnType<typeof liveLine>} live
 * @returns {() => void} paints the state in force
 */
function buildReduced(model, el, live) {
  const { layers, sentences } = model.get("data"), ends = endButtons(model), bank = switchBank(model);
  const choose = dropdown("Sentence", sentences.map(beginning), (sentence) => put(model, { sentence }));
  const said = h("span", { class: "lrp-quiet" }), rows = h("div", {}), here = h("div", {});
  const whole = h("div", { class: "lrp-controls" }, "Bypass the softmax: none is", ends.buttons[0], "all is");
  whole.append(ends.buttons[1]);
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, sentences.length > 1 ? choose.node : [], said),
    rows,
    whole,
    bank.node,
    here,
    live.node,
  );
  let shown = -1, paint = () => NaN;
  return () => {
    const place = model.get("sentence");
    if (shown !== place) {
      shown = place;
      paint = firstRows(model, rows, here);
      said.textContent = `predicted: ${sentences[place].label}`;
    }
    for (const part of [ends, bank]) part.show();
    choose.show(place);
    const r = paint();
    el.dataset.r = String(r);
    live.say(`${inWords(model.get("bypassed"), layers)}: r ${say(r)}`);
  };
}

/**
 * The rows of the first look for the sentence in force: LOO and both methods, and the layers as switched.
 * @param {Model<State>} model
 * @param {HTMLElement} fixed holds what no switch changes
 * @param {HTMLElement} moving
 * @returns {() => number} paints the layers as switched and returns their r
 */
function firstRows(model, fixed, moving) {
  const { layers, sentences, sites: [site] } = model.get("data"), sentence = sentences[model.get("sentence")];
  const table = unpack(sentence, site), { all } = table.r["no-special"], width = sentence.tokens.length;
  const masks = { AttnLRP: 0, "CP-LRP": 2 ** layers - 1 };
  const titled = (/** @type {string} */ name, /** @type {number[]} */ scores, /** @type {string} */ says) => {
    const row = tokenRow(sentence.tokens, sentence.special, name), r = h("span", {}, says);
    row.paint(scores);
    return { row, r, nodes: [h("p", { class: "lrp-first-title" }, name, r), row.node] };
  };
  const loo = titled("Leave-One-Out", sentence.loo, ": what the logit loses without the token");
  const both = Object.entries(masks).map(([name, mask]) =>
    titled(name, corner(table, mask, width), `: r with LOO, words only ${say(all[mask])}`)
  );
  const switched = titled("The layers as switched", corner(table, 0, width), "");
  fixed.replaceChildren(...[loo, ...both].flatMap(({ nodes }) => nodes));
  moving.replaceChildren(...switched.nodes);
  return () => {
    const mask = maskOf(model.get("bypassed"));
    switched.row.paint(corner(table, mask, width));
    switched.r.textContent = `: r with LOO, words only ${say(all[mask])}`;
    return all[mask];
  };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const live = liveLine();
  const make = () => (model.get("data").reduced ? buildReduced : build)(model, el, live);
  let paint = make();
  const renew = () => {
    paint = make();
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
