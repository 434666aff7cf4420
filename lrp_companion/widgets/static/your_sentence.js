// A reader's own sentence: asks the engine of `engine/`, and shows what comes back. No kernel.

/**
 * `masks` is true where there are few enough layers to try every set of them, `drops` where the
 * tokenizer drops characters that are not seen, `multi` where several labels may hold at once.
 * @typedef {Staged & { labels: string[], layers: number, sites: string[], longest: number, masks: boolean,
 *   drops: boolean, multi: boolean,
 *   examples: string[],
 *   computed: (Tokens & { maps: { [row: string]: number[] } })[] }} Data
 */
/**
 * @typedef {{ data: Data, text: string, other: string, compare: boolean, mode: string, bypassed: number[],
 *   amounts: number[], site: string, tokens: string, target: number, removed: number }} State
 */
/** @typedef {"text" | "other"} Which of the two sentences */
/** @typedef {{ text: string, target: number, site: string }} Asked */
/**
 * What is known of a sentence: maps by row, scores by mask, and r of every mask once they are computed.
 * @typedef {Asked & EngineMap & { maps: { [row: string]: number[] }, byMask: Map<number, number[]>,
 *   masks: Float32Array | null, r: Float64Array | null, predicted: number }} Known
 */

const LONGEST = 2000; // characters that the address keeps
const FEW = "r needs three tokens that count.";
const HIDDEN_CHARACTERS = /[^\P{Cc}\t\n\r]|\p{Cf}/gu;
/** @type {{ [row: string]: string }} */
const ROWS = {
  loo: "LOO",
  lrp: "LRP with the layers as switched",
  attnlrp: "AttnLRP",
  "cp-lrp": "CP-LRP",
  "mask-gradient": "Mask gradient",
};
const PATH_NAMES = ["front to back", "back to front", "layer k alone"];

/**
 * A text without characters that are not seen, where the tokenizer drops them, too; white space as spaces.
 * @param {string} text
 * @param {boolean} [drops] whether the tokenizer does that; else only a blank text becomes empty
 * @returns {string}
 */
function tidy(text, drops = true) {
  if (!drops) return text.trim() ? text : "";
  return text.replace(HIDDEN_CHARACTERS, "").replace(/\s+/gu, " ").trim();
}

/**
 * @param {keyof State & string} key
 * @param {Linked} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const data = model.get("data");
  if (key === "text" || key === "other") {
    const text = String(value);
    return text.length <= LONGEST && text === tidy(text, data.drops);
  }
  if (key === "compare") return typeof value === "boolean";
  if (key === "removed") return isPlace(Number(value) + 1, data.longest + 1);
  if (key === "target") return isPlace(Number(value) + 1, data.labels.length + 1);
  return acceptsLayered(key, /** @type {number} */ (value), data);
}

/**
 * How much each layer is bypassed, whichever kind of switch is in force.
 * @param {Model<State>} model
 * @returns {number[]}
 */
function amountsInForce(model) {
  if (model.get("mode") === "half-open") return model.get("amounts");
  return range(1, model.get("data").layers).map((layer) => Number(model.get("bypassed").includes(layer)));
}

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
 * What a removal does to the logit, in words.
 * @param {Known} known
 * @param {number} place
 * @param {string} label of the class
 * @returns {string}
 */
