// Two maps against LOO: a sentence's words in colour, and its tokens as dots; marks can be left out.

/**
 * Below `margin` a difference of r reads "level".
 * @typedef {Tokens & { label: string, methods: string[], scores: number[][], loo: number[], margin: number,
 *   reduced: boolean, note: string }} Data
 * @typedef {{ data: Data, without: boolean, ranked: boolean }} State
 */

const WIDE = 320, HIGH = 168, EDGE = 14, NAMED = 2; // of NAMED words and of marks the name is shown

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
 * r with LOO over the tokens that count.
 * @param {number[]} loo
 * @param {number[]} scores
 * @param {boolean[]} keep
 * @param {boolean} ranked
 * @returns {number}
 */
function agreement(loo, scores, keep, ranked) {
  const [x, y] = [scores, loo].map((list) => list.filter((_, i) => keep[i]))
    .map((list) => ranked ? ranks(list) : list);
  return rOf(x, y, null);
}

/**
 * Who is closer to LOO, a word for each map.
 * @param {number[]} r of both maps
 * @param {number} margin
 * @returns {string[]}
 */
function verdicts([first, second], margin) {
  const lead = second - first;
  if (!Number.isFinite(lead)) return ["", ""];
  return Math.abs(lead) < margin ? ["level", "level"] : lead > 0 ? ["", "ahead"] : ["ahead", ""];
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
 * Put a name beside its dot, at the place of sixteen that meets least: dots, the line, other names.
 * @param {SVGTextElement} label
 * @param {number[]} dot
 * @param {number[][]} taken boxes: left, top, right, bottom
 * @returns {number[]} the name's own box
 */
function beside(label, [x, y], taken) {
  const wide = 6.8 * label.textContent.length;
  const level = (/** @type {number[]} */ ups) => ups.flatMap((up) => [[11, up], [-10 - wide, up]]);
  const middle = [-wide / 2, -8].flatMap((left) => [[left, -11], [left, 21], [left, -23]]);
  const sides = [...level([4, -8, 16]), ...middle, ...level([-18, 26])];
  const boxes = sides.map(([right, up]) => [x + right, y + up - 9, x + right + wide, y + up + 2]);
  const inside = (/** @type {number[]} */ [left, top, right, low]) =>
    left >= 0 && right <= WIDE && top >= 10 && low <= HIGH;
  const meets = (/** @type {number[]} */ a, /** @type {number[]} */ b) =>
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const cost = boxes.map((box) => inside(box) ? taken.filter((other) => meets(box, other)).length : 99);
  const place = cost.indexOf(Math.min(...cost));
  label.setAttribute("x", sides[place][0].toFixed(1));
  label.setAttribute("y", String(sides[place][1]));
  return boxes[place];
}

/**
 * One method's dots, the line of least squares through those that count, and r. Axes hold all tokens, so no
 * dot moves when marks are left out: they become rings.
 * @param {Data} data
 * @param {number} method
 * @returns {{ node: HTMLElement, paint: (without: boolean, ranked: boolean, verdict: string) => string }}
 */
function panel(data, method) {
  const { tokens, special, loo } = data, scores = data.scores[method], name = data.methods[method];
  const told = tokens.map((token, i) =>
    `${token}: LOO ${sayScore(loo[i], 3)}, relevance ${sayScore(scores[i], 3)}`
  );
  const far = loo.map((x, i) => special[i] ? 0 : Math.abs(x));
  const order = tokens.map((_, i) => i).sort((i, j) => far[j] - far[i]).slice(0, NAMED);
  const dots = tokens.map((token, i) => {
    const label = special[i] || order.includes(i) ? [svg("text", {}, token)] : [];
    const r = special[i] ? 6.5 : 4.5, box = { x: -r, y: -r, width: 2 * r, height: 2 * r };
    const dot = svg("rect", { ...box, rx: method ? 0 : r }, svg("title", {}, told[i]));
    return svg("g", { class: special[i] ? "lrp-scene-mark" : "" }, dot, ...label);
  });
  const line = svg("path", { class: "lrp-scene-line" }), zero = svg("path", { class: "lrp-scene-zero" });
  const across = svg("text", { x: WIDE, y: HIGH + 14, "text-anchor": "end" });
  const up = svg("text", { x: 0, y: 10 });
  const view = { viewBox: `0 -6 ${WIDE} ${HIGH + 24}`, role: "img" };
  const drawn = svg("svg", view, svg("path", { d: `M0 16V${HIGH}H${WIDE}` }), zero, line, dots, across, up);
  const was = h("span", { class: "lrp-quiet" }), r = h("strong", {}), says = h("em", {});
  const head = h("p", {}, h("b", {}, name), " r with LOO ", was, r, " ", says);
  const node = h("div", { class: `lrp-scene-panel lrp-scene-${method}` }, head, drawn);
  const every = tokens.map(() => true), words = special.map((mark) => !mark);
  /** @param {boolean} without @param {boolean} ranked @param {string} verdict */
  const paint = (without, ranked, verdict) => {
    const keep = without ? words : every, [x, y] = [loo, scores].map((list) => ranked ? ranks(list) : list);
    const toX = scale(x, EDGE, WIDE - EDGE), toY = scale(y, HIGH - EDGE, 16 + EDGE);
    const xs = x.map(toX), ys = y.map(toY);
    zero.setAttribute("d", ranked ? "" : `M${toX(0)} 16V${HIGH}M0 ${toY(0)}H${WIDE}`);
    const [keptX, keptY] = [xs, ys].map((list) => list.filter((_, i) => keep[i]));
    const [meanX, meanY] = [keptX, keptY].map((list) => sum(list) / list.length);
    const slope = sum(keptX.map((x, i) => (x - meanX) * (keptY[i] - meanY))) /
      sum(keptX.map((x) => (x - meanX) ** 2));
    const onLine = (/** @type {number} */ x) => meanY + slope * (x - meanX);
    line.setAttribute("d", `M0 ${onLine(0).toFixed(1)}L${WIDE} ${onLine(WIDE).toFixed(1)}`);
    const taken = xs.map((x, i) => [x - 8, ys[i] - 8, x + 8, ys[i] + 8]);
    for (let x = 0; x < WIDE; x += 8) taken.push([x, onLine(x + 4) - 4, x + 8, onLine(x + 4) + 4]);
    dots.forEach((dot, i) => {
      dot.classList.toggle("lrp-scene-out", !keep[i]);
      dot.style.transform = `translate(${xs[i].toFixed(1)}px, ${ys[i].toFixed(1)}px)`;
      const label = dot.querySelector("text");
      if (label) taken.push(beside(label, [xs[i], ys[i]], taken));
    });
    across.textContent = ranked ? "rank by LOO →" : "LOO →";
    up.textContent = ranked ? "↑ rank by relevance" : "↑ relevance";
    const shown = agreement(loo, scores, keep, ranked);
    was.textContent = without ? `${say(agreement(loo, scores, every, ranked))} → ` : "";
    r.textContent = say(shown);
    says.textContent = verdict;
    node.dataset.r = String(shown);
    const counted = told.filter((_, i) => special[i] && keep[i]);
    const said = `${name}: ${keptX.length} tokens as dots, r with LOO ${say(shown)} ${verdict}`.trim();
    drawn.setAttribute("aria-label", [said, ...counted].join("; "));
    return `${name} ${say(shown)} ${verdict}`.trim();
  };
  return { node, paint };
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const data = model.get("data"), { tokens, special, methods, scores, loo } = data, live = liveLine();
  const flip = (/** @type {"without" | "ranked"} */ key) => () => put(model, { [key]: !model.get(key) });
  const button = (/** @type {"without" | "ranked"} */ key, /** @type {string} */ name) =>
    h("button", { type: "button", onclick: flip(key) }, name);
  const buttons = {
    without: button("without", "Count only the words"),
    ranked: button("ranked", "Rank both axes"),
  };
  const titles = [["Hide words", "Leave-One-Out"], ...methods.map((name) => [name, "one pass"])];
  const rows = titles.map(([name, how], k) => {
    const row = tokenRow(tokens, special, name), title = h("p", {}, h("b", {}, name), h("small", {}, how));
    row.paint([loo, ...scores][k]);
    return h("div", { class: `lrp-scene-row lrp-scene-${k - 1}` }, title, row.node);
  });
  const sides = [0, 1].map((method) => panel(data, method)), counted = h("span", { class: "lrp-readout" });
  const every = tokens.map(() => true), words = special.map((mark) => !mark);
  const note = h("span", { class: "lrp-quiet" }), marks = tokens.filter((_, i) => special[i]).join(", ");
  el.replaceChildren(
    ...rows,
    h(
      "div",
      { class: "lrp-controls" },
      buttons.without,
      ...(data.reduced ? [] : [buttons.ranked]),
      ...(data.note ? [note] : []),
    ),
    h("div", { class: "lrp-scene" }, sides.map(({ node }) => node)),
    h("p", { class: "lrp-quiet" }, counted),
    live.node,
  );
  return follow(model, ["without", "ranked"], () => {
    const without = model.get("without"), ranked = model.get("ranked");
    buttons.without.setAttribute("aria-pressed", String(without));
    buttons.ranked.setAttribute("aria-pressed", String(ranked));
    el.classList.toggle("lrp-scene-words", without);
    note.textContent = without ? "Press again to count every token." : data.note;
    const r = scores.map((map) => agreement(loo, map, without ? words : every, ranked));
    const verdict = verdicts(r, data.margin);
    const what = without ? "words" : "every token", of = ranked ? " of ranks (Spearman)" : " (Pearson)";
    const kind = data.reduced ? "r" : `r${of}`;
    counted.textContent = "Orange, line below: for the answer. Blue, dots above: against. " +
      `Large: ${marks}. A ring does not count. On a rising line ${kind} is 1.`;
    const each = sides.map(({ paint }, k) => paint(without, ranked, verdict[k]));
    live.say(`Counted: ${what}. r with LOO: ${each.join(", ")}`);
  });
}

export default front({ render });
