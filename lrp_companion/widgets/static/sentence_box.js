// A text box for the widget above it where no kernel runs: the engine computes what that widget shows.

/**
 * @typedef {{ label: string, tokens: string[], special: boolean[], logit: number, loo: number[],
 *   sites: { [site: string]: { unpacked: object } } }} Computed a sentence as `layer_toggles.js` keeps it
 */
/** @typedef {{ signal: AbortSignal, progress: (share: number) => void }} Watch */
/**
 * A widget that can be fed: what the button says, what is said meanwhile and after, and how a text becomes a
 * part of its data, under `into`; `place` is the state that chooses it.
 * @typedef {{ button: string, meanwhile: string, after: string, into: string, place: string,
 *   compute: (companion: Companion, text: string, data: any, labels: string[], watch: Watch) =>
 *     Promise<object>
 * }} Fed
 */
/** @typedef {{ data: Staged & { labels: string[], feeds: string } }} State */

/**
 * Scores of all masks as steps of 8 bits with a scale for each mask, as Python packs them.
 * @param {Float32Array} masks
 * @param {number} width how many tokens
 * @returns {{ steps: Int8Array, scale: Float32Array }}
 */
function inSteps(masks, width) {
  const steps = new Int8Array(masks.length), scale = new Float32Array(masks.length / width);
  for (let mask = 0; mask < scale.length; mask++) {
    const row = masks.subarray(mask * width, (mask + 1) * width);
    scale[mask] = row.reduce((largest, score) => Math.max(largest, Math.abs(score)), 0);
    row.forEach((score, i) => {
      steps[mask * width + i] = Math.round((127 * score) / (scale[mask] || 1));
    });
  }
  return { steps, scale };
}

/**
 * r of every mask with LOO, over the tokens that count.
 * @param {Float32Array} masks
 * @param {number[]} loo
 * @param {boolean[] | null} keep
 * @returns {Float64Array}
 */
function everyR(masks, loo, keep) {
  const width = loo.length, row = (/** @type {number} */ k) => masks.subarray(k * width, (k + 1) * width);
  return Float64Array.from({ length: masks.length / width }, (_, k) => rOf(row(k), loo, keep));
}

/**
 * All masks of a text at every site that the switches offer.
 * @param {Companion} companion
 * @param {string} text
 * @param {{ sites: string[] }} data
 * @param {string[]} labels
 * @param {Watch} watch
 * @returns {Promise<Computed>}
 */
async function everyMask(companion, text, { sites }, labels, { signal, progress }) {
  /** @type {Computed["sites"]} */
  const tables = {};
  let last = null;
  for (const [k, site] of sites.entries()) {
    const onProgress = (/** @type {{ done: number, total: number, numbers?: number[] }} */ step) => {
      if (step.numbers) progress((k + step.done / step.total) / sites.length);
    };
    last = await companion.masks(text, { site: /** @type {any} */ (site), signal, onProgress });
    const { masks, loo, special } = last, words = special.map((mark) => !mark);
    if (words.filter(Boolean).length < 3) throw new Error("r needs three tokens: type a longer sentence.");
    const r = { "no-special": counted(everyR(masks, loo, words)), all: counted(everyR(masks, loo, null)) };
    tables[site] = { unpacked: { ...inSteps(masks, loo.length), r } };
  }
  const { tokens, special, target, logits, loo } = /** @type {NonNullable<typeof last>} */ (last);
  return {
    label: labels[target],
    tokens: tokens.map(visible),
    special,
    logit: logits[target],
    loo,
    sites: tables,
  };
}

/**
 * Relevance of a text at every level, as `layer_flow.js` keeps it.
 * @param {Companion} companion
 * @param {string} text
 * @param {{ levels: string[] }} data
 * @param {string[]} labels
 * @param {Watch} watch
 * @returns {Promise<object>}
 */
async function everyLevel(companion, text, { levels }, labels, { signal }) {
  const flow = await companion.levels(text, { signal });
  if (flow.levels.join() !== levels.join()) {
    throw new Error(`The widget above shows a model other than “${companion.card.name}”.`);
  }
  const { tokens, special, target, logits, scores } = flow, label = labels[target];
  const { scores: loo } = await companion.explain(text, { method: "loo", target, signal });
  return { tokens: tokens.map(visible), special, label, logit: logits[target], scores, loo };
}

/** @type {{ [front: string]: Fed }} */
const FED = {
  layer_toggles: {
    button: "All masks of this sentence",
    meanwhile: "Computing every mask of the layers",
    after: "The switches above now show your sentence.",
    into: "sentences",
    place: "sentence",
    compute: everyMask,
  },
  layer_flow: {
    button: "This sentence, layer by layer",
    meanwhile: "Computing every layer",
    after: "The grids above now show your sentence.",
    into: "texts",
    place: "text",
    compute: everyLevel,
  },
};

/**
 * The widget of a kind that stands above in the page.
 * @param {HTMLElement} el
 * @param {string} front
 * @returns {Model<{ [key: string]: any }> | null}
 */
function widgetAbove(el, front) {
  const hosts = [...document.querySelectorAll(`[data-companion-widget="${front}"]`)];
  const before = (/** @type {Element} */ host) =>
    host.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING;
  const host = /** @type {HTMLElement | undefined} */ (hosts.filter(before).at(-1));
  return /** @type {any} */ (host?.companion?.model) ?? null;
}

/**
 * The box itself, once the model is there.
 * @param {Companion} companion
 * @param {State["data"]} own
 * @param {HTMLElement} el
 * @returns {HTMLElement}
 */
function textBox(companion, { labels, feeds }, el) {
  const fed = FED[feeds];
  const input = h("input", { type: "text", "aria-label": "Your sentence" });
  const said = h("p", { role: "status", class: "lrp-quiet" });
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Computed" });
  let control = new AbortController();
  const explain = async () => {
    const above = widgetAbove(el, feeds), text = input.value.trim();
    if (!above || !text) return;
    const { signal } = control = new AbortController(), data = above.get("data");
    const progress = (/** @type {number} */ share) => {
      bar.value = share;
    };
    show(true);
    try {
      const made = await fed.compute(companion, text, data, labels, { signal, progress });
      above.set("data", { ...data, [fed.into]: [...data[fed.into], made] });
      above.set(fed.place, data[fed.into].length);
      said.textContent = fed.after;
    } catch (error) {
      const { name, message } = /** @type {Error} */ (error);
      said.textContent = name === "AbortError" ? "Stopped." : message;
    }
    show(false);
  };
  const go = h("button", { type: "button", onclick: explain }, fed.button);
  const stop = h("button", { type: "button", hidden: true, onclick: () => control.abort() }, "Stop");
  const show = (/** @type {boolean} */ running) => {
    bar.hidden = !running;
    if (running) putInPlace(go, stop);
    else putInPlace(stop, go);
    if (running) said.textContent = fed.meanwhile;
  };
  input.addEventListener("keydown", ({ key }) => key === "Enter" && go.click());
  return h("div", {}, h("div", { class: "lrp-controls" }, input, go, bar, stop), said);
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const data = model.get("data");
  const load = loader(data, (companion) => {
    const box = textBox(companion, data, el);
    load.replaceWith(box);
    if (document.activeElement === document.body) box.querySelector("input")?.focus();
  });
  el.replaceChildren(h("p", {}, "Your sentence in the widget above:"), load);
  return () => {};
}

export default front({ render });