function removalInWords({ tokens, logits, target, maps }, place, label) {
  const change = -maps.loo[place], before = logits[target];
  return `Without “${tokens[place]}” the logit of ${label} ${change < 0 ? "falls" : "rises"} by ` +
    `${say(Math.abs(change), 3)}, from ${say(before, 3)} to ${say(before + change, 3)}.`;
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
    if (!every.length) return;
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

/**
 * What is shown until the model is there: an example as it was computed when the page was made; of another
 * sentence, what the model is loaded for.
 * @param {Model<State>} model
 * @returns {HTMLElement}
 */
function preview(model) {
  const { examples, computed, layers } = model.get("data"), text = model.get("text");
  const place = examples.indexOf(text), open = model.get("mode") === "half-open";
  const switches = open ? "half-open layers" : inWords(model.get("bypassed"), layers);
  const asks = `“${visible(text)}”, ${switches}. Load the model to see its maps.`;
  if (place < 0) return h("p", { class: "lrp-shared" }, asks);
  const { tokens, special, maps } = computed[place], words = special.map((mark) => !mark);
  const rows = Object.keys(ROWS).filter((name) => maps[name]).flatMap((name) => {
    const row = tokenRow(tokens, special, ROWS[name]);
    row.paint(maps[name]);
    const r = name === "loo" ? "" : ` r with LOO, words only ${say(rOf(maps[name], maps.loo, words))}`;
    return [h("p", { class: "lrp-row-title" }, ROWS[name], h("span", {}, r)), row.node];
  });
  const made = `Computed when this page was made, with unrounded weights: “${visible(text)}”`;
  const head = h("p", { class: "lrp-quiet" }, made);
  const turned = open || model.get("bypassed").length;
  const more = turned ? [h("p", { class: "lrp-shared" }, asks)] : [];
  const signs = h("p", { class: "lrp-readout" }, signsInWords(tokens, words, maps));
  return h("div", {}, more, head, rows, signs);
}

/**
 * On how many tokens each rule has LOO's sign, and which one of another sign has most of LOO.
 * @param {string[]} tokens
 * @param {boolean[]} words which tokens are words
 * @param {{ [row: string]: number[] }} maps
 * @returns {string}
 */
function signsInWords(tokens, words, { loo, ...maps }) {
  const places = tokens.map((_, i) => i).filter((i) => words[i] && loo[i]);
  const says = ["attnlrp", "cp-lrp"].filter((name) => maps[name]).map((name) => {
    const other = places.filter((i) => loo[i] * maps[name][i] <= 0);
    const [most] = other.sort((a, b) => Math.abs(loo[b]) - Math.abs(loo[a]));
    if (!other.length) return `${ROWS[name]} has LOO's sign on every token.`;
    const count = `${places.length - other.length} of ${places.length} tokens`;
    return `${ROWS[name]} has LOO's sign on ${count}; the strongest of the others is “${tokens[most]}”.`;
  });
  return says.join(" ");
}

/**
 * The tokens that two texts share at their beginning and end, as places in both.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {[number, number][]}
 */
function shared(a, b) {
  const most = Math.min(a.length, b.length);
  let head = 0, tail = 0;
  while (head < most && a[head] === b[head]) head++;
  while (tail < most - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const ends = range(1, tail).map((k) => [a.length - k, b.length - k]);
  return /** @type {[number, number][]} */ ([...range(0, head - 1).map((i) => [i, i]), ...ends.reverse()]);
}

/**
 * The second sentence's scores minus the first one's, at the words that both have.
 * @param {Panel} first
 * @param {Panel} second
 * @returns {HTMLElement[]}
 */
function differences(first, second) {
  const { known: a } = first, { known: b } = second;
  if (!a || !b) return [];
  if (a.target !== b.target) {
    const labels = first.model.get("data").labels, both = `${labels[a.target]} and ${labels[b.target]}`;
    const says = `No difference: the two are explained for ${both}. Choose one class above.`;
    return [h("p", { class: "lrp-quiet" }, says)];
  }
  const pairs = shared(a.tokens, b.tokens).filter(([, j]) => !b.special[j]);
  const rows = ["loo", "lrp"].filter((name) => pairs.length && a.maps[name] && b.maps[name]);
  return rows.flatMap((name) => {
    const row = tokenRow(pairs.map(([, j]) => b.tokens[j]), pairs.map(() => false), ROWS[name]);
    const change = pairs.map(([i, j]) => b.maps[name][j] - a.maps[name][i]);
    row.paint(change, pairs.map(([, j]) => b.maps[name][j])); // as strong as on the row above
    const title = h("p", { class: "lrp-row-title" }, `Second minus first, what both have: ${ROWS[name]}`);
    return [title, row.node];
  });
}

/** One sentence with all that is shown of it. */
class Panel {
  /**
   * @param {Model<State>} model
   * @param {Companion} companion
   * @param {Which} key
   * @param {(text: string) => void} speak
   */
  constructor(model, companion, key, speak) {
    this.model = model;
    this.companion = companion;
    this.key = key;
    this.speak = speak;
    this.round = new AbortController(); // of everything asked about the sentence in force
    this.turn = new AbortController(); // of the switches in force
    this.filling = new AbortController(); // of all masks
    /** @type {Known | null} */
    this.known = null;
    this.removed = -1;
    this.status = h("p", { class: "lrp-quiet", role: "status" });
    this.head = h("p", { class: "lrp-readout" });
    this.rows = h("div", {});
    this.signs = h("p", { class: "lrp-readout" });
    this.removal = h("p", { class: "lrp-readout", "aria-live": "polite" });
    this.painted = () => {};
    /** @type {{ [row: string]: { title: HTMLElement, row: ReturnType<typeof tokenRow> } }} */
    this.drawn = {};
    this.chart = pathChart(model.get("data").layers);
    this.bars = histogram();
    this.place = h("p", { class: "lrp-readout" });
    this.node = h("section", { "aria-label": key === "text" ? "Explanation" : "Second explanation" });
    const figures = h("div", { class: "lrp-side-by-side" }, this.pathFigure(), this.maskFigure());
    this.node.append(this.status, this.head, this.rows, this.signs, figures);
    this.renew();
  }

  /**
   * Make empty rows for the sentence in force.
   * @returns {void}
   */
  renew() {
    const { known } = this;
    this.drawn = {};
    this.node.classList.toggle("lrp-empty", !known);
    this.removal.textContent = "Click a token of LOO, or press Enter on it, to remove it.";
    this.removed = -1;
    if (!known) return this.rows.replaceChildren();
    for (const [row, name] of Object.entries(ROWS)) {
      const title = h("p", { class: "lrp-row-title" });
      this.drawn[row] = { title, row: tokenRow(known.tokens, known.special, name) };
    }
    const loo = this.drawn.loo.row.node, own = this.key === "text";
    if (own) this.removed = this.model.get("removed");
    const pick = (/** @type {Event} */ event) => {
      const item = /** @type {Element} */ (event.target).closest("li");
      if (!item || !this.known?.maps.loo) return;
      this.removed = [...loo.children].indexOf(item);
      if (own) put(this.model, { removed: this.removed });
      this.paintRemoval();
    };
    loo.addEventListener("click", pick);
    loo.addEventListener("keydown", (event) => event.key === "Enter" && pick(event));
    this.rows.replaceChildren(...Object.values(this.drawn).flatMap(({ title, row }) => [title, row.node]));
    loo.after(this.removal);
  }

  /** @returns {HTMLElement} */
  pathFigure() {
    const caption =
      "r with LOO along the paper's three paths: layers 1 to k bypassed, layers k to the last, " +
      "layer k alone; dashed: the layers as switched";
    return h("figure", {}, this.chart.node, h("figcaption", { class: "lrp-quiet" }, caption));
  }

  /** @returns {HTMLElement} */
  maskFigure() {
    const { layers, masks } = this.model.get("data"), count = (2 ** layers).toLocaleString("en");
    if (!masks) {
      return h("p", { class: "lrp-quiet" }, `${layers} layers have too many masks to try them all.`);
    }
    const fill = () => this.fill();
    this.go = h("button", { type: "button", onclick: fill }, `All ${count} masks`);
    this.halt = h("button", { type: "button", hidden: true, onclick: () => this.filling.abort() }, "Stop");
    const best = { type: /** @type {const} */ ("button"), class: "lrp-best", hidden: true };
    this.best = h("button", { ...best, onclick: () => this.choose() }, "Best mask");
    this.bar = h("progress", { max: 2 ** layers, value: 0, hidden: true, "aria-label": "Masks computed" });
    const controls = h("div", { class: "lrp-controls" }, this.go, this.bar, this.halt, this.best);
    const text = "distribution of r over the masks of this sentence; A is AttnLRP, C is CP-LRP";
    const caption = h("figcaption", { class: "lrp-quiet" }, text);
    this.histogram = h("figure", { hidden: true }, this.bars.node, caption);
    return h("div", {}, controls, this.place, this.histogram);
  }

  /**
   * Explain the sentence in force; what does not change with the site is kept.
   * @returns {Promise<void>}
   */
  async explain() {
    this.stop();
    const { signal } = this.round = new AbortController(), { model, companion } = this;
    const asked = { text: model.get(this.key), target: model.get("target"), site: model.get("site") };
    if (!asked.text) return;
    const how = { site: /** @type {any} */ (asked.site), target: asked.target < 0 ? null : asked.target };
    const ask = (/** @type {any} */ method, /** @type {any} */ onProgress) =>
      companion.explain(asked.text, { ...how, method, signal, onProgress });
    this.status.textContent = "Computing";
    try {
      const first = await ask("attnlrp", undefined), { known } = this;
      const same = known && known.text === asked.text && known.target === first.target;
      const predicted = first.logits.indexOf(Math.max(...first.logits));
      /** @type {Known["maps"]} */
      const maps = same ? { loo: known.maps.loo, "mask-gradient": known.maps["mask-gradient"] } : {};
      maps.attnlrp = first.scores;
      const tokens = first.tokens.map(visible);
      const now = { ...asked, ...first, tokens, predicted, maps, byMask: new Map(), masks: null, r: null };
      this.known = now;
      if (!same) this.renew();
      this.paint();
      await this.complete(now, ask);
      this.status.textContent = "";
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * The other maps of a sentence, then the paths.
   * @param {Known} known
   * @param {(method: string, onProgress?: any) => Promise<EngineMap>} ask
   * @returns {Promise<void>}
   */
  async complete(known, ask) {
    known.maps["cp-lrp"] = (await ask("cp-lrp")).scores;
    await this.switched();
    known.maps["mask-gradient"] ??= (await ask("mask-gradient")).scores;
    this.paint();
    const count = known.tokens.length;
    known.maps.loo ??= (await ask("loo", (/** @type {{ done: number }} */ { done }) => {
      this.status.textContent = `LOO: ${done} of ${count} removals`;
    })).scores;
    this.status.textContent = "Computing the three paths";
    this.paint();
    const start = visible([...known.text].slice(0, 30).join(""));
    this.speak(`Explained “${start}”. ${this.head.textContent} ${this.summary()}`);
    const ends = [0, 2 ** this.model.get("data").layers - 1];
    known.byMask.set(ends[0], known.maps.attnlrp).set(ends[1], known.maps["cp-lrp"]);
    for (const { mask } of pathMasks(this.model.get("data").layers).flat()) {
      const number = maskOf(mask);
      if (known.byMask.has(number)) continue;
      known.byMask.set(number, await this.lrp(known, { bypass: mask }, this.round.signal));
      this.paintPaths();
    }
  }

  /**
   * LRP of the sentence with some layers bypassed.
   * @param {Known} known
   * @param {{ bypass: number[] } | { amounts: number[] }} layers
   * @param {AbortSignal} signal
   * @returns {Promise<number[]>}
   */
  async lrp({ text, target, site }, layers, signal) {
    const how = { method: /** @type {const} */ ("lrp"), target, site: /** @type {any} */ (site), signal };
    return (await this.companion.explain(text, { ...how, ...layers })).scores;
  }

  /**
   * The row of the switches; the last turn wins.
   * @returns {Promise<void>}
   */
  async switched() {
    const { known } = this;
    if (!known) return;
    this.turn.abort();
    const { signal } = this.turn = new AbortController();
    try {
      known.maps.lrp = await this.lrp(known, { amounts: amountsInForce(this.model) }, signal);
      if (known === this.known && !signal.aborted) this.paint();
      if (known.maps.loo) this.speak(this.summary());
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * Show what went wrong; what was only stopped is no error.
   * @param {unknown} error
   * @returns {void}
   */
  fail(error) {
    const { name, message } = /** @type {Error} */ (error);
    if (name === "AbortError") return;
    this.known = null;
    this.renew();
    this.head.textContent = "";
    this.status.textContent = visible(message);
  }

  /**
   * r with LOO of a map, over the tokens that count.
   * @param {ArrayLike<number> | undefined} scores
   * @returns {number}
   */
  r(scores) {
    const { known } = this;
    if (!known?.maps.loo || !scores) return NaN;
    const keep = this.model.get("tokens") === "all" ? null : known.special.map((special) => !special);
    return rOf(scores, known.maps.loo, keep);
  }

  /** @returns {string} */
  summary() {
    const layers = this.model.get("data").layers, open = this.model.get("mode") === "half-open";
    const says = open ? "half-open layers" : inWords(this.model.get("bypassed"), layers);
    return `${says}: r with LOO ${say(this.r(this.known?.maps.lrp))}`;
  }

  /** @returns {void} */
  paint() {
    const { known } = this, { labels, multi } = this.model.get("data");
    if (!known) return;
    const logits = known.logits.map((logit, i) => `${labels[i]} ${say(logit)}`).join(", ");
    const explained = `explained: the logit of ${labels[known.target]}`;
    const predicted = `${multi ? "Largest logit" : "Predicted"}: ${labels[known.predicted]}`;
    this.head.textContent = `${predicted}. Logits: ${logits}; ${explained}.`;
    for (const [row, { title, row: tokens }] of Object.entries(this.drawn)) {
      const scores = known.maps[row], r = this.r(scores);
      if (scores) tokens.paint(scores);
      const waits = scores && known.maps.loo ? say(r) : "…";
      const over = this.model.get("tokens") === "all" ? "all tokens" : "words only";
      title.replaceChildren(ROWS[row], row === "loo" ? "" : h("span", {}, ` r with LOO, ${over} ${waits}`));
      title.dataset.r = row === "loo" || !scores || !known.maps.loo ? "" : String(r);
    }
    const words = known.special.map((special) => !special);
    const few = Number.isFinite(this.r(known.maps.attnlrp)) ? "" : ` ${FEW}`;
    this.signs.textContent = known.maps.loo ? signsInWords(known.tokens, words, known.maps) + few : "";
    this.paintRemoval();
    this.paintPaths();
    this.paintMasks();
    this.painted();
  }

  /** @returns {void} */
  paintPaths() {
    const { known } = this;
    if (!known?.maps.loo) return;
    const series = pathMasks(this.model.get("data").layers).map((path) =>
      path.map(({ k, mask }) => ({ k, r: this.r(known.byMask.get(maskOf(mask))) }))
    );
    this.chart.paint(series, this.r(known.maps.lrp));
  }

  /**
   * r of every mask from its scores, where all are there, for the tokens that count now.
   * @returns {Float64Array | null}
   */
  allR() {
    const { known } = this;
    if (!known?.masks) return known?.r ?? null;
    const { masks, tokens } = known, width = tokens.length;
    return Float64Array.from(
      { length: masks.length / width },
      (_, k) => this.r(masks.subarray(k * width, (k + 1) * width)),
    );
  }

  /** @returns {void} */
  paintMasks() {
    const all = this.allR(), r = this.r(this.known?.maps.lrp), done = Boolean(this.known?.masks);
    if (!this.histogram || !this.best) return;
    this.histogram.hidden = !all;
    this.best.hidden = !done;
    this.place.textContent = "";
    if (!all) return;
    const agreements = counted(all), rank = above(agreements.sorted, r) + 1;
    const open = this.model.get("mode") === "half-open";
    this.place.textContent = done ? `The layers as switched: ${rankInWords(r, rank, all.length, open)}.` : "";
    const range = `from ${say(agreements.low, 1)} to ${say(agreements.high, 1)}`;
    this.bars.paint(agreements, r, `Histogram of r with LOO over masks, ${range}; as switched ${say(r)}`);
  }

  /**
   * Compute all masks in the background.
   * @returns {Promise<void>}
   */
  async fill() {
    const { known, bar, go, halt } = this;
    if (!known || !bar || !go || !halt) return;
    if (known.maps.loo && !Number.isFinite(this.r(known.maps.attnlrp))) return this.speak(FEW);
    const { signal } = this.filling = new AbortController(), { text, target, site } = known;
    const show = (/** @type {boolean} */ running) => {
      bar.hidden = !running;
      if (running) putInPlace(go, halt);
      else putInPlace(halt, go);
    };
    bar.value = 0;
    show(true);
    this.speak(`Computing ${bar.max.toLocaleString("en")} masks.`);
    const r = known.r = new Float64Array(bar.max).fill(NaN);
    const onProgress = (/** @type {{ numbers?: number[], r?: number[] }} */ step) => {
      (step.numbers ?? []).forEach((mask, k) => {
        r[mask] = (step.r ?? [])[k];
      });
      if (step.numbers) bar.value += step.numbers.length;
      if (known === this.known && !signal.aborted) this.paintMasks();
    };
    const all = this.model.get("tokens") === "all";
    try {
      const how = { target, site: /** @type {any} */ (site), all, signal, onProgress };
      const { masks } = await this.companion.masks(text, how);
      if (!signal.aborted) known.masks = masks;
      if (known === this.known) this.paintMasks();
    } catch (error) {
      if (known === this.known) this.fail(error);
    }
    show(false);
    if (known === this.known) this.speak(known.masks ? `All masks. ${this.place.textContent}` : "Stopped.");
  }

  /**
   * Switch the layers of the mask that agrees best.
   * @returns {void}
   */
  choose() {
    const all = this.allR();
    if (!all) return;
    const mask = bestMask(all);
    put(this.model, { mode: "switches" });
    setMask(this.model, range(1, this.model.get("data").layers).filter((layer) => mask & maskOf([layer])));
  }

  /**
   * Say what the removal of a token does, where one was chosen.
   * @returns {void}
   */
  paintRemoval() {
    const { known, removed: place } = this;
    if (!known?.maps.loo || !(known.tokens.length > place && place >= 0)) return;
    this.removal.textContent = removalInWords(known, place, this.model.get("data").labels[known.target]);
    [...this.drawn.loo.row.node.children].forEach((item, i) => {
      item.toggleAttribute("data-removed", i === place);
    });
  }

  /**
   * Stop what runs.
   * @returns {void}
   */
  stop() {
    for (const control of [this.round, this.turn, this.filling]) control.abort();
  }
}

/**
 * A box for a sentence; Enter explains it. What is typed stays until the sentence in force changes.
 * @param {Model<State>} model
 * @param {Which} key
 * @param {() => boolean} loaded
 * @param {() => void} explain
 * @returns {{ node: HTMLElement, take: () => void, show: () => void }}
 */
function sentenceBox(model, key, loaded, explain) {
  const { drops } = model.get("data"), name = key === "text" ? "Your sentence" : "Second sentence";
  const said = h("p", { role: "alert", class: "lrp-refused" });
  const box = h("textarea", { "aria-label": name, name: key });
  box.rows = 2;
  /** @type {string | null} */
  let inForce = null;
  const take = () => {
    const text = tidy(box.value, drops);
    const long = `This text has ${text.length.toLocaleString("en")} characters; ` +
      `the limit is ${LONGEST.toLocaleString("en")}. Shorten it.`;
    said.textContent = text.length > LONGEST ? long : text ? "" : "Type at least one word.";
    if (said.textContent) return;
    if (!loaded()) said.textContent = "Now press “Load the model”.";
    const other = key === "text" && text !== model.get("text") ? { removed: -1 } : {};
    put(model, /** @type {Partial<State>} */ ({ ...other, [key]: text }));
  };
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    explain();
  });
  const button = h("button", { type: "button", onclick: explain }, "Explain");
  const show = () => {
    const text = model.get(key);
    if (text !== inForce && tidy(box.value, drops) !== text) box.value = text;
    inForce = text;
    if (loaded()) said.textContent = "";
  };
  const node = h("div", { class: "lrp-sentence-box" }, h("label", {}, name, box), button, said);
  return { node, take, show };
}

/**
 * What stands above the explanations: boxes, examples, and whether two sentences are compared.
 * @param {Model<State>} model
 * @param {() => boolean} loaded
 * @returns {{ nodes: HTMLElement[], take: () => void, show: () => void }} `take` reads what was typed
 */
function sentences(model, loaded) {
  const { examples } = model.get("data");
  const take = () => {
    first.take();
    if (model.get("compare")) second.take();
  };
  const first = sentenceBox(model, "text", loaded, take), second = sentenceBox(model, "other", loaded, take);
  const starts = examples.map((text) => visible(text.length > 60 ? `${text.slice(0, 58)} …` : text));
  const names = ["choose one", ...starts];
  const example = dropdown("Examples", names, (place) => {
    if (place) put(model, { removed: -1, text: examples[place - 1] });
  });
  const check = h("input", { type: "checkbox", onchange: () => put(model, { compare: check.checked }) });
  const compare = h("label", {}, check, " Compare with a second sentence");
  const show = () => {
    check.checked = model.get("compare");
    second.node.hidden = !check.checked;
    example.show(examples.indexOf(model.get("text")) + 1);
    first.show();
    second.show();
  };
  const boxes = h("div", { class: "lrp-side-by-side" }, first.node, second.node);
  return { nodes: [boxes, h("div", { class: "lrp-controls" }, example.node, compare)], take, show };
}

/**
 * Switches and options for the layers, and the class that is explained.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function controls(model) {
  const { labels } = model.get("data"), bank = switchBank(model), sliders = mixer(model);
  const ends = endButtons(model), options = layerOptions(model);
  const classes = dropdown("Explain the logit of", ["the predicted class", ...labels], (place) => {
    put(model, { target: place - 1 });
  });
  const show = () => {
    for (const part of [bank, sliders, ends, options]) part.show();
    classes.show(model.get("target") + 1);
  };
  const node = h(
    "div",
    {},
    h("div", { class: "lrp-controls" }, ends.buttons, options.nodes[0]),
    bank.node,
    sliders.node,
    h("div", { class: "lrp-controls" }, options.nodes.slice(1), classes.node),
  );
  return { node, show };
}

/**
 * Once the model is there: explain what stands in the boxes, and follow what is chosen.
 * @param {Model<State>} model
 * @param {Companion} companion
 * @param {HTMLElement} work
 * @param {(text: string) => void} speak
 * @returns {() => void} the clean-up
 */
function start(model, companion, work, speak) {
  const first = new Panel(model, companion, "text", speak);
  const second = new Panel(model, companion, "other", speak);
  const both = () => model.get("compare") ? [first, second] : [first];
  const chosen = controls(model);
  const between = h("div", {});
  first.painted = second.painted = () => {
    between.replaceChildren(...(model.get("compare") ? differences(first, second) : []));
  };
  const sides = h("div", { class: "lrp-side-by-side" }, first.node, second.node);
  work.replaceChildren(chosen.node, sides, between);
  const compare = () => {
    second.node.hidden = !model.get("compare");
    first.painted();
    if (second.node.hidden) second.stop();
    else second.explain();
  };
  const turn = () => {
    chosen.show();
    for (const panel of both()) panel.switched();
  };
  const stops = [
    follow(model, ["text"], () => first.explain()),
    follow(model, ["compare", "other"], compare),
  ];
  /** @type {[(keyof State & string)[], () => void][]} */
  const later = [
    [["target", "site"], () => both().forEach((panel) => panel.explain())],
    [["mode", "bypassed", "amounts"], turn],
    [["tokens"], () => both().forEach((panel) => panel.paint())],
    [["target", "site", "tokens"], chosen.show],
  ];
  chosen.show();
  for (const [keys, call] of later) keys.forEach((key) => model.on(`change:${key}`, call));
  return () => {
    for (const stop of stops) stop();
    for (const [keys, call] of later) keys.forEach((key) => model.off(`change:${key}`, call));
    for (const panel of [first, second]) panel.stop();
  };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const work = h("div", { tabindex: -1, role: "region", "aria-label": "Explanations" }, preview(model));
  const live = liveLine();
  /** @type {(() => void) | null} */
  let clean = null;
  const boxes = sentences(model, () => clean !== null);
  const load = loader(model.get("data"), (companion) => {
    load.remove();
    boxes.take();
    clean = start(model, companion, work, live.say);
    boxes.show();
    const here = document.activeElement;
    if (here === document.body || load.contains(here)) work.focus(); // the button that had it is gone
  });
  el.replaceChildren(...boxes.nodes, load, work, live.node);
  const show = () => {
    boxes.show();
    if (!clean) work.replaceChildren(preview(model));
  };
  const stop = follow(model, ["text", "other", "compare", "bypassed", "mode"], show);
  return () => {
    stop();
    clean?.();
  };
}

export default front({ render, accept });
