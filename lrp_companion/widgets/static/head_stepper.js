// One attention head, drawn: forward, and relevance flowing back as bands as wide as it is large.

/** @typedef {"attnlrp" | "cp-lrp"} Rules */
/**
 * @typedef {{ data: { tokens: string[], limit: number, steps: number }, rules: Rules, step: number,
 *   q: number, k: number[], v: number[] }} State
 * @typedef {{ z: number[], a: number[], o: number, atWeight: number[], atValue: number[], atScore: number[],
 *   atKey: number[], atQuery: number, attnlrp: number[], cp: number[], loo: number[] }} Head
 * @typedef {{ from: [number, number], to: [number, number], amount: number }} Band
 */

const NAMES = { attnlrp: "AttnLRP", "cp-lrp": "CP-LRP" };
const STEP_NAMES = ["Forward", "Split the product", "The softmax", "Keys and query", "Side by side"];
const COLUMNS = [190, 380, 570], WIDEST = 30; // pixels of the picture
const ROWS = { output: 34, weight: 128, score: 222, input: 316 };
const SIDE = 44; // values stand right of a token's middle, keys and weights left of it

/**
 * Everything of one read-out with epsilon 0, as `HeadStepper.relevance` in Python has it.
 * @param {number} q
 * @param {number[]} keys
 * @param {number[]} values
 * @returns {Head}
 */
function headOf(q, keys, values) {
  const z = keys.map((k) => q * k), top = Math.max(...z), u = z.map((x) => Math.exp(x - top));
  const a = u.map((x) => x / sum(u)), cp = a.map((x, i) => x * values[i]), o = sum(cp);
  const atValue = cp.map((x) => x / 2), mean = o / 2;
  const atScore = z.map((x, i) => x * a[i] * (values[i] / 2 - mean));
  const atKey = atScore.map((x) => x / 2), atQuery = sum(atKey);
  const attnlrp = atValue.map((x, i) => x + atKey[i] + (i ? 0 : atQuery));
  const loo = values.map((_, i) => {
    const rest = u.filter((_, j) => j !== i), kept = values.filter((_, j) => j !== i);
    return o - sum(rest.map((x, j) => x * kept[j])) / sum(rest);
  });
  return { z, a, o, atWeight: atValue, atValue, atScore, atKey, atQuery, attnlrp, cp, loo };
}

/**
 * The bands that are drawn up to a step: where relevance comes from, where it goes, and how much.
 * @param {Head} head
 * @param {Rules} rules
 * @param {number} step
 * @returns {Band[]}
 */
function bandsOf(head, rules, step) {
  const all = rules === "attnlrp", top = /** @type {[number, number]} */ ([COLUMNS[1], ROWS.output]);
  /** @type {Band[][]} */
  const byStep = [[], [], [], []];
  COLUMNS.forEach((x, i) => {
    const weight = /** @type {[number, number]} */ ([x - SIDE, ROWS.weight]);
    const score = /** @type {[number, number]} */ ([x - SIDE, ROWS.score]);
    byStep[1].push({ from: top, to: [x + SIDE, ROWS.input], amount: all ? head.atValue[i] : head.cp[i] });
    if (!all) return;
    byStep[1].push({ from: top, to: weight, amount: head.atWeight[i] });
    byStep[2].push({ from: weight, to: score, amount: head.atScore[i] });
    byStep[3].push({ from: score, to: [x - SIDE, ROWS.input], amount: head.atKey[i] });
    byStep[3].push({ from: score, to: [60, ROWS.input], amount: head.atScore[i] / 2 });
  });
  return byStep.slice(0, Math.min(step, 3) + 1).flat();
}

/**
 * @param {"rules" | "step" | "q" | "k" | "v"} key
 * @param {any} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { limit, steps } = model.get("data");
  if (key === "rules") return Object.hasOwn(NAMES, value);
  if (key === "step") return isPlace(value, steps);
  if (key === "q") return Math.abs(value) <= limit;
  return value.length === 3 && value.every((/** @type {number} */ x) => Math.abs(x) <= limit);
}

/**
 * A box of the drawing: a part's name and its value.
 * @param {number} x
 * @param {number} y
 * @param {string} name
 * @returns {{ node: SVGElement, show: (value: string, below?: string) => void }}
 */
function part(x, y, name) {
  const value = svg("text", { x, y: y + 4, class: "lrp-head-value" });
  const label = svg("text", { x, y: y - 9, class: "lrp-head-name" }, name);
  const share = svg("text", { x, y: y + 19, class: "lrp-head-share" });
  const box = svg("rect", { x: x - 38, y: y - 22, width: 76, height: 46, class: "lrp-head-box" });
  /** @param {string} text @param {string} [below] */
  const show = (text, below = "") => {
    value.textContent = text;
    share.textContent = below;
  };
  return { node: svg("g", {}, box, label, value, share), show };
}

