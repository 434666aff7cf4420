// One token in a correlation: the tokens of a sentence as dots, with and without one of them.

/**
 * `means` has [mean, low, high] with the token and without it, by statistic.
 * @typedef {Tokens & { label: string, place: number, methods: string[], scores: number[][], loo: number[],
 *   means: { [statistic: string]: number[][] } | null, n: number, note: string }} Data
 * @typedef {{ data: Data, without: boolean, ranked: boolean }} State
 */

const WIDE = 320, HIGH = 168, EDGE = 14, NAMED = 4; // NAMED tokens have their name beside the dot
const STATISTICS = { pearson: "Pearson", spearman: "by rank" };

/**
 * Ranks from 1; equal numbers share their mean rank.
 * @param {number[]} list
 * @returns {number[]}
 */
function ranks(list) {
  return list.map((x) => {
    const below = list.filter((y) => y < x).length, same = list.filter((y) => y === x).length;
    return below + (same + 1) / 2;
  });
}

/**
 * LOO and relevance of the tokens that count, as the axes have them, and their r.
 * @param {number[]} loo
 * @param {number[]} scores
 * @param {boolean[]} keep
 * @param {boolean} ranked
 * @returns {{ x: number[], y: number[], r: number }}
 */
function seen(loo, scores, keep, ranked) {
  const [x, y] = [loo, scores].map((list) => list.filter((_, i) => keep[i]))
    .map((list) => ranked ? ranks(list) : list);
  return { x, y, r: pearson(x, y) };
}

/**
 * A function from numbers to places between two ends.
 * @param {number[]} list
 * @param {number} from
 * @param {number} to
 * @returns {(value: number) => number}
 */
