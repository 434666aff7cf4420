// Switches for the layers of a sentence: of embedded ones every mask was computed before; a reader's own is
// explained by the engine of `engine/`, where a model is staged. No kernel.

/**
 * `drops` is true where the tokenizer drops characters that are not seen, `multi` where several labels may
 * hold at once, `folded` where the text box is to be opened first.
 * @typedef {Staged & { labels: string[], longest: number, drops: boolean, multi: boolean, folded?: boolean
 *   }} Live
 */
/** @typedef {{ [row: string]: number[] }} Maps */
/**
 * An embedded sentence; `maps` are further ones, read at the word; `sites` is empty where its masks were
 * not computed.
 * @typedef {Tokens & { text: string, target: number, label: string, logit: number, loo: number[], maps: Maps,
 *   sites: { [site: string]: Packed } }} Sentence
 */
/**
 * `rows` are the maps that are shown; a first look (`reduced`) is the switches and the rows alone.
 * @typedef {{ layers: number, sites: string[], rows: string[], reduced: boolean, sentences: Sentence[]
 *   }} Data
 */
/**
 * @typedef {{ data: Data, live: Live | null, sentence: number, text: string, other: string,
 *   compare: boolean, mode: string, bypassed: number[], amounts: number[], site: string, tokens: string,
 *   target: number, removed: number }} State
 */
/** @typedef {"text" | "other"} Which of the two sentences */
/** @typedef {{ text: string, target: number, site: string }} Asked */
/**
 * What is known of a sentence: maps by row, and of every mask either the table that was computed before, or
 * what the engine has computed so far.
 * @typedef {Tokens & Asked & { label: string, logit: number, says: string, maps: Maps, table: Table | null,
 *   engine: boolean, byMask: Map<number, number[]>, masks: Float32Array | null, r: Float64Array | null
 *   }} Known
 */

const LONGEST = 2000; // characters that the address keeps
const MOST_LAYERS = 12; // of which all masks are computed in a page
const FEW = "r needs three tokens that count.";
const FLAT = 0.1; // logits: a LOO that nowhere reaches it is flat
const NOTHING = "r says nothing here";
const HIDDEN_CHARACTERS = /[^\P{Cc}\t\n\r]|\p{Cf}/gu;
/** @type {{ [row: string]: string }} */
const ROWS = {
  loo: "LOO",
  lrp: "LRP with the layers as switched",
  attnlrp: "AttnLRP",
  "cp-lrp": "CP-LRP",
  "mask-gradient": "Mask gradient",
};
const ENDS = ["attnlrp", "cp-lrp"]; // of the switches

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
  const data = model.get("data"), { sentences } = data, live = model.get("live");
  if (key === "sentence") return isPlace(value, sentences.length);
  if (key === "removed") {
    const most = Math.max(live?.longest ?? 0, ...sentences.map(({ tokens }) => tokens.length));
    return isPlace(Number(value) + 1, most + 1);
  }
  if (!["text", "other", "compare", "target"].includes(key)) {
    return acceptsLayered(key, /** @type {number} */ (value), data);
  }
  if (!live) return false; // they need a model in the page
  if (key === "compare") return typeof value === "boolean";
  if (key === "target") return isPlace(Number(value) + 1, live.labels.length + 1);
  const text = String(value);
  return text.length <= LONGEST && text === tidy(text, live.drops);
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
 * What the box of the first or second sentence stands for: an embedded one, or a text.
 * @param {Model<State>} model
 * @param {Which} key
 * @returns {Sentence | { text: string }}
 */
function sentenceOf(model, key) {
  const { sentences } = model.get("data"), text = model.get(key);
  if (key === "text" && !text) return sentences[model.get("sentence")] ?? { text };
  return sentences.find((one) => text && one.text === text) ?? { text };
}

/**
 * What was computed of an embedded sentence before; null where that does not hold what is asked for.
 * @param {Sentence | { text: string }} sentence
 * @param {{ site: string, target: number, layers: number }} asked a target below 0 is the predicted class
 * @returns {Known | null}
 */
