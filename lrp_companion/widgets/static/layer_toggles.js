// Switches for the layers: which explanation results, and how it agrees with LOO.
const PATHS = {
  front: ["front to back, layers 1 to k", (k) => range(1, k)],
  back: ["back to front, layers k to the last", (k, last) => range(k, last)],
  single: ["layer k alone", (k) => [k]],
};
const SITE_NAMES = { word: "word", "word+position": "word + position", embedding: "whole embedding" };
const BINS = 40;

function range(from, to) {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/** A sentence's table for one site, unpacked when it is first looked at and kept. */
function unpack(sentence, site) {
  const own = sentence.sites[site];
  if (own.unpacked) return own.unpacked;
  const r = Object.fromEntries(
    Object.entries(own.r).map(([tokens, text]) => {
      const all = Float64Array.from(numbers(text, Int16Array), (step) => (step === -32768 ? NaN : step / 32767));
      const sorted = all.filter(Number.isFinite).sort(), bins = new Array(BINS).fill(0);
      const low = Math.floor(10 * (sorted[0] ?? -1)) / 10, high = Math.max(low + 0.1, Math.ceil(10 * (sorted.at(-1) ?? 1)) / 10);
      for (const value of sorted) bins[Math.min(BINS - 1, Math.floor(((value - low) / (high - low)) * BINS))] += 1;
      return [tokens, { all, sorted, bins, low, high }];
    }),
  );
  own.unpacked = { steps: numbers(own.scores, Int8Array), scale: numbers(own.scale, Float32Array), r };
  return own.unpacked;
}

/** Scores under one mask (bit l-1 set where layer l is bypassed). */
function corner({ steps, scale }, mask, width) {
  return Array.from({ length: width }, (_, i) => (steps[mask * width + i] * scale[mask]) / 127);
}

/** Scores with half-open layers: the mixture of all corners, exact because relevance is linear in each layer's amount. */
function mixture(parts, amounts, width) {
  const { steps, scale } = parts;
  parts.corners ??= Float32Array.from(steps, (step, at) => (step * scale[Math.floor(at / width)]) / 127);
  parts.mixed ??= new Float32Array(steps.length / 2);
  let from = parts.corners, rows = scale.length;
  for (const amount of amounts) { // bit 0 belongs to layer 1: neighbours first; each row is written after it was read
    rows /= 2;
    for (let row = 0; row < rows; row++) {
      const to = row * width, one = 2 * to, other = one + width;
      for (let i = 0; i < width; i++) parts.mixed[to + i] = (1 - amount) * from[one + i] + amount * from[other + i];
    }
    from = parts.mixed;
  }
  return Array.from(parts.mixed.subarray(0, width));
}

/** How many of the sorted numbers lie above a value, by a step of a mask's r at least. */
function above(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value + 1e-9) high = middle;
    else low = middle + 1;
  }
  return sorted.length - low;
}

function words(layers, last) {
  if (!layers.length) return "no layer bypassed, which is AttnLRP";
  if (layers.length === last) return "all layers bypassed, which is CP-LRP";
  const runs = [];
  for (const layer of layers) {
    if (runs.length && runs.at(-1)[1] === layer - 1) runs.at(-1)[1] = layer;
    else runs.push([layer, layer]);
  }
  return `bypassed: ${runs.map(([a, b]) => (a === b ? a : b === a + 1 ? `${a}, ${b}` : `${a} to ${b}`)).join(", ")}`;
}

