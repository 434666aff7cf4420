// Relevance from the logit down to the words: two methods side by side, level by level.

/**
 * Relevance is by method, level and token; with the keys of special tokens off, `cut` is the first method's.
 * @typedef {Tokens & { label: string, logit: number, scores: number[][][] }} Scored
 * @typedef {Scored & { loo?: number[], cut?: number[][] }} Text
 * @typedef {{ methods: string[], levels: string[], texts: Text[] }} Data
 * @typedef {{ data: Data, text: number, step: number, without: boolean, cut: boolean }} State
 */

const LEFT =
  "Here: on the tokens. Left above: what softmax, biases, norms and positions keep on the way down.";
const MARKED = 0.5; // tokens that differ by at least this share of the largest difference are marked

/**
 * @param {"text" | "step" | "without" | "cut"} key
 * @param {number | boolean} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { texts, levels } = model.get("data");
  return key === "without" || key === "cut" ||
    isPlace(value, key === "text" ? texts.length : levels.length);
}

/**
 * The first special token, which can be left out; -1 where there is none.
 * @param {Text} text
 * @returns {number}
 */
function firstToken({ special }) {
  return special?.indexOf(true) ?? -1;
}

/**
 * The largest relevance of both methods at a level: what its colours are measured by.
 * @param {Text} text
 * @param {number} level
 * @param {number} [left] a token that does not count
 * @returns {number}
 */
function scaleAt({ scores }, level, left = -1) {
  const sizes = scores.flatMap((method) => method[level].map((x, i) => i === left ? 0 : Math.abs(x)));
  return Math.max(...sizes) || 1;
}

/**
 * r of a method's relevance at a level with LOO, over all tokens but one that is left out.
 * @param {Text} text
 * @param {number} method
 * @param {number} level
 * @param {number} left
 * @returns {number}
 */
function rAt({ scores, loo }, method, level, left) {
  return loo ? rOf(scores[method][level], loo, loo.map((_, i) => i !== left)) : NaN;
}

/**
 * The tokens in which two methods differ most at a level, the largest difference first.
 * @param {Text} text
 * @param {number} level
 * @param {number} [left]
 * @returns {number[]}
 */