function computedBefore(sentence, { site, target, layers }) {
  if (!("loo" in sentence) || (target >= 0 && target !== sentence.target)) return null;
  const packed = sentence.sites[site], table = packed ? unpack(packed) : null;
  if (!table && site !== "word") return null;
  const { tokens, special, text, label, logit, loo } = sentence, width = tokens.length;
  const ends = table && { attnlrp: corner(table, 0, width), "cp-lrp": corner(table, 2 ** layers - 1, width) };
  return {
    ...{ tokens, special, text, label, logit, site, table, engine: false, target: sentence.target },
    says: `Explained: the logit of ${label}, ${say(logit)}.`,
    maps: { ...sentence.maps, ...ends, loo },
    ...{ byMask: new Map(), masks: null, r: null },
  };
}

/**
 * What a removal does to the logit, in words.
 * @param {Known} known
 * @param {number} place
 * @returns {string}
 */
function removalInWords({ tokens, logit: before, label, maps }, place) {
  const change = -maps.loo[place];
  return `Without “${tokens[place]}” the logit of ${label} ${change < 0 ? "falls" : "rises"} by ` +
    `${say(Math.abs(change), 3)}, from ${say(before, 3)} to ${say(before + change, 3)}.`;
}

/**
 * Whether two maps are the same but for rounding.
 * @param {number[]} a
 * @param {number[]} b
 * @returns {boolean}
 */
function near(a, b) {
  return a.every((score, i) => Math.abs(score - b[i]) <= 1e-6 * Math.max(...a.map(Math.abs)));
}

/**
 * On how many words each rule has LOO's sign, and which one of another sign has most of LOO.
 * @param {Known} known
 * @returns {string}
 */