/** All r of a sentence as a histogram over their own range, with a mark for the one in force and for the two ends. */
function histogram() {
  const bars = Array.from({ length: BINS }, (_, k) => svg("rect", { x: 20 + 7 * k, width: 6, class: "lrp-bin" }));
  const text = (name, y, anchor) => svg("text", { y, "text-anchor": anchor ?? "middle" }, name);
  const mark = svg("g", { class: "lrp-here" }, svg("line", { y1: 10, y2: 70 }), svg("path", { d: "M-5 3h10l-5 8z" }));
  const ends = ["A", "C"].map((name) => svg("g", {}, svg("line", { y1: 66, y2: 72, class: "lrp-end" }), text(name, 84)));
  const limits = [20, 300].map((x) => svg("text", { x, y: 98, "text-anchor": "middle", class: "lrp-axis" }));
  const base = svg("line", { x1: 20, x2: 300, y1: 66.5, y2: 66.5, class: "lrp-end" });
  const node = svg("svg", { viewBox: "0 0 320 102", role: "img", class: "lrp-histogram" }, bars, base, ends, limits, mark);
  const paint = ({ all, bins, low, high }, value, label) => {
    const most = Math.max(...bins), x = (r) => 20 + (280 * (Math.max(low, Math.min(high, r)) - low)) / (high - low);
    bars.forEach((bar, k) => {
      const tall = bins[k] ? Math.max(1, (50 * bins[k]) / most) : 0;
      bar.setAttribute("y", 66 - tall);
      bar.setAttribute("height", tall);
    });
    [[ends[0], all[0]], [ends[1], all.at(-1)], [mark, value]].forEach(([group, r]) => {
      group.setAttribute("visibility", Number.isFinite(r) ? "visible" : "hidden");
      if (Number.isFinite(r)) group.setAttribute("transform", `translate(${x(r)} 0)`);
    });
    const near = Math.abs(x(all[0]) - x(all.at(-1))) < 12, first = all[0] <= all.at(-1) ? 0 : 1; // names side by side where the ends meet
    ends.forEach((group, k) => group.lastChild.setAttribute("text-anchor", near ? (k === first ? "end" : "start") : "middle"));
    limits.forEach((limit, k) => { limit.textContent = say([low, high][k], 1); });
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

function accept(key, value, model) {
  const { layers, sites, sentences } = model.get("data");
  const whole = (list) => list.every((layer) => Number.isInteger(layer) && layer >= 1 && layer <= layers) && new Set(list).size === list.length;
  return {
    sentence: () => Number.isInteger(value) && value >= 0 && value < sentences.length,
    mode: () => ["switches", "half-open"].includes(value),
    bypassed: () => whole(value),
    amounts: () => value.length === layers && value.every((amount) => amount >= 0 && amount <= 1),
    site: () => sites.includes(value),
    tokens: () => ["no-special", "all"].includes(value),
  }[key]();
}

function render({ model, el }) {
  const live = liveLine();
  const build = () => {
    const { layers, sites, sentences } = model.get("data"), numbersOfLayers = range(1, layers), total = 2 ** layers;
    const sorted = (list) => [...list].sort((a, b) => a - b);
    const setMask = (bypassed) => put(model, { bypassed, amounts: numbersOfLayers.map((l) => Number(bypassed.includes(l))) });
    const maskOf = (list) => list.reduce((bits, layer) => bits | (1 << (layer - 1)), 0);
    const table = () => unpack(sentences[model.get("sentence")], model.get("site"));

    const pick = dropdown("Sentence", sentences.map(({ tokens, special }) => plain(tokens, special)), (sentence) => put(model, { sentence }));
    const site = choice("Read at", Object.fromEntries(sites.map((name) => [name, SITE_NAMES[name]])), (value) => put(model, { site: value }));
    const tokens = choice("Special tokens", { "no-special": "left out of r", all: "counted" }, (value) => put(model, { tokens: value }));
    const mode = choice("Layers", { switches: "on or off", "half-open": "half-open" }, (value) => {
      if (value === "switches") setMask(numbersOfLayers.filter((l) => model.get("amounts")[l - 1] >= 0.5));
      put(model, { mode: value });
    });

    let path = "front";
    const step = h("input", { type: "range", min: 1, max: layers, value: 1, "aria-label": "k", oninput: () => walk() });
    const walk = () => setMask(PATHS[path][1](Number(step.value), layers));
    const paths = dropdown("Path", Object.values(PATHS).map(([name]) => name), (place) => { path = Object.keys(PATHS)[place]; walk(); });
    const best = () => {
      const all = table().r[model.get("tokens")].all;
      let found = 0;
      all.forEach((value, mask) => { if (value > all[found] || !Number.isFinite(all[found])) found = mask; });
      setMask(numbersOfLayers.filter((l) => found & (1 << (l - 1))));
    };
    const presets = [["AttnLRP", () => setMask([])], ["CP-LRP", () => setMask(numbersOfLayers)], ["Best for this sentence", best]]
      .map(([name, call]) => h("button", { type: "button", onclick: call }, name));

    const flip = (layer) => {
      const now = model.get("bypassed");
      setMask(sorted(now.includes(layer) ? now.filter((own) => own !== layer) : [...now, layer]));
    };
    const states = numbersOfLayers.map(() => h("span", {}));
    const switches = numbersOfLayers.map((l, i) => h("button", { type: "button", class: "lrp-switch", "aria-label": `Bypass layer ${l}`, onclick: () => flip(l) }, h("b", {}, `L${l}`), states[i]));
    oneTabStop(switches);
    const slides = numbersOfLayers.map((l) => h("input", {
      type: "range", min: 0, max: 1, step: 0.05, "aria-label": `Layer ${l}: from AttnLRP, 0, to CP-LRP, 1`,
      oninput: (event) => put(model, { amounts: model.get("amounts").map((amount, i) => (i === l - 1 ? Number(event.target.value) : amount)) }),
    }));
    const amounts = numbersOfLayers.map(() => h("span", {}));
    const bank = h("div", { class: "lrp-switches", role: "group", "aria-label": "Layers bypassed" }, switches);
    const mixer = h("div", { class: "lrp-mixer", role: "group", "aria-label": "Half-open layers" }, numbersOfLayers.map((l, i) => h("label", {}, `L${l} `, amounts[i], slides[i])));

    const head = h("p", { class: "lrp-readout" }), own = h("div", {}), reference = h("div", {}), result = h("p", { class: "lrp-readout lrp-result" });
    const chart = histogram();
    let row = null, shown = null;
    el.replaceChildren(
      h("div", { class: "lrp-controls" }, pick.node),
      h("div", { class: "lrp-controls" }, presets, paths.node, h("label", {}, "k ", step)),
      bank, mixer,
      h("div", { class: "lrp-controls" }, mode.node, site.node, tokens.node),
      head, own, h("p", { class: "lrp-quiet" }, "LOO, what each token's removal takes from the logit:"), reference,
      h("div", { class: "lrp-outcome" }, result, h("figure", {}, chart.node, h("figcaption", { class: "lrp-quiet" }, `how many of all ${total.toLocaleString("en")} masks of this sentence have which r; A is AttnLRP, C is CP-LRP`))),
      live.node,
    );

    return () => {
      const place = model.get("sentence"), sentence = sentences[place], width = sentence.tokens.length;
      const keep = model.get("tokens") === "all" ? null : sentence.special.map((special) => !special);
      if (shown !== sentence) {
        shown = sentence;
        row = tokenRow(sentence.tokens, sentence.special, "Relevance of each token");
        const loo = tokenRow(sentence.tokens, sentence.special, "LOO of each token");
        loo.paint(sentence.loo);
        own.replaceChildren(row.node);
        reference.replaceChildren(loo.node);
      }
      const open = model.get("mode") === "half-open", bypassed = model.get("bypassed"), parts = table(), r = parts.r[model.get("tokens")];
      const scores = open ? mixture(parts, model.get("amounts"), width) : corner(parts, maskOf(bypassed), width);
      const value = open ? pearson(scores, sentence.loo, keep) : r.all[maskOf(bypassed)];
      const rank = above(r.sorted, value) + 1;
      row.paint(scores);
      pick.show(place); site.show(model.get("site")); tokens.show(model.get("tokens")); mode.show(model.get("mode"));
      bank.hidden = open; mixer.hidden = !open;
      switches.forEach((button, i) => {
        const on = bypassed.includes(i + 1);
        button.setAttribute("aria-pressed", on);
        states[i].textContent = on ? "CP" : "Attn";
      });
      slides.forEach((slide, i) => { slide.value = model.get("amounts")[i]; amounts[i].textContent = say(model.get("amounts")[i]); });
      [bypassed.length === 0, bypassed.length === layers].forEach((on, i) => presets[i].setAttribute("aria-pressed", !open && on));
      const what = open ? "half-open layers" : words(bypassed, layers);
      const ranked = !Number.isFinite(value) ? "no rank" : open ? `would rank ${rank.toLocaleString("en")} among the ${total.toLocaleString("en")} masks` : `rank ${rank.toLocaleString("en")} of ${total.toLocaleString("en")}`;
      head.textContent = `For “${sentence.label}” (logit ${say(sentence.logit)}); ${what}`;
      result.replaceChildren(h("span", {}, "r with LOO"), h("strong", {}, say(value)), h("span", {}, ranked));
      Object.assign(result.dataset, { r: value, rank });
      chart.paint(r, value, `Histogram of r with LOO over all masks, from ${say(r.sorted[0])} to ${say(r.sorted.at(-1))}; this one has ${say(value)}, ${ranked}`);
      live.say(`${what}: r ${say(value)}, ${ranked}`);
    };
  };
  let paint = build();
  const renew = () => { paint = build(); paint(); };
  model.on("change:data", renew);
  const stop = follow(model, ["sentence", "mode", "bypassed", "amounts", "site", "tokens"], () => paint());
  return () => { stop(); model.off("change:data", renew); };
}

/** A sentence's beginning for the drop-down: word pieces joined, special tokens left out. */
function plain(tokens, special) {
  const text = tokens.filter((_, i) => !special[i]).join(" ").replaceAll(" ##", "");
  return text.length > 60 ? `${text.slice(0, 58)} …` : text;
}

export default front({ render, accept });