function differing({ scores, tokens }, level, left = -1) {
  const gaps = tokens.map((_, i) => i === left ? 0 : Math.abs(scores[0][level][i] - scores[1][level][i]));
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
 * One method's grid: a row per level from the top down and LOO, a column per token, r with LOO at the end.
 * Levels still ahead are empty.
 * @param {Text} text
 * @param {string[]} levels
 * @param {number} method
 * @param {(step: number) => void} go
 * @returns {{ node: HTMLElement, paint: (step: number, marked: number[], left: number) => void }}
 */
function grid(text, levels, method, go) {
  const line = (/** @type {string} */ name, /** @type {Attributes} */ more) => {
    const cells = text.tokens.map(() => h("i", {})), r = h("span", { class: "lrp-flow-r" });
    const row = h("div", { class: "lrp-flow-level", ...more }, h("span", { class: "lrp-flow-name" }, name));
    row.append(...cells, r);
    return { row, cells, r };
  };
  const rows = levels.map((level, k) => {
    const order = `order:${2 * k + method}`; // on a phone both methods share a grid
    return line(shortName(level), { title: level, style: order, onclick: () => go(k) });
  });
  const below = { class: "lrp-flow-level lrp-flow-loo", style: `order:${2 * levels.length}` };
  const head = line("", { class: "lrp-flow-level lrp-flow-head", style: "order:-1" });
  head.cells[0].textContent = `\u2193\u00a0${text.tokens[0]}`;
  const { loo } = text, last = loo ? [line("LOO", below)] : [];
  const style = `--lrp-columns:${text.tokens.length}`;
  const node = h(
    "div",
    { class: "lrp-flow-grid", style, dir: direction(text), "aria-hidden": "true" },
    [head, ...rows, ...last].map(({ row }) => row),
  );
  const fill = (/** @type {HTMLElement} */ cell, /** @type {number | null} */ share) => {
    heat(cell, share);
    cell.className = share !== null && share <= -0.05 ? "lrp-flow-minus" : "";
  };
  /** @param {number} step @param {number[]} marked @param {number} left */
  const paint = (step, marked, left) => {
    rows.forEach(({ row, cells, r }, k) => {
      row.classList.toggle("lrp-here", k === step);
      const scale = scaleAt(text, k, left), agreement = rAt(text, method, k, left);
      r.textContent = k <= step && Number.isFinite(agreement) ? say(agreement) : "";
      cells.forEach((cell, i) => {
        fill(cell, k <= step && i !== left ? text.scores[method][k][i] / scale : null);
        cell.classList.toggle("lrp-differs", k === step && marked.includes(i));
      });
    });
    const of = Math.max(...(loo ?? []).map((x, i) => i === left ? 0 : Math.abs(x))) || 1;
    for (const { cells } of last) {
      cells.forEach((cell, i) => fill(cell, i === left ? null : (loo ?? [])[i] / of));
    }
  };
  return { node, paint };
}

/**
 * One method: its name, its grid, and the tokens at the level in force with their values.
 * @param {Data} data
 * @param {number} method
 * @param {(step: number) => void} go
 * @returns {{ node: HTMLElement, paint: (text: Text, step: number, left: number, name: string) => string }}
 */
function panel({ levels, texts }, method, go) {
  const holder = h("div", { class: "lrp-flow-holder" }), line = h("p", { class: "lrp-readout" });
  const frame = { class: `lrp-flow-panel lrp-flow-${method}` }, r = h("strong", {});
  const named = h("b", {}), title = h("p", { class: "lrp-flow-title" }, named, " ", r);
  const node = h("div", frame, title, holder, line);
  let shown = texts[0], drawn = grid(shown, levels, method, go), row = tokenRow([], [], "");
  /** @param {Text} text @param {number} step @param {number} left @param {string} name */
  const paint = (text, step, left, name) => {
    const scores = text.scores[method][step];
    const marked = differing(text, step, left), agreement = rAt(text, method, step, left);
    if (shown !== text || !holder.hasChildNodes()) {
      shown = text;
      named.textContent = name;
      drawn = grid(text, levels, method, go);
      row = tokenRow(text.tokens, text.special, `Relevance by ${name}`);
      row.node.style.setProperty("--lrp-columns", String(text.tokens.length));
      row.node.dataset.method = name;
      holder.replaceChildren(drawn.node, row.node);
    }
    drawn.paint(step, marked, left);
    row.paint(scores, [scaleAt(text, step, left)]);
    [...row.node.children].forEach((item, i) => {
      item.classList.toggle("lrp-special", text.special[i]);
      item.classList.toggle("lrp-differs", marked.includes(i));
    });
    line.textContent = balance(sum(scores), text.logit);
    r.textContent = text.loo ? `r with LOO ${say(agreement)}` : "";
    return `${name}: ${text.loo ? r.textContent : line.textContent}`;
  };
  return { node, paint };
}

/**
 * What a level holds and what was left above it: together they are the logit.
 * @param {number} total
 * @param {number} logit
 * @returns {string}
 */
function balance(total, logit) {
  const here = sayTidy(total, 2), rest = Number(logit.toFixed(2)) - Number(total.toFixed(2));
  return `${here} here ${rest < 0 ? "\u2212" : "+"} ${Math.abs(rest).toFixed(2)} left above = logit ${
    say(logit)
  }`;
}

/**
 * Where the two methods differ, in words.
 * @param {string[]} names
 * @param {Text} text
 * @param {number} level
 * @param {number} left
 * @returns {(string | Node)[]}
 */
function inWords(names, text, level, left) {
  const marked = differing(text, level, left).slice(0, 3);
  if (!marked.length) return ["Here the two methods are the same."];
  const digits = decimalsFor(text.scores.flatMap((method) => method[level]));
  const parts = marked.flatMap((i, k) => {
    const [a, b] = text.scores.map((method) => sayScore(method[level][i], Math.min(3, digits)));
    return [k ? ", " : "", "“", h("bdi", {}, text.tokens[i]), `” (${a} against ${b})`];
  });
  return [`They differ most in `, ...parts, `: ${names.join(" against ")}.`];
}

/**
 * The last row of the grids, which are drawn for the eye alone, as items of a list.
 * @param {Text} text
 * @returns {HTMLElement[]}
 */
function looInWords({ tokens, loo }) {
  return (loo ?? []).map((score, i) => h("li", {}, h("bdi", {}, tokens[i]), ` ${sayScore(score, 3)}`));
}

/**
 * How the grids are read.
 * @param {Data} data
 * @returns {string}
 */
function keyOf({ levels, texts: [{ loo }] }) {
  const rows = [`layers ${shortName(levels[0])} to 1`, ...levels.slice(-2)].join(", ");
  const judged = loo ? `, LOO; at their ends r with LOO` : "";
  return `Rows: ${rows}${judged}. Orange: for the class; blue with a dot: against it; one scale a row. ` +
    "Framed: where the methods differ most.";
}

/**
 * Controls, both grids and the words for the texts that there are.
 * @param {Model<State>} model
 * @param {HTMLElement} el
 * @param {ReturnType<typeof liveLine>} live
 * @returns {{ paint: () => void, stop: () => void }} `paint` shows the text and step in force
 */
function build(model, el, live) {
  const data = model.get("data"), { texts, levels, methods } = data;
  const keyless = texts.map(({ cut, ...text }) => cut && { ...text, scores: [cut, text.scores[1]] });
  const { play, stop, jump, here } = stepper(model, { last: () => levels.length - 1, pause: 900 });
  const choose = dropdown("Text", texts.map(beginning), (text) => {
    stop();
    put(model, { text });
  });
  const slide = () => jump(Number(slider.value)), ends = { min: 0, max: levels.length - 1 };
  const slider = h("input", { type: "range", ...ends, "aria-label": "How far down", oninput: slide });
  const button = (/** @type {string} */ name, /** @type {number} */ by) =>
    h("button", { type: "button", onclick: () => jump(here() + by) }, name);
  const level = h("span", { class: "lrp-readout" }), said = h("p", {});
  const judge = h("ol", { class: "lrp-hidden", "aria-label": "LOO" });
  const sides = [0, 1].map((method) => panel(data, method, jump));
  const buttons = [button("Up", -1), play, button("Down", 1)];
  const toggle = (/** @type {"without" | "cut"} */ key, /** @type {string} */ name) =>
    h("button", { type: "button", onclick: () => put(model, { [key]: !model.get(key) }) }, name);
  const leave = toggle("without", ""), off = toggle("cut", "Keys off");
  off.title = "Keys of special tokens are constants on the way down.";
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, choose.node),
    h("div", { class: "lrp-controls" }, buttons, slider, off, leave, level),
    h("p", { class: "lrp-quiet" }, keyOf(data)),
    h("div", { class: "lrp-flows" }, sides.map(({ node }) => node)),
    said,
    judge,
    h("p", { class: "lrp-quiet" }, LEFT),
    live.node,
  );
  const paint = () => {
    const place = model.get("text"), step = here(), cut = model.get("cut") && keyless[place];
    const text = cut || texts[place], first = firstToken(text), without = model.get("without") && first >= 0;
    const left = without ? first : -1, names = [cut ? `${methods[0]}, keys off` : methods[0], methods[1]];
    off.hidden = !keyless[place];
    off.setAttribute("aria-pressed", String(Boolean(cut)));
    leave.hidden = first < 0;
    leave.textContent = `Without ${text.tokens[first] ?? ""}`;
    leave.setAttribute("aria-pressed", String(without));
    choose.show(place);
    slider.value = String(step);
    slider.setAttribute("aria-valuetext", levels[step]);
    level.textContent = `${levels[step]}, for ${text.label}`;
    const heard = sides.map(({ paint }, method) => paint(text, step, left, names[method]));
    judge.replaceChildren(...looInWords(text));
    said.replaceChildren(...inWords(names, text, step, left));
    live.say(`${levels[step]}; ${heard.join("; ")}. ${said.textContent}`);
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
  const end = follow(model, ["text", "step", "without", "cut"], () => shown.paint());
  return () => {
    shown.stop();
    end();
    model.off("change:data", renew);
  };
}

export default front({ render, accept });
