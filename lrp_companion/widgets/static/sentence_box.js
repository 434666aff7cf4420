// A text box for the grids of layers above it where no kernel runs: the engine computes what they show.

/** @typedef {{ data: Staged & { labels: string[] } }} State */

/**
 * Relevance of a text at every level, as `layer_flow.js` keeps it.
 * @param {Companion} companion
 * @param {string} text
 * @param {{ levels: string[] }} data
 * @param {string[]} labels
 * @param {AbortSignal} signal
 * @returns {Promise<object>}
 */
async function everyLevel(companion, text, { levels }, labels, signal) {
  const flow = await companion.levels(text, { signal });
  if (flow.levels.join() !== levels.join()) {
    throw new Error(`The widget above shows a model other than “${companion.card.name}”.`);
  }
  const { tokens, special, target, logits, scores } = flow, label = labels[target];
  const { scores: loo } = await companion.explain(text, { method: "loo", target, signal });
  return { tokens: tokens.map(visible), special, label, logit: logits[target], scores, loo };
}

/**
 * The grids that stand above in the page.
 * @param {HTMLElement} el
 * @returns {(HTMLElement & { companion?: { model: any } }) | undefined}
 */
function gridsAbove(el) {
  const hosts = [...document.querySelectorAll('[data-companion-widget="layer_flow"]')];
  const before = (/** @type {Element} */ host) =>
    host.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING;
  return /** @type {any} */ (hosts.filter(before).at(-1));
}

/**
 * The box itself, once the model is there.
 * @param {Companion} companion
 * @param {State["data"]} own
 * @param {HTMLElement} el
 * @returns {HTMLElement}
 */
function textBox(companion, { labels }, el) {
  const input = h("input", { type: "text", "aria-label": "Your sentence" });
  const said = h("p", { role: "status", class: "lrp-quiet" });
  let control = new AbortController();
  const clear = () => said.replaceChildren();
  const explain = async () => {
    const host = gridsAbove(el), above = host?.companion?.model, text = input.value.trim();
    if (!host || !above || !text) return;
    const { signal } = control = new AbortController(), data = above.get("data");
    host.classList.add("lrp-stale");
    putInPlace(go, stop);
    said.textContent = "Computing every layer";
    try {
      const made = await everyLevel(companion, text, data, labels, signal);
      above.set("data", { ...data, texts: [...data.texts, made] });
      above.set("text", data.texts.length);
      said.textContent = "The grids above now show your sentence.";
      above.off("change:text", clear);
      above.on("change:text", clear);
    } catch (error) {
      const { name, message } = /** @type {Error} */ (error);
      said.textContent = name === "AbortError" ? "Stopped." : message;
    }
    host.classList.remove("lrp-stale");
    putInPlace(stop, go);
  };
  const go = h("button", { type: "button", onclick: explain }, "This sentence, layer by layer");
  const stop = h("button", { type: "button", hidden: true, onclick: () => control.abort() }, "Stop");
  input.addEventListener("input", clear);
  input.addEventListener("keydown", ({ key }) => key === "Enter" && go.click());
  return h("div", {}, h("div", { class: "lrp-controls" }, input, go, stop), said);
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
    if (document.activeElement === document.body) box.querySelector("input")?.focus({ preventScroll: true });
  });
  el.replaceChildren(h("p", {}, "Your sentence in the widget above:"), load);
  return () => {};
}

export default front({ render });