/**
 * A band between two parts, as wide as its amount; dashed where it is negative.
 * @param {Band} band
 * @param {number} scale pixels per unit of relevance
 * @returns {SVGElement}
 */
function drawBand({ from: [x, y], to: [u, v], amount }, scale) {
  const middle = (y + v) / 2, width = Math.max(1, Math.abs(amount) * scale);
  const d = `M${x} ${y}C${x} ${middle} ${u} ${middle} ${u} ${v}`;
  const kind = amount < 0 ? "lrp-head-band lrp-head-minus" : "lrp-head-band";
  return svg("path", { d, class: kind, "stroke-width": width.toFixed(2), "data-amount": amount });
}

/**
 * The drawing of the head.
 * @param {string[]} tokens
 * @returns {{ node: SVGElement, paint: (head: Head, state: State) => void }}
 */
function drawing(tokens) {
  const wires = svg("g", { class: "lrp-head-wires" }), bands = svg("g", {});
  const output = part(COLUMNS[1], ROWS.output, "output o"), query = part(60, ROWS.input, "query q");
  const parts = COLUMNS.map((x) => ({
    weight: part(x - SIDE, ROWS.weight, "weight a"),
    score: part(x - SIDE, ROWS.score, "score z"),
    key: part(x - SIDE, ROWS.input, "key k"),
    value: part(x + SIDE, ROWS.input, "value v"),
  }));
  COLUMNS.forEach((x) => {
    const left = x - SIDE;
    for (
      const d of [
        `M${left} ${ROWS.input}V${ROWS.weight}`,
        `M${left} ${ROWS.weight}L${COLUMNS[1]} ${ROWS.output}`,
        `M${x + SIDE} ${ROWS.input}L${COLUMNS[1]} ${ROWS.output}`,
        `M60 ${ROWS.input}L${left} ${ROWS.score}`,
      ]
    ) wires.append(svg("path", { d }));
  });
  const names = tokens.map((token, i) =>
    svg("text", { x: COLUMNS[i], y: 364, class: "lrp-head-token" }, token)
  );
  const owner = svg("text", { x: 60, y: 364, class: "lrp-head-token" }, `of ${tokens[0]}`);
  const boxes = [output, query, ...parts.flatMap((of) => Object.values(of))].map(({ node }) => node);
  const node = svg(
    "svg",
    { viewBox: "0 0 660 374", class: "lrp-head-drawing", role: "img" },
    wires,
    bands,
    ...boxes,
    ...names,
    owner,
  );
  /** @param {Head} head @param {State} state */
  const paint = (head, { rules, step, q, k: keys, v: values }) => {
    const drawn = bandsOf(head, rules, step), all = rules === "attnlrp";
    const largest = Math.max(Math.abs(head.o), ...drawn.map(({ amount }) => Math.abs(amount)), 1e-9);
    bands.replaceChildren(...drawn.map((band) => drawBand(band, WIDEST / largest)));
    const reached = (/** @type {number} */ from, /** @type {number} */ amount) =>
      step >= from ? `R ${sayTidy(amount, 3)}` : "";
    output.show(sayTidy(head.o, 3), reached(1, head.o));
    query.show(sayTidy(q, 3), all ? reached(3, head.atQuery) : reached(1, 0));
    parts.forEach(({ weight, score, key, value }, i) => {
      weight.show(sayTidy(head.a[i], 3), reached(1, all ? head.atWeight[i] : 0));
      score.show(sayTidy(head.z[i], 3), all ? reached(2, head.atScore[i]) : reached(1, 0));
      key.show(sayTidy(keys[i], 3), all ? reached(3, head.atKey[i]) : reached(1, 0));
      value.show(sayTidy(values[i], 3), reached(1, all ? head.atValue[i] : head.cp[i]));
    });
    node.setAttribute("aria-label", `One head: ${NAMES[rules]}, ${STEP_NAMES[step].toLowerCase()}`);
  };
  return { node, paint };
}

/**
 * What happens at a step, in words.
 * @param {Head} head
 * @param {Rules} rules
 * @param {number} step
 * @returns {string}
 */
function inWords(head, rules, step) {
  const o = sayTidy(head.o, 3), all = rules === "attnlrp";
  if (step === 0) return `Forward: scores are query times key, weights their softmax, and o = Σ a·v = ${o}.`;
  if (step === 4) return "All relevance of each token, next to the change when the token is removed.";
  if (!all) return `CP-LRP: the weights are constants, so all of ${o} goes to the values, as a·v.`;
  return [
    "",
    `Eq. (3): each product a·v gives half to its weight and half to its value; ${o} in all.`,
    "Eq. (5): relevance of the weights moves on to the scores. The sum is not kept: a score of 0 gets none.",
    `Eq. (4): half of each score's relevance goes to its key, the other half to the one query, ` +
    `${sayTidy(head.atQuery, 3)} in all.`,
  ][step];
}