function scale(list, from, to) {
  const low = Math.min(...list), high = Math.max(...list);
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

/**
 * Put a name beside its dot, at the first of eight places that meets no dot and no other name.
 * @param {SVGTextElement} label
 * @param {number[]} dot
 * @param {number[][]} taken boxes: left, top, right, bottom
 * @returns {number[]} the name's own box
 */
function beside(label, [x, y], taken) {
  const wide = 6.8 * label.textContent.length, ups = [4, -8, 16];
  const sides = [...ups.flatMap((up) => [[11, up], [-10 - wide, up]]), [-wide / 2, -11], [-wide / 2, 20]];
  const boxes = sides.map(([right, up]) => [x + right, y + up - 9, x + right + wide, y + up + 2]);
  const inside = (/** @type {number[]} */ [left, top, right, low]) =>
    left >= 0 && right <= WIDE && top >= 10 && low <= HIGH;
  const meets = (/** @type {number[]} */ a, /** @type {number[]} */ b) =>
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const free = boxes.findIndex((box) => inside(box) && !taken.some((other) => meets(box, other)));
  const place = Math.max(free, 0);
  label.setAttribute("x", sides[place][0].toFixed(1));
  label.setAttribute("y", String(sides[place][1]));
  return boxes[place];
}

/**
 * What each dot stands for.
 * @param {Data} data
 * @param {number} method
 * @returns {string[]}
 */
function inNumbers({ tokens, loo, scores }, method) {
  return tokens.map((token, i) =>
    `${token}: LOO ${sayScore(loo[i], 3)}, relevance ${sayScore(scores[method][i], 3)}`
  );
}

/**
 * One method's dots, the line of least squares through them, and r.
 * @param {Data} data
 * @param {number} method
 * @returns {{ node: HTMLElement, paint: (without: boolean, ranked: boolean) => string }}
 */
function panel(data, method) {
  const { tokens, special, place, loo } = data, scores = data.scores[method], name = data.methods[method];
  const told = inNumbers(data, method);
  const far = [loo, scores].map((list) => list.map((x, i) => i === place || special[i] ? 0 : Math.abs(x)));
  const order = tokens.map((_, i) => i).sort((i, j) => far[0][j] - far[0][i]).slice(0, NAMED - 1);
  const dots = tokens.map((token, i) => {
    const label = i === place || order.includes(i) ? [svg("text", {}, token)] : [];
    const dot = svg("circle", { r: i === place ? 7 : 4.5 }, svg("title", {}, told[i]));
    return svg("g", { class: i === place ? "lrp-scene-one" : "" }, dot, ...label);
  });
  const line = svg("line", { class: "lrp-scene-line" }), zero = svg("path", { class: "lrp-scene-zero" });
  const across = svg("text", { x: WIDE, y: HIGH + 14, "text-anchor": "end" });
  const up = svg("text", { x: 0, y: 10 });
  const view = { viewBox: `0 0 ${WIDE} ${HIGH + 18}`, role: "img" };
  const drawn = svg("svg", view, svg("path", { d: `M0 16V${HIGH}H${WIDE}` }), zero, line, dots, across, up);
  const was = h("span", { class: "lrp-quiet" }), r = h("strong", {});
  const head = h("p", {}, h("b", {}, name), " r with LOO ", was, r);
  const node = h("div", { class: `lrp-scene-panel lrp-scene-${method}` }, head, drawn);
  const every = tokens.map(() => true);
  /** @param {boolean} without @param {boolean} ranked */
  const paint = (without, ranked) => {
    const keep = tokens.map((_, i) => !(without && i === place));
    const shown = seen(loo, scores, keep, ranked), mean = { x: 0, y: 0 };
    const toX = scale(shown.x, EDGE, WIDE - EDGE), toY = scale(shown.y, HIGH - EDGE, 16 + EDGE);
    zero.setAttribute("d", ranked ? "" : `M${toX(0)} 16V${HIGH}M0 ${toY(0)}H${WIDE}`);
    const around = (/** @type {number} */ x, /** @type {number} */ y) => [x - 6, y - 6, x + 6, y + 6];
    const taken = shown.x.map((x, k) => around(toX(x), toY(shown.y[k])));
    let next = 0;
    dots.forEach((dot, i) => {
      dot.classList.toggle("lrp-scene-out", !keep[i]);
      if (!keep[i]) return;
      const [x, y] = [toX(shown.x[next]), toY(shown.y[next])];
      next += 1;
      dot.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
      const label = dot.querySelector("text");
      if (label) taken.push(beside(label, [x, y], taken));
    });
    const [xs, ys] = [shown.x.map(toX), shown.y.map(toY)];
    mean.x = sum(xs) / next;
    mean.y = sum(ys) / next;
    const slope = sum(xs.map((x, i) => (x - mean.x) * (ys[i] - mean.y))) /
      sum(xs.map((x) => (x - mean.x) ** 2));
    for (const [k, x] of [0, WIDE].entries()) {
      line.setAttribute(`x${k + 1}`, String(x));
      line.setAttribute(`y${k + 1}`, (mean.y + slope * (x - mean.x)).toFixed(1));
    }
    across.textContent = ranked ? "rank by LOO →" : "LOO →";
    up.textContent = ranked ? "↑ rank by relevance" : "↑ relevance";
    was.textContent = without ? `${say(seen(loo, scores, every, ranked).r)} → ` : ""; // by one statistic
    r.textContent = say(shown.r);
    node.dataset.r = String(shown.r);
    const said = [`${name}: ${next} tokens as dots, r with LOO ${say(shown.r)}`, told[place]];
    drawn.setAttribute("aria-label", said.slice(0, without ? 1 : 2).join("; "));
    return `${name} ${say(shown.r)}`;
  };
  return { node, paint };
}

/**
 * Which method is ahead, where the interval of their difference says so.
 * @param {number[]} interval
 * @param {string[]} methods
 * @returns {string}
 */
function ahead([, low, high], methods) {
  return low > 0 ? `${methods[1]} ahead` : high < 0 ? `${methods[0]} ahead` : "undecided";
}

/**
 * The mean difference over the data set, by statistic, with and without the token; one cell is in force.
 * @param {Data} data
 * @param {string} token
 * @returns {{ nodes: HTMLElement[], paint: (without: boolean, ranked: boolean) => string }}
 */
function means({ means, methods, n }, token) {
  if (!means) return { nodes: [], paint: () => "" };
  const rows = Object.keys(STATISTICS).map((name) =>
    means[name].map((interval) => {
      const [mean, low, high] = interval, from = `95 % interval ${say(low, 3)} to ${say(high, 3)}`;
      const number = (mean > 0 ? "+" : "") + sayTidy(mean, 2);
      return h("td", { title: from }, h("b", {}, number), ` ${ahead(interval, methods)}`);
    })
  );
  const body = Object.values(STATISTICS).map((label, k) =>
    h("tr", {}, h("th", { scope: "row" }, label), rows[k])
  );
  const caption = `${methods[1]} minus ${methods[0]}: mean difference of r over ${n} sentences`;
  const head = tableHead(["r", "all tokens", `without ${token}`]);
  const node = h(
    "table",
    { class: "lrp-scene-means" },
    h("caption", {}, caption),
    head,
    h("tbody", {}, body),
  );
  /** @param {boolean} without @param {boolean} ranked */
  const paint = (without, ranked) => {
    const here = rows[Number(ranked)][Number(without)];
    for (const cell of rows.flat()) cell.classList.toggle("lrp-here", cell === here);
    return `. Over ${n} sentences ${here.textContent}`;
  };
  return { nodes: [node], paint };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const data = model.get("data"), token = data.tokens[data.place], live = liveLine();
  const flip = (/** @type {"without" | "ranked"} */ key) => () => put(model, { [key]: !model.get(key) });
  const button = (/** @type {"without" | "ranked"} */ key, /** @type {string} */ name) =>
    h("button", { type: "button", onclick: flip(key) }, name);
  const buttons = {
    without: button("without", `Without ${token}`),
    ranked: button("ranked", "Rank both axes"),
  };
  const sides = [0, 1].map((method) => panel(data, method)), over = means(data, token);
  const text = beginning(data).replace(/ ([.,!?])/g, "$1"), counted = h("span", { class: "lrp-readout" });
  el.replaceChildren(
    h("p", {}, `“${text}”, predicted: ${data.label}`),
    h("div", { class: "lrp-controls" }, buttons.without, buttons.ranked),
    h("div", { class: "lrp-scene" }, sides.map(({ node }) => node)),
    h("p", { class: "lrp-quiet" }, counted),
    ...over.nodes,
    ...(data.note ? [h("p", { class: "lrp-quiet" }, data.note)] : []),
    live.node,
  );
  return follow(model, ["without", "ranked"], () => {
    const without = model.get("without"), ranked = model.get("ranked");
    buttons.without.setAttribute("aria-pressed", String(without));
    buttons.ranked.setAttribute("aria-pressed", String(ranked));
    const kind = ranked ? "r by rank (Spearman)" : "Pearson's r", but = without ? ` but ${token}` : "";
    const lines = ranked ? "" : "; grey lines mark 0";
    counted.textContent = `${kind}, all tokens${but}. Each dot is a token${lines}.`;
    const each = sides.map(({ paint }) => paint(without, ranked));
    live.say(`${counted.textContent} r: ${each.join(", ")}${over.paint(without, ranked)}`);
  });
}

export default front({ render });
