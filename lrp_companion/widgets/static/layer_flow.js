// Relevance from the logit down to the words: two methods side by side, level by level.

/**
 * Relevance is by method, level and token.
 * @typedef {Tokens & { label: string, logit: number, scores: number[][][] }} Text
 * @typedef {{ methods: string[], levels: string[], texts: Text[] }} Data
 * @typedef {{ data: Data, text: number, step: number }} State
 */

const MARKED = 0.5; // tokens that differ by at least this share of the largest difference are marked

/**
 * @param {"text" | "step"} key
 * @param {number} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { texts, levels } = model.get("data");
  return isPlace(value, key === "text" ? texts.length : levels.length);
}

/**
 * The largest relevance of both methods at a level: what its colours are measured by.
 * @param {Text} text
 * @param {number} level
 * @returns {number}
 */
function scaleAt({ scores }, level) {
  return Math.max(...scores.flatMap((method) => method[level].map(Math.abs))) || 1;
}

/**
 * The tokens in which two methods differ most at a level, the largest difference first.
 * @param {Text} text
 * @param {number} level
 * @returns {number[]}
 */
function differing({ scores, tokens }, level) {
  const gaps = tokens.map((_, i) => Math.abs(scores[0][level][i] - scores[1][level][i]));
  const largest = Math.max(...gaps);
  if (!(largest > 1e-9)) return [];
  return gaps.map((_, i) => i).filter((i) => gaps[i] >= MARKED * largest)
    .sort((i, j) => gaps[j] - gaps[i]);
}

/**
 * A short name of a level for the side of the grid: its layer's number, or its first letter.
 * @param {string} level
 * @returns {string}
 */
function shortName(level) {
  return level.match(/\d+/)?.[0] ?? level;
}

/**
 * One method's grid: a row per level from the top down, a column per token. Levels still ahead are empty.
 * @param {Text} text
 * @param {string[]} levels
 * @param {number} method
 * @param {(step: number) => void} go
 * @returns {{ node: HTMLElement, paint: (step: number, marked: number[]) => void }}
 */
function grid(text, levels, method, go) {
  const rows = levels.map((level, k) => {
    const cells = text.tokens.map(() => h("i", {}));
    const row = h("div", { class: "lrp-flow-level", title: level, onclick: () => go(k) }, [
      h("span", { class: "lrp-flow-name" }, shortName(level)),
      ...cells,
    ]);
    return { row, cells };
  });
  const style = `--lrp-columns:${text.tokens.length}`;
  const node = h(
    "div",
    { class: "lrp-flow-grid", style, dir: direction(text), "aria-hidden": "true" },
    rows.map(({ row }) => row),
  );
  /** @param {number} step @param {number[]} marked */
  const paint = (step, marked) => {
    rows.forEach(({ row, cells }, k) => {
      row.classList.toggle("lrp-here", k === step);
      const scale = scaleAt(text, k);
      cells.forEach((cell, i) => {
        const share = text.scores[method][k][i] / scale;
        heat(cell, k <= step ? share : null);
        cell.className = k <= step && share <= -0.05 ? "lrp-flow-minus" : "";
        cell.classList.toggle("lrp-differs", k === step && marked.includes(i));
      });
    });
  };
  return { node, paint };
}

/**
 * One method: its name, its grid, and the tokens at the level in force with their values.
 * @param {Data} data
 * @param {number} method
 * @param {(step: number) => void} go
 * @returns {{ node: HTMLElement, paint: (place: number, step: number) => string }}
 */