/**
 * The three maps as a table.
 * @param {string[]} tokens
 * @returns {{ node: HTMLElement, paint: (head: Head) => void }}
 */
function maps(tokens) {
  const body = h("tbody", {}), head = tableHead(["map", ...tokens, "sum"]);
  /** @param {Head} of */
  const paint = ({ attnlrp, cp, loo }) => {
    const rows = Object.entries({ AttnLRP: attnlrp, "CP-LRP": cp, LOO: loo });
    body.replaceChildren(...rows.map(([name, map]) => {
      const cells = [...map, sum(map)].map((x) => h("td", { "data-x": x }, sayTidy(x, 4)));
      return h("tr", {}, h("th", { scope: "row" }, name), cells);
    }));
  };
  return { node: h("table", { class: "lrp-numbers lrp-head-maps" }, head, body), paint };
}

/**
 * Fields for the query, the keys and the values; anything but a number in range is refused in words.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function fields(model) {
  const { tokens, limit } = model.get("data"), refusal = h("p", { class: "lrp-head-refusal", role: "alert" });
  /** @type {(() => void)[]} */
  const shows = [];
  /** @param {string} name @param {() => number} get @param {(x: number) => void} set */
  const field = (name, get, set) => {
    const change = () => {
      const x = Number(input.value), fits = input.value.trim() !== "" && Math.abs(x) <= limit;
      refusal.textContent = fits ? "" : `${name}: a number from −${limit} to ${limit}, please.`;
      if (fits) set(x);
    };
    const ends = { min: -limit, max: limit, step: "any" };
    const input = h("input", { type: "number", ...ends, "aria-label": name, onchange: change });
    shows.push(() => {
      if (document.activeElement !== input) input.value = String(Number(get().toPrecision(6)));
    });
    return input;
  };
  const row = (/** @type {string} */ name, /** @type {"k" | "v"} */ key) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      tokens.map((token, i) => {
        const set = (/** @type {number} */ x) =>
          put(model, { [key]: model.get(key).map((old, j) => (i === j ? x : old)) });
        return h("td", {}, field(`${name} of ${token}`, () => model.get(key)[i], set));
      }),
    );
  const query = field("query", () => model.get("q"), (x) => put(model, { q: x }));
  const table = h(
    "table",
    { class: "lrp-head-fields" },
    tableHead(["part", ...tokens]),
    h("tbody", {}, row("key", "k"), row("value", "v")),
  );
  const node = h(
    "details",
    { class: "lrp-head-more" },
    h("summary", {}, "Type other numbers"),
    h("label", {}, "query ", query),
    table,
    refusal,
  );
  const show = () => {
    refusal.textContent = ""; // the fields hold the numbers in force again
    shows.forEach((show) => show());
  };
  return { node, show };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { tokens, steps } = model.get("data"), live = liveLine(), picture = drawing(tokens);
  const rules = choice("Rules", NAMES, (value) => put(model, { rules: /** @type {Rules} */ (value) }));
  const { play, stop, jump, here } = stepper(model, { last: () => steps - 1, pause: 2500 });
  const names = STEP_NAMES.map((name, k) => h("button", { type: "button", onclick: () => jump(k) }, name));
  oneTabStop(names);
  const frame = { class: "lrp-head-frame", role: "region", tabindex: 0, "aria-label": "Drawing" };
  const said = h("p", { class: "lrp-head-said" }), table = maps(tokens), typed = fields(model);
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, rules.node, play),
    h("div", { class: "lrp-controls", role: "group", "aria-label": "Steps" }, names),
    said,
    h("div", frame, picture.node),
    table.node,
    typed.node,
    h(
      "p",
      { class: "lrp-quiet" },
      "Bands are as wide as the relevance they carry; dashed ones are negative.",
    ),
    live.node,
  );
  const end = follow(model, ["rules", "step", "q", "k", "v"], () => {
    const state = {
      data: model.get("data"),
      rules: model.get("rules"),
      step: here(),
      q: model.get("q"),
      k: model.get("k"),
      v: model.get("v"),
    };
    const head = headOf(state.q, state.k, state.v);
    rules.show(state.rules);
    names.forEach((name, k) => name.setAttribute("aria-pressed", String(k === state.step)));
    picture.paint(head, state);
    table.paint(head);
    table.node.hidden = state.step < 4;
    typed.show();
    said.textContent = inWords(head, state.rules, state.step);
    live.say(said.textContent);
  });
  return () => {
    stop();
    end();
  };
}

export default front({ render, accept });
