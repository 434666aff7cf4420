// deno-lint-ignore-file no-unused-vars -- the widgets use what is declared here
// Switches per layer and what is known of every set of them, before the text of `layer_toggles.js`.

/**
 * The state that they have in common.
 * @typedef {{ data: { layers: number, sites: string[] }, mode: string, bypassed: number[],
 *   amounts: number[], site: string, tokens: string }} Layered
 */

/**
 * r of every mask, in order and sorted, and its histogram from low to high.
 * @typedef {object} Agreements
 * @property {Float64Array} all
 * @property {Float64Array} sorted
 * @property {number[]} bins
 * @property {number} low
 * @property {number} high
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
/** @type {{ [name: string]: string }} */
const RULES = { AttnLRP: "attnlrp", "CP-LRP": "cp-lrp" };
const BINS = 40;

/**
 * @param {number} from
 * @param {number} to included
 * @returns {number[]}
 */
function range(from, to) {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
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
 * The r of every mask sorted, and counted in bins between round limits; NaN where r is undefined.
 * @param {Float64Array} all
 * @returns {Agreements}
 */
function counted(all) {
  const sorted = all.filter(Number.isFinite).sort(), bins = new Array(BINS).fill(0);
  const low = Math.floor(10 * (sorted[0] ?? -1)) / 10;
  const high = Math.max(low + 0.1, Math.ceil(10 * (sorted.at(-1) ?? 1)) / 10);
  for (const r of sorted) bins[Math.min(BINS - 1, Math.floor(((r - low) / (high - low)) * BINS))] += 1;
  return { all, sorted, bins, low, high };
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
 * @param {boolean} open whether layers are half-open, which is not a mask
 * @returns {string}
 */
function rankInWords(r, rank, masks, open) {
  if (!Number.isFinite(r)) return "no rank";
  if (rank > masks) return `below all ${masks.toLocaleString("en")} sets of layers`;
  const [place, all] = [rank, masks].map((count) => count.toLocaleString("en"));
  return open
    ? `would rank ${place} among the ${all} sets of layers`
    : `rank ${place} of ${all} sets of layers, best first`;
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
 * Bypass these layers, and close or open the half-open ones alike.
 * @template {Layered} State
 * @param {Model<State>} model
 * @param {number[]} bypassed
 * @returns {void}
 */
function setMask(model, bypassed) {
  const layers = range(1, model.get("data").layers);
  const amounts = layers.map((layer) => Number(bypassed.includes(layer)));
  put(model, /** @type {Partial<State>} */ ({ bypassed, amounts }));
}

/**
 * One button per layer, which bypasses it or takes it back.
 * @template {Layered} State
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
  const node = h("div", { class: "lrp-switches", role: "toolbar", "aria-label": "Layers bypassed" }, buttons);
  dragOver(node, buttons, (first, last, on) => {
    const kept = model.get("bypassed").filter((layer) => layer < first + 1 || layer > last + 1);
    setMask(model, on ? [...kept, ...range(first + 1, last + 1)].sort((a, b) => a - b) : kept);
  });
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
 * Let a pointer that goes over switches turn all of them as it would turn the first.
 * @param {HTMLElement} node
 * @param {HTMLElement[]} buttons
 * @param {(first: number, last: number, on: boolean) => void} turn places from 0
 * @returns {void}
 */
function dragOver(node, buttons, turn) {
  let from = -1, to = -1, on = false;
  const at = (/** @type {PointerEvent} */ { clientX, clientY }) => {
    const button = document.elementFromPoint(clientX, clientY)?.closest("button");
    return button ? buttons.indexOf(button) : -1;
  };
  node.addEventListener("pointerdown", (event) => {
    from = to = event.button ? -1 : at(event);
    on = buttons[from]?.getAttribute("aria-pressed") !== "true";
  });
  node.addEventListener("pointermove", (event) => {
    const here = at(event);
    if (from < 0 || here < 0 || here === to || !event.buttons) return;
    to = here;
    turn(Math.min(from, to), Math.max(from, to), on);
  });
  // The click that ends a drag over one switch and back would turn it a second time.
  node.addEventListener("click", (event) => {
    if (event.detail && from !== to) event.stopPropagation();
    from = to = -1;
  }, { capture: true });
}

/**
 * One slider per layer, from AttnLRP to CP-LRP.
 * @template {Layered} State
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function mixer(model) {
  const layers = range(1, model.get("data").layers), amounts = layers.map(() => h("span", {}));
  const sliders = layers.map((layer, place) => {
    const oninput = () => {
      const amounts = model.get("amounts").map((x, i) => (i === place ? Number(slider.value) : x));
      put(model, /** @type {Partial<State>} */ ({ amounts }));
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
 * Buttons for the masks that are asked for most; `show()` presses the one that holds.
 * @template {Layered} State
 * @param {Model<State>} model
 * @returns {{ buttons: HTMLElement[], show: () => void }}
 */
function endButtons(model) {
  const { layers } = model.get("data"), half = Math.floor(layers / 2);
  /** @type {{ [name: string]: number[] }} */
  const masks = { AttnLRP: [], "CP-LRP": range(1, layers) };
  for (const [first, last] of half > 1 ? [[1, half], [half + 1, layers]] : []) {
    masks[`CP in ${first} to ${last}`] = range(first, last);
  }
  const buttons = Object.entries(masks).map(([name, mask]) =>
    h("button", { type: "button", "data-rule": RULES[name], onclick: () => setMask(model, mask) }, name)
  );
  const show = () => {
    const here = model.get("bypassed"), open = model.get("mode") === "half-open";
    Object.values(masks).forEach((mask, k) =>
      buttons[k].setAttribute("aria-pressed", String(!open && alike(here, mask)))
    );
  };
  return { buttons, show };
}

/**
 * Choices of the kind of switch, the site and the tokens that count; `show()` marks what is in force.
 * @template {Layered} State
 * @param {Model<State>} model
 * @returns {{ nodes: HTMLElement[], show: () => void }}
 */
function layerOptions(model) {
  const { layers, sites } = model.get("data");
  const set = (/** @type {Partial<Layered>} */ values) =>
    put(model, /** @type {Partial<State>} */ (/** @type {unknown} */ (values)));
  const nearestMask = () => range(1, layers).filter((layer) => model.get("amounts")[layer - 1] >= 0.5);
  const siteNames = Object.fromEntries(sites.map((name) => [name, SITE_NAMES[name]]));
  const site = choice("Read at", siteNames, (value) => set({ site: value }));
  const tokens = choice("Special tokens", TOKEN_NAMES, (value) => set({ tokens: value }));
  const mode = choice("Layers", MODE_NAMES, (value) => {
    if (value === "switches") {
      setMask(model, nearestMask());
    } else if (!alike(nearestMask(), model.get("bypassed"))) { // a link that names only switches led here
      setMask(model, model.get("bypassed"));
    }
    set({ mode: value });
  });
  const show = () => {
    site.show(model.get("site"));
    tokens.show(model.get("tokens"));
    mode.show(model.get("mode"));
  };
  return { nodes: [mode.node, site.node, tokens.node], show };
}

/**
 * Whether what an address says of layers, site or tokens is something that there is.
 * @param {string} key
 * @param {number | string | boolean | number[]} value
 * @param {Layered["data"]} data
 * @returns {boolean}
 */
function acceptsLayered(key, value, { layers, sites }) {
  const list = Array.isArray(value) ? value : [];
  /** @type {{ [key: string]: () => boolean }} */
  const guards = {
    mode: () => Object.hasOwn(MODE_NAMES, String(value)),
    bypassed: () => list.every((layer) => isPlace(layer - 1, layers)) && new Set(list).size === list.length,
    amounts: () => list.length === layers && list.every((amount) => amount >= 0 && amount <= 1),
    site: () => sites.includes(String(value)),
    tokens: () => Object.hasOwn(TOKEN_NAMES, String(value)),
  };
  return Object.hasOwn(guards, key) && guards[key]();
}

/**
 * @typedef {{ steps: Int16Array, step: number, r: { [tokens: string]: Agreements },
 *   corners?: Float32Array, mixed?: Float32Array }} Table a sentence's scores under every mask, and their r
 * @typedef {{ scores: string, step: number, r: { [tokens: string]: string }, unpacked?: Table }} Packed
 */

const LACKS = -32768; // r goes in 32767 steps; this one stands for an undefined r

/**
 * A sentence's table for one site, unpacked when it is first looked at and kept.
 * @param {Packed} packed
 * @returns {Table}
 */
function unpack(packed) {
  packed.unpacked ??= {
    steps: numbers(packed.scores, Int16Array),
    step: packed.step,
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
function corner({ steps, step }, mask, width) {
  return Array.from({ length: width }, (_, i) => steps[mask * width + i] * step);
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
  const { steps, step } = table;
  table.corners ??= Float32Array.from(steps, (count) => count * step);
  table.mixed ??= new Float32Array(steps.length / 2);
  const { mixed } = table;
  let from = table.corners, rows = steps.length / width;
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

const PATH_NAMES = ["front to back", "back to front", "layer k alone"];

/**
 * The layers of every mask on the paper's three paths, each with its k; two paths have the empty mask.
 * @param {number} layers
 * @returns {{ k: number, mask: number[] }[][]}
 */
function pathMasks(layers) {
  const starts = [[0, layers], [1, layers + 1], [1, layers]];
  return PATHS.map((path, i) =>
    range(starts[i][0], starts[i][1]).map((k) => ({ k, mask: path.layers(k, layers) }))
  );
}

/**
 * r with LOO along the paper's three paths, drawn as far as it is known.
 * @param {number} layers
 * @returns {{ node: SVGElement, paint: (series: { k: number, r: number }[][], here: number) => void }}
 */
function pathChart(layers) {
  const [left, right, top, bottom] = [34, 270, 10, 130], frame = svg("g", {}), drawn = svg("g", {});
  const picture = { viewBox: "0 0 380 160", role: "img", class: "lrp-paths", "aria-label": "No r yet" };
  const node = svg("svg", picture, frame, drawn);
  const x = (/** @type {number} */ k) => left + ((right - left) * k) / (layers + 1);
  const ticks = range(0, layers + 1).filter((k) => k % Math.ceil((layers + 1) / 13) === 0);
  const kLabels = ticks.map((k) => svg("text", { x: x(k), y: bottom + 14, "text-anchor": "middle" }, `${k}`));
  const paint = (/** @type {{ k: number, r: number }[][]} */ series, /** @type {number} */ here) => {
    const lines = series.map((line) => line.filter(({ r }) => Number.isFinite(r)));
    const every = [...lines.flat().map(({ r }) => r), here].filter(Number.isFinite);
    if (!every.length) {
      for (const part of [frame, drawn]) part.replaceChildren();
      return node.setAttribute("aria-label", "No r yet");
    }
    const low = Math.floor(10 * Math.min(...every)) / 10, high = Math.max(low + 0.1, ...every);
    const y = (/** @type {number} */ r) => bottom - ((bottom - top) * (r - low)) / (high - low);
    const { ticks, digits } = roundTicks(low, high, 4);
    const grid = ticks.map((r) => [
      svg("line", { x1: left, x2: right, y1: y(r), y2: y(r), class: "lrp-grid" }),
      svg("text", { x: left - 5, y: y(r) + 4, "text-anchor": "end" }, say(r, digits)),
    ]);
    const name = svg("text", { x: right + 16, y: bottom + 14 }, "k");
    frame.replaceChildren(...grid.flat(), ...kLabels, name);
    const ends = lines.flatMap((line, i) => (line.length ? [{ i, at: y(line[line.length - 1].r) }] : []));
    const labels = spreadLabels(ends, 15, top + 4, bottom).map(({ i, at }) =>
      svg("text", { x: right + 8, y: at + 4, class: `lrp-path-${i}` }, PATH_NAMES[i])
    );
    const marks = Number.isFinite(here)
      ? [svg("line", { x1: left, x2: right, y1: y(here), y2: y(here), class: "lrp-switched" })]
      : [];
    const paths = lines.flatMap((line, i) => {
      const points = line.map(({ k, r }) => `${x(k)},${y(r)}`).join(" ");
      const dots = line.map(({ k, r }) => svg("circle", { cx: x(k), cy: y(r), r: 2.5 }));
      return svg("g", { class: `lrp-path-${i}` }, svg("polyline", { points }), dots);
    });
    drawn.replaceChildren(...marks, ...paths, ...labels);
    const says = lines.map((line, i) => `${PATH_NAMES[i]} ${line.map(({ r }) => say(r)).join(" ")}`);
    node.setAttribute("aria-label", `r with LOO by k; ${says.join("; ")}`);
  };
  return { node, paint };
}