function signsInWords({ tokens, special, maps: { loo, ...maps } }) {
  const places = tokens.map((_, i) => i).filter((i) => !special[i] && loo[i]);
  const says = ENDS.filter((name) => maps[name]).map((name) => {
    const other = places.filter((i) => loo[i] * maps[name][i] <= 0);
    const [most] = other.sort((a, b) => Math.abs(loo[b]) - Math.abs(loo[a]));
    if (!other.length) return `${ROWS[name]} has LOO's sign on every token.`;
    const count = `${places.length - other.length} of ${places.length} tokens`;
    return `${ROWS[name]} has LOO's sign on ${count}; the largest with another sign is “${tokens[most]}”.`;
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
    const both = `${a.label} and ${b.label}`;
    const says = `No difference: the two are explained for ${both}. Choose one class.`;
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
   * @param {Which} key
   * @param {(text: string) => void} speak
   */
  constructor(model, key, speak) {
    this.model = model;
    this.key = key;
    this.speak = speak;
    /** @type {Companion | null} */
    this.companion = null;
    this.round = new AbortController(); // of everything asked about the sentence in force
    this.turn = new AbortController(); // of the switches in force
    this.filling = new AbortController(); // of all masks
    /** @type {Known | null} */
    this.known = null;
    this.removed = -1;
    this.status = h("p", { class: "lrp-quiet", role: "status" });
    this.waits = h("p", { class: "lrp-shared", hidden: true });
    this.head = h("p", { class: "lrp-readout" });
    this.rows = h("div", { class: "lrp-rows" });
    this.signs = h("p", { class: "lrp-readout" });
    this.removal = h("p", { class: "lrp-readout", "aria-live": "polite" });
    this.painted = () => {};
    /** @type {{ [row: string]: { title: HTMLElement, row: ReturnType<typeof tokenRow> } }} */
    this.drawn = {};
    const { layers, reduced } = model.get("data");
    this.chart = pathChart(layers);
    this.bars = histogram();
    this.result = h("p", { class: "lrp-readout lrp-result" });
    this.figures = h("div", { class: "lrp-figures" }, this.maskFigure(), this.pathFigure());
    const name = key === "text" ? "Explanation" : "Second explanation";
    this.node = h("div", { class: "lrp-panel", role: "group", "aria-label": name });
    this.node.append(this.status, this.waits, this.head, this.rows);
    const outcome = h("div", { class: "lrp-outcome" }, this.result, this.figures);
    if (!reduced) this.node.append(this.signs, outcome);
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
    this.node.classList.remove("lrp-stale");
    this.removed = -1;
    if (!known) return this.rows.replaceChildren();
    for (const row of this.model.get("data").rows) {
      if (!known.engine && !known.table && !known.maps[row]) continue; // nobody will compute it
      const title = h("p", { class: "lrp-row-title", "data-rule": row });
      this.drawn[row] = { title, row: tokenRow(known.tokens, known.special, ROWS[row]) };
    }
    const loo = this.drawn.loo.row.node;
    const pick = (/** @type {Event} */ event) => {
      const item = /** @type {Element} */ (event.target).closest("li");
      if (!item || !this.known?.maps.loo) return;
      this.removed = [...loo.children].indexOf(item);
      if (this.key === "text") put(this.model, { removed: this.removed });
      else this.paintRemoval();
    };
    loo.addEventListener("click", pick);
    loo.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault(); // a space would scroll
      pick(event);
    });
    this.rows.replaceChildren(...Object.values(this.drawn).flatMap(({ title, row }) => [title, row.node]));
    loo.after(this.removal);
  }

  /** @returns {HTMLElement} */
  pathFigure() {
    const caption =
      "r with LOO along the paper's three paths: layers 1 to k bypassed, layers k to the last, " +
      "layer k alone; dashed: the layers as switched";
    return h("figure", {}, this.chart.node, h("figcaption", {}, caption));
  }

  /** @returns {HTMLElement} */
  maskFigure() {
    const { layers } = this.model.get("data"), count = (2 ** layers).toLocaleString("en");
    if (layers > MOST_LAYERS) {
      return h("p", { class: "lrp-quiet" }, `${layers} layers have too many sets to try them all.`);
    }
    const fill = () => this.fill();
    this.go = h("button", { type: "button", onclick: fill }, `All ${count} sets of layers`);
    this.halt = h("button", { type: "button", hidden: true, onclick: () => this.filling.abort() }, "Stop");
    const best = { type: /** @type {const} */ ("button"), class: "lrp-best", hidden: true };
    this.best = h("button", { ...best, onclick: () => this.choose() }, "Best for this sentence");
    this.bar = h("progress", { max: 2 ** layers, value: 0, hidden: true, "aria-label": "Sets computed" });
    const controls = h("div", { class: "lrp-controls" }, this.go, this.bar, this.halt, this.best);
    const caption = h("figcaption", {}, "distribution of r over all sets; A is AttnLRP, C is CP-LRP");
    this.histogram = h("figure", { hidden: true }, this.bars.node, caption);
    return h("div", {}, controls, this.histogram);
  }

  /**
   * Explain the sentence in force, from what was computed before or by the model in the page.
   * @returns {Promise<void>}
   */
  async explain() {
    this.stop();
    this.status.textContent = "";
    const { model, companion } = this, { layers } = model.get("data"), sentence = sentenceOf(model, this.key);
    const asked = { text: sentence.text, target: model.get("target"), site: model.get("site") };
    const before = computedBefore(sentence, { ...asked, layers });
    if (before && (before.table || !companion)) {
      this.known = before;
      this.renew();
      await this.switched();
    } else if (companion && asked.text) await this.ask(companion, asked);
    else {
      this.known = null;
      this.renew();
      this.wait();
      this.painted();
    }
  }

  /**
   * Say what the model is to be loaded for, where it is.
   * @returns {void}
   */
  wait() {
    const { known, model, companion } = this, { text } = sentenceOf(model, this.key);
    const turned = model.get("mode") === "half-open" || model.get("bypassed").length > 0;
    const lacks = known ? !known.table && turned : text;
    this.waits.hidden = !model.get("live") || Boolean(companion) || !lacks;
    const asked = `“${visible(text)}”, ${this.layersInWords()}`;
    this.waits.textContent = `${asked}. Load the model to see its maps.`;
  }

  /**
   * Ask the model; what does not change with the site is kept. Until it answers, what was shown is faded.
   * @param {Companion} companion
   * @param {Asked} asked
   * @returns {Promise<void>}
   */
  async ask(companion, asked) {
    const { signal } = this.round = new AbortController();
    const { labels, multi } = /** @type {Live} */ (this.model.get("live"));
    const how = { site: /** @type {any} */ (asked.site), target: asked.target < 0 ? null : asked.target };
    const ask = (/** @type {any} */ method, /** @type {any} */ onProgress) =>
      companion.explain(asked.text, { ...how, method, signal, onProgress });
    this.waits.hidden = true;
    this.status.textContent = "Computing";
    this.node.classList.add("lrp-stale");
    this.painted();
    try {
      const first = await ask("attnlrp", undefined), { known } = this, { target, logits, special } = first;
      const same = known?.engine && known.text === asked.text && known.target === target;
      const label = labels[target], predicted = labels[logits.indexOf(Math.max(...logits))];
      const all = logits.map((logit, i) => `${labels[i]} ${say(logit)}`).join(", ");
      const share = 100 / logits.reduce((sum, one) => sum + Math.exp(one - Math.max(...logits)), 0);
      const best = multi ? `Largest logit: ${predicted}` : `Predicted: ${predicted} (${Math.round(share)} %)`;
      const says = `${best}. Logits: ${all}; ` +
        `explained: the logit of ${label}.`;
      /** @type {Maps} */
      const maps = same ? { loo: known.maps.loo, "mask-gradient": known.maps["mask-gradient"] } : {};
      maps.attnlrp = first.scores;
      const now = this.known = {
        ...{ ...asked, target, special, label, says, maps, logit: logits[target] },
        ...{ tokens: first.tokens.map(visible), table: null, engine: true },
        ...{ byMask: new Map(), masks: null, r: null },
      };
      if (!same) this.renew();
      this.node.classList.remove("lrp-stale");
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
    if (this.drawn["mask-gradient"]) known.maps["mask-gradient"] ??= (await ask("mask-gradient")).scores;
    this.paint();
    const count = known.tokens.length;
    known.maps.loo ??= (await ask("loo", (/** @type {{ done: number }} */ { done }) => {
      this.status.textContent = `LOO: ${done} of ${count} removals`;
    })).scores;
    this.status.textContent = "Computing the three paths";
    this.paint();
    const signs = [...known.text], more = signs.length > 30 ? "…" : "";
    const start = visible(signs.slice(0, 30).join("")) + more;
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
    const companion = /** @type {Companion} */ (this.companion);
    return (await companion.explain(text, { ...how, ...layers })).scores;
  }

  /**
   * The row of the switches; the last turn wins.
   * @returns {Promise<void>}
   */
  async switched() {
    const { known, model } = this;
    this.wait();
    if (!known) return;
    if (!known.engine) {
      const { table, tokens } = known, open = model.get("mode") === "half-open", width = tokens.length;
      if (table && open) known.maps.lrp = mixture(table, model.get("amounts"), width);
      else if (table) known.maps.lrp = corner(table, maskOf(model.get("bypassed")), width);
      this.paint();
      return this.speak(this.summary());
    }
    this.turn.abort();
    const { signal } = this.turn = new AbortController();
    try {
      known.maps.lrp = await this.lrp(known, { amounts: amountsInForce(model) }, signal);
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
    this.painted();
    this.head.textContent = "";
    this.status.textContent = visible(message);
  }

  /**
   * r with LOO of scores, over the tokens that count.
   * @param {ArrayLike<number> | undefined} scores
   * @returns {number}
   */
  r(scores) {
    const loo = this.known?.maps.loo;
    return loo && scores ? rOf(scores, loo, this.kept()) : NaN;
  }

  /**
   * Which tokens count for r; null for all.
   * @returns {boolean[] | null}
   */
  kept() {
    return this.model.get("tokens") === "all" ? null : this.known?.special.map((special) => !special) ?? null;
  }

  /**
   * Whether no token that counts moves the logit: then r says nothing, and is not shown.
   * @returns {boolean}
   */
  flat() {
    const loo = this.known?.maps.loo, kept = this.kept();
    return Boolean(loo?.every((score, i) => (kept && !kept[i]) || Math.abs(score) < FLAT));
  }

  /**
   * r with LOO of a mask: of the table, whose r is that of unrounded scores, or of its scores.
   * @param {number} mask
   * @returns {number}
   */
  rOfMask(mask) {
    const { known } = this;
    return known?.table?.r[this.model.get("tokens")].all[mask] ?? this.r(known?.byMask.get(mask));
  }

  /**
   * r with LOO of a row.
   * @param {string} row
   * @returns {number}
   */
  rOfRow(row) {
    const { model, known } = this, open = model.get("mode") === "half-open";
    /** @type {{ [row: string]: number }} */
    const masks = { attnlrp: 0, "cp-lrp": 2 ** model.get("data").layers - 1 };
    if (!open) masks.lrp = maskOf(model.get("bypassed"));
    return known?.table && row in masks ? this.rOfMask(masks[row]) : this.r(known?.maps[row]);
  }

  /** @returns {string} */
  layersInWords() {
    const open = this.model.get("mode") === "half-open";
    return open ? "half-open layers" : inWords(this.model.get("bypassed"), this.model.get("data").layers);
  }

  /** @returns {string} */
  summary() {
    const which = this.model.get("compare") ? `${this.key === "other" ? "Second" : "First"} sentence, ` : "";
    const shown = [...this.result.children].map(({ textContent }) => textContent);
    return `${which}${this.layersInWords()}: ${shown.join(" ")}`;
  }

  /** @returns {void} */
  paint() {
    const { known } = this, live = this.model.get("live");
    if (!known) return;
    const before = live && !known.engine ? " Computed when this page was made, with unrounded weights." : "";
    const flat = this.flat(), words = this.kept(), none = words ? "word" : "token";
    const warning = `No ${none} moves the logit by ${FLAT} when it is hidden: ${NOTHING}.`;
    this.head.replaceChildren(known.says + before, ...(flat ? [" ", h("strong", {}, warning)] : []));
    const over = words ? "words only" : "all tokens", { loo, lrp } = known.maps;
    for (const [row, { title, row: tokens }] of Object.entries(this.drawn)) {
      const scores = known.maps[row], r = this.rOfRow(row), ready = scores && loo;
      if (scores) tokens.paint(scores);
      const twin = Boolean(scores && lrp) && ENDS.includes(row) && near(scores, lrp);
      tokens.node.hidden = twin;
      const shown = flat ? ` ${NOTHING}` : ` r with LOO, ${over} ${ready ? say(r) : "…"}`;
      const says = row === "loo" ? ": what the logit loses without the token" : shown;
      const which = twin ? "; same as switched" : row === "lrp" ? `; ${this.layersInWords()}` : "";
      title.replaceChildren(ROWS[row], h("span", {}, says + which));
      title.dataset.r = row === "loo" || !ready ? "" : String(r);
    }
    const few = Number.isFinite(this.rOfRow("attnlrp")) ? "" : ` ${FEW}`;
    this.signs.textContent = loo && !flat ? signsInWords(known) + few : "";
    this.paintRemoval();
    this.result.hidden = !known.engine && !known.table;
    this.figures.hidden = flat || this.result.hidden;
    this.paintPaths();
    this.paintMasks();
    this.painted();
  }

  /** @returns {void} */
  paintPaths() {
    if (!this.known || this.figures.hidden) return;
    const series = pathMasks(this.model.get("data").layers).map((path) =>
      path.map(({ k, mask }) => ({ k, r: this.rOfMask(maskOf(mask)) }))
    );
    this.chart.paint(series, this.rOfRow("lrp"));
  }

  /**
   * r of every mask for the tokens that count now, where it is known of any.
   * @returns {Agreements | null}
   */
  agreements() {
    const { known } = this;
    if (known?.table) return known.table.r[this.model.get("tokens")];
    if (!known?.masks) return known?.r ? counted(known.r) : null;
    const { masks, tokens } = known, width = tokens.length;
    return counted(Float64Array.from(
      { length: masks.length / width },
      (_, k) => this.r(masks.subarray(k * width, (k + 1) * width)),
    ));
  }

  /** @returns {void} */
  paintMasks() {
    const agreements = this.agreements(), r = this.rOfRow("lrp");
    const done = Boolean(this.known?.masks || this.known?.table);
    delete this.result.dataset.rank;
    const ranked = done && agreements ? this.rank(agreements, r) : "", flat = this.flat();
    const shown = this.known?.maps.lrp && this.known.maps.loo ? say(r) : "…";
    this.result.replaceChildren(
      h("span", {}, flat ? NOTHING : "r with LOO"),
      h("strong", {}, flat ? "" : shown),
      h("span", {}, flat ? "" : ranked),
    );
    this.result.dataset.r = String(r);
    if (!this.histogram || !this.best || !this.go || !this.bar) return;
    this.histogram.hidden = !agreements;
    this.best.hidden = !done;
    this.go.hidden = Boolean(this.known?.table) || !this.bar.hidden;
    if (!agreements) return;
    const { sorted } = agreements, [lowest, highest] = [sorted[0], sorted.at(-1) ?? NaN].map((x) => say(x));
    const range = `Histogram of r with LOO over the sets, from ${lowest} to ${highest}`;
    const place = ranked ? `, ${ranked}` : "";
    this.bars.paint(agreements, r, `${range}; as switched ${say(r)}${place}`);
  }

  /**
   * The place of the layers as switched among all masks, in words.
   * @param {Agreements} agreements
   * @param {number} r
   * @returns {string}
   */
  rank({ all, sorted }, r) {
    const open = this.model.get("mode") === "half-open";
    const own = open ? r : all[maskOf(this.model.get("bypassed"))]; // r may differ by rounding
    const rank = above(sorted, own) + 1;
    this.result.dataset.rank = String(rank);
    return rankInWords(r, rank, all.length, open);
  }

  /**
   * Compute all masks in the background.
   * @returns {Promise<void>}
   */
  async fill() {
    const { known, companion, bar, go, halt } = this;
    if (!known?.engine || !companion || !bar || !go || !halt) return;
    if (known.maps.loo && !Number.isFinite(this.r(known.maps.attnlrp))) return this.speak(FEW);
    const { signal } = this.filling = new AbortController(), { text, target, site } = known;
    const show = (/** @type {boolean} */ running) => {
      bar.hidden = !running;
      if (running) putInPlace(go, halt);
      else putInPlace(halt, go);
    };
    bar.value = 0;
    show(true);
    this.speak(`Computing ${bar.max.toLocaleString("en")} sets of layers.`);
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
      const { masks } = await companion.masks(text, how);
      if (!signal.aborted) known.masks = masks;
      if (known === this.known) this.paintMasks();
    } catch (error) {
      if (known === this.known) this.fail(error);
    }
    show(false);
    if (known === this.known) {
      this.speak(known.masks ? `All sets of layers. ${this.result.lastChild?.textContent}` : "Stopped.");
    }
  }

  /**
   * Switch the layers of the mask that agrees best.
   * @returns {void}
   */
  choose() {
    const agreements = this.agreements();
    if (!agreements) return;
    const mask = bestMask(agreements.all);
    put(this.model, { mode: "switches" });
    setMask(this.model, range(1, this.model.get("data").layers).filter((layer) => mask & maskOf([layer])));
  }

  /**
   * Say what the removal of a token does, or that one may be chosen.
   * @returns {void}
   */
  paintRemoval() {
    const { known } = this, place = this.key === "text" ? this.model.get("removed") : this.removed;
    if (!known) return;
    const gone = known.maps.loo && place >= 0 && place < known.tokens.length;
    const says = gone ? removalInWords(known, place) : "Press a token of LOO to remove it.";
    if (this.removal.textContent !== says) this.removal.textContent = says; // said aloud
    [...this.drawn.loo.row.node.children].forEach((item, i) => {
      item.toggleAttribute("data-removed", Boolean(gone) && i === place);
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
  const { sentences } = model.get("data"),
    drops = model.get("live")?.drops,
    name = key === "text" ? "Your sentence" : "Second sentence";
  const said = h("p", { role: "alert", class: "lrp-refused" }), title = h("span", {});
  const box = h("textarea", { "aria-label": name, name: key });
  box.rows = 3;
  /** @type {string | null} */
  let inForce = null;
  let wrong = ""; // with what is typed
  const take = () => {
    const text = tidy(box.value, drops);
    const long = `This text has ${text.length.toLocaleString("en")} characters; ` +
      `the limit is ${LONGEST.toLocaleString("en")}. Shorten it.`;
    wrong = text.length > LONGEST ? long : text ? "" : "Type at least one word.";
    if (wrong || text === sentenceOf(model, key).text) return show();
    const place = sentences.findIndex((one) => one.text === text);
    if (key === "other") put(model, { other: text });
    else put(model, { removed: -1, ...(place < 0 ? { text } : { text: "", sentence: place }) });
  };
  box.addEventListener("input", () => {
    wrong = "";
    show();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    explain();
  });
  const named = { type: /** @type {const} */ ("button"), "aria-label": `Explain: ${name.toLowerCase()}` };
  const button = h("button", { ...named, onclick: explain }, "Explain");
  const show = () => {
    const here = sentenceOf(model, key), { text } = here;
    if (text !== inForce) {
      if (tidy(box.value, drops) !== text) box.value = text;
      wrong = "";
    }
    inForce = text;
    title.textContent = name + (loaded() ? "" : ": first load the model, then type");
    const says = wrong || (loaded() || "loo" in here || !text ? "" : "Now press “Load the model”.");
    if (said.textContent !== says) said.textContent = says; // once, for who listens
  };
  const node = h("div", { class: "lrp-sentence-box" }, h("label", {}, title, box), button, said);
  return { node, take, show };
}

/**
 * What stands above the explanations: the choice of a sentence, and where a model is staged boxes for texts.
 * @param {Model<State>} model
 * @param {() => boolean} loaded
 * @returns {{ line: HTMLElement, own: Child[], take: () => void, show: () => void }} `take` reads what
 *   was typed
 */
function sentenceChoice(model, loaded) {
  const { sentences } = model.get("data"), live = model.get("live"), own = live ? ["your own"] : [];
  const take = () => {
    first.take();
    if (model.get("compare")) second.take();
  };
  const first = sentenceBox(model, "text", loaded, take), second = sentenceBox(model, "other", loaded, take);
  const chosen = dropdown("Sentence", [...sentences.map(beginning), ...own], (place) => {
    if (place < sentences.length) put(model, { removed: -1, text: "", sentence: place });
    else {
      const folded = first.node.closest("details");
      if (folded) folded.open = true;
      first.node.querySelector("textarea")?.select();
    }
  });
  const check = h("input", { type: "checkbox", onchange: () => put(model, { compare: check.checked }) });
  const compare = h("label", {}, check, " Compare with a second sentence");
  const show = () => {
    const here = sentenceOf(model, "text"),
      place = "loo" in here ? sentences.indexOf(here) : sentences.length;
    chosen.show(place);
    check.checked = model.get("compare");
    second.node.hidden = !check.checked;
    first.show();
    second.show();
  };
  const boxes = h("div", { class: "lrp-side-by-side" }, first.node, second.node);
  const choose = sentences.length + own.length > 1 ? [chosen.node] : [];
  const line = h("div", { class: "lrp-controls" }, choose, live && !live.folded ? compare : []);
  return { line, own: [live?.folded ? compare : "", boxes], take, show };
}

/**
 * What needs a model in the page, folded away where the page is about something else and no link leads here.
 * @param {Model<State>} model
 * @param {Child[]} own
 * @returns {HTMLElement}
 */
function ownText(model, own) {
  if (!model.get("live")?.folded) return h("div", {}, ...own);
  return h("details", { class: "lrp-own" }, h("summary", {}, "A sentence of your own"), ...own);
}

/**
 * Switches and options for the layers, and the class that is explained.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: (loaded: boolean) => void }}
 */
function controls(model) {
  const { reduced } = model.get("data"), bank = switchBank(model), sliders = mixer(model);
  const ends = endButtons(model), options = layerOptions(model);
  const [attnlrp, cpLrp] = ends.buttons;
  const classes = dropdown(
    "Explain the logit of",
    ["the predicted class", ...(model.get("live")?.labels ?? [])],
    (place) => {
      put(model, { target: place - 1 });
    },
  );
  const show = (/** @type {boolean} */ loaded) => {
    for (const part of [bank, sliders, ends, options]) part.show();
    classes.show(model.get("target") + 1);
    classes.node.hidden = !loaded;
  };
  const line = (/** @type {Child[]} */ ...parts) => h("div", { class: "lrp-controls" }, ...parts);
  const first = reduced ? line("All layers:", attnlrp, cpLrp) : line(ends.buttons, options.nodes[0]);
  const last = reduced ? [] : [line(options.nodes.slice(1), classes.node)];
  return { node: h("div", {}, first, bank.node, sliders.node, last), show };
}

/**
 * Lay the widget out for its sentences, and follow what is chosen.
 * @param {Model<State>} model
 * @param {HTMLElement} el
 * @param {ReturnType<typeof liveLine>} live
 * @returns {() => void} the clean-up
 */
function build(model, el, live) {
  const staged = model.get("live"), first = new Panel(model, "text", live.say);
  const second = new Panel(model, "other", live.say),
    both = () => model.get("compare") ? [first, second] : [first];
  const loaded = () => first.companion !== null, chosen = controls(model), between = h("div", {});
  const boxes = sentenceChoice(model, loaded);
  const region = { class: "lrp-work", tabindex: -1, role: "region", "aria-label": "Explanations" };
  const work = h("div", region, chosen.node);
  work.append(h("div", { class: "lrp-side-by-side" }, first.node, staged ? second.node : []), between);
  first.painted = second.painted = () => {
    between.replaceChildren(...(model.get("compare") ? differences(first, second) : []));
    between.classList.toggle("lrp-stale", both().some(({ node }) => node.classList.contains("lrp-stale")));
  };
  const load = staged && loader(staged, (companion) => {
    load?.remove();
    for (const panel of [first, second]) panel.companion = companion;
    boxes.take();
    for (const panel of both()) panel.explain();
    boxes.show();
    chosen.show(true);
    const here = document.activeElement;
    if (here === document.body || load?.contains(here)) work.focus({ preventScroll: true });
  });
  const own = load ? ownText(model, [...boxes.own, load]) : "";
  el.replaceChildren(boxes.line, own, work, live.node);
  const compare = () => {
    second.node.hidden = !model.get("compare");
    first.painted();
    if (second.node.hidden) second.stop();
    else second.explain();
  };
  const show = () => {
    boxes.show();
    chosen.show(loaded());
    if (own instanceof HTMLDetailsElement && (model.get("text") || model.get("compare"))) own.open = true;
  };
  /** @type {[(keyof State & string)[], () => void][]} */
  const calls = [
    [["sentence", "text"], () => first.explain()],
    [["compare", "other"], compare],
    [["target", "site"], () => both().forEach((panel) => panel.explain())],
    [["mode", "bypassed", "amounts"], () => both().forEach((panel) => panel.switched())],
    [["tokens"], () => both().forEach((panel) => panel.paint())],
    [["removed"], () => first.paintRemoval()],
    [["sentence", "text", "other", "compare", "mode", "bypassed", "amounts"], show],
    [["target", "site", "tokens"], show],
  ];
  for (const [keys, call] of calls) keys.forEach((key) => model.on(`change:${key}`, call));
  compare();
  first.explain();
  show();
  return () => {
    for (const [keys, call] of calls) keys.forEach((key) => model.off(`change:${key}`, call));
    for (const panel of [first, second]) panel.stop();
  };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const live = liveLine();
  let clean = build(model, el, live);
  const renew = () => {
    clean();
    clean = build(model, el, live);
  };
  model.on("change:data", renew);
  return () => {
    model.off("change:data", renew);
    clean();
  };
}

export default front({ render, accept });