function panel({ methods, levels, texts }, method, go) {
  const holder = h("div", {}), line = h("p", { class: "lrp-readout" });
  const frame = { class: "lrp-flow-panel", "aria-label": methods[method] };
  const node = h("div", frame, h("p", { class: "lrp-title" }, methods[method]), holder, line);
  let shown = -1, drawn = grid(texts[0], levels, method, go), row = tokenRow([], [], "");
  /** @param {number} place @param {number} step */
  const paint = (place, step) => {
    const text = texts[place], scores = text.scores[method][step], marked = differing(text, step);
    if (shown !== place) {
      shown = place;
      drawn = grid(text, levels, method, go);
      row = tokenRow(text.tokens, text.special, `Relevance by ${methods[method]}`);
      holder.replaceChildren(drawn.node, row.node);
    }
    drawn.paint(step, marked);
    row.paint(scores, [scaleAt(text, step)]);
    [...row.node.children].forEach((item, i) => {
      item.classList.toggle("lrp-special", text.special[i]);
      item.classList.toggle("lrp-differs", marked.includes(i));
    });
    const total = `${sayTidy(sum(scores), 2)} in all, of a logit of ${say(text.logit)}`;
    line.textContent = total;
    return `${methods[method]}: ${total}`;
  };
  return { node, paint };
}

/**
 * Where the two methods differ, in words.
 * @param {Data} data
 * @param {Text} text
 * @param {number} level
 * @returns {(string | Node)[]}
 */
function inWords({ methods }, text, level) {
  const marked = differing(text, level).slice(0, 3);
  if (!marked.length) return ["Here the two methods are the same."];
  const digits = decimalsFor(text.scores.flatMap((method) => method[level]));
  const parts = marked.flatMap((i, k) => {
    const [a, b] = text.scores.map((method) => sayScore(method[level][i], Math.min(3, digits)));
    return [k ? ", " : "", h("bdi", {}, text.tokens[i]), ` (${a} against ${b})`];
  });
  return [`They differ most in `, ...parts, `: ${methods[0]} against ${methods[1]}.`];
}

/**
 * Controls, both grids and the words for the texts that there are.
 * @param {Model<State>} model
 * @param {HTMLElement} el
 * @param {ReturnType<typeof liveLine>} live
 * @returns {{ paint: () => void, stop: () => void }} `paint` shows the text and step in force
 */
function build(model, el, live) {
  const data = model.get("data"), { texts, levels } = data;
  const { play, stop, go, here } = stepper(model, {
    last: () => levels.length - 1,
    pause: 900,
    kind: "lrp-play",
  });
  const jump = (/** @type {number} */ step) => {
    stop();
    go(step);
  };
  const choose = dropdown("Text", texts.map(beginning), (text) => {
    stop();
    put(model, { text, step: 0 });
  });
  const slide = () => jump(Number(slider.value));
  const slider = h("input", {
    type: "range",
    min: 0,
    max: levels.length - 1,
    "aria-label": "How far down",
    oninput: slide,
  });
  const button = (/** @type {string} */ name, /** @type {number} */ by) =>
    h("button", { type: "button", onclick: () => jump(here() + by) }, name);
  const level = h("span", { class: "lrp-readout" }), said = h("p", {});
  const sides = [0, 1].map((method) => panel(data, method, jump));
  const buttons = [button("Up", -1), play, button("Down", 1)];
  const key = "Rows from the top: the outputs of the layers, the embeddings, the words. " +
    "Orange supports the class, blue with a dot opposes it; each row has one scale for both methods. " +
    "Framed tokens are those in which the methods differ most at this level.";
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, choose.node),
    h("div", { class: "lrp-controls" }, buttons, slider, level),
    h("div", { class: "lrp-flows" }, sides.map(({ node }) => node)),
    said,
    h("p", { class: "lrp-quiet" }, key),
    live.node,
  );
  const paint = () => {
    const place = model.get("text"), step = here(), text = texts[place];
    choose.show(place);
    slider.value = String(step);
    slider.setAttribute("aria-valuetext", levels[step]);
    level.textContent = `${levels[step]}, for ${text.label}`;
    const totals = sides.map(({ paint }) => paint(place, step));
    said.replaceChildren(...inWords(data, text, step));
    live.say(`${levels[step]}. ${totals.join("; ")}. ${said.textContent}`);
  };
  return { paint, stop };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const live = liveLine();
  let shown = build(model, el, live);
  const renew = () => {
    shown.stop();
    shown = build(model, el, live);
    shown.paint();
  };
  model.on("change:data", renew);
  const end = follow(model, ["text", "step"], () => shown.paint());
  return () => {
    shown.stop();
    end();
    model.off("change:data", renew);
  };
}

export default front({ render, accept });
