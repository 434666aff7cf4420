// Two maps against LOO: a sentence's words in colour, and its tokens as dots; marks can be left out.

/**
 * Below `margin` a difference of r reads "level".
 * @typedef {Tokens & { label: string, methods: string[], scores: number[][], loo: number[], margin: number,
 *   reduced: boolean }} Data
 * @typedef {{ data: Data, without: boolean, ranked: boolean }} State
 */

const WIDE = 160, HIGH = 84, EDGE = 8;
const LETTER = 6.8, LINE = 10; // of a name on a phone, where a panel has one pixel to a unit
const LEGEND = "For the answer: orange, lined. Against it: blue, dotted. Each dot is one word or mark. " +
  "r says how well the dots fit a rising line; 1 is perfect.";

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
 * Put a name beside its dot, where it meets least: dots, the line, other names.
 * @param {SVGTextElement} label
 * @param {number[]} dot
 * @param {number[][]} taken boxes: left, top, right, bottom
 * @returns {number[]} the name's own box
 */
function beside(label, [x, y], taken) {
  const wide = LETTER * label.textContent.length;
  /** @type {[string, number, number][]} which end of the name is where */
  const sides = [["middle", 0, -7], ["middle", 0, 14], ["middle", 0, -15]];
  for (const down of [3, -5, 11, -12, 18]) sides.push(["start", 6, down], ["end", -6, down]);
  const boxes = sides.map(([end, right, down]) => {
    const left = x + right - wide * ["start", "middle", "end"].indexOf(end) / 2;
    return [left, y + down - LINE, left + wide, y + down + 2];
  });
  const inside = (/** @type {number[]} */ [left, top, right, low]) =>
    left >= 0 && right <= WIDE && top >= -6 && low <= HIGH;
  const meets = (/** @type {number[]} */ a, /** @type {number[]} */ b) =>
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const cost = boxes.map((box) => taken.filter((other) => meets(box, other)).length + (inside(box) ? 0 : 99));
  const place = cost.indexOf(Math.min(...cost)), [end, right, down] = sides[place];
  dress(label, { x: right, y: down, "text-anchor": end }, []);
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
  const most = far.indexOf(Math.max(...far)), first = special.indexOf(true);
  const dots = tokens.map((token, i) => {
    const label = special[i] || i === most ? [svg("text", {}, token)] : [];
    if (label.length && i !== most && i !== first) label[0].classList.add("lrp-scene-more");
    const r = special[i] ? 3.6 : 2.5, box = { x: -r, y: -r, width: 2 * r, height: 2 * r };
    const dot = svg("rect", { ...box, rx: method ? 0 : r }, svg("title", {}, told[i]));
    return svg("g", { class: special[i] ? "lrp-scene-mark" : "" }, dot, ...label);
  });
  const line = svg("path", { class: "lrp-scene-line" }), zero = svg("path", { class: "lrp-scene-zero" });
  const across = svg("text", { x: WIDE, y: HIGH + 11, "text-anchor": "end" });
  const up = svg("text", { x: 0, y: 4 });
  const view = { viewBox: `0 -6 ${WIDE} ${HIGH + 20}`, role: "img" };
  const drawn = svg("svg", view, svg("path", { d: `M0 8V${HIGH}H${WIDE}` }), zero, line, dots, across, up);
  const was = h("span", { class: "lrp-quiet" }), r = h("strong", {}), says = h("em", {});
  const head = h("p", {}, h("b", {}, name), " r with LOO ", was, r, " ", says);
  const node = h("div", { class: `lrp-scene-panel lrp-scene-${method}` }, head, drawn);
  const every = tokens.map(() => true), words = special.map((mark) => !mark);
  /** @param {boolean} without @param {boolean} ranked @param {string} verdict */
  const paint = (without, ranked, verdict) => {
    const keep = without ? words : every, [x, y] = [loo, scores].map((list) => ranked ? ranks(list) : list);
    const toX = scale(x, 2.5 * EDGE, WIDE - EDGE), toY = scale(y, HIGH - EDGE, 8 + EDGE);
    const xs = x.map(toX), ys = y.map(toY);
    zero.setAttribute("d", ranked ? "" : `M${toX(0)} 8V${HIGH}M0 ${toY(0)}H${WIDE}`);
    const [keptX, keptY] = [xs, ys].map((list) => list.filter((_, i) => keep[i]));
    const [meanX, meanY] = [keptX, keptY].map((list) => sum(list) / list.length);
    const slope = sum(keptX.map((x, i) => (x - meanX) * (keptY[i] - meanY))) /
      sum(keptX.map((x) => (x - meanX) ** 2));
    const onLine = (/** @type {number} */ x) => meanY + slope * (x - meanX);
    line.setAttribute("d", `M0 ${onLine(0).toFixed(1)}L${WIDE} ${onLine(WIDE).toFixed(1)}`);
    const taken = [[0, -6, 70, 6], ...xs.map((x, i) => [x - 4, ys[i] - 4, x + 4, ys[i] + 4])];
    for (let x = 0; x < WIDE; x += 4) taken.push([x, onLine(x + 2) - 2, x + 4, onLine(x + 2) + 2]);
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
    without: button("without", ""),
    ranked: button("ranked", "Rank both axes"),
  };
  const titles = [["LOO", "a run per word"], ...methods.map((name) => [name, "one run"])];
  const rows = titles.map(([name, how], k) => {
    const row = tokenRow(tokens, special, name), title = h("p", {}, h("b", {}, name), h("small", {}, how));
    row.paint([loo, ...scores][k]);
    return h("div", { class: `lrp-scene-row lrp-scene-${k - 1}` }, title, row.node);
  });
  const sides = [0, 1].map((method) => panel(data, method)), note = h("span", {});
  const every = tokens.map(() => true), words = special.map((mark) => !mark);
  const marks = tokens.filter((_, i) => special[i]).join(" and ");
  el.replaceChildren(
    ...rows,
    h("div", { class: "lrp-controls" }, buttons.without, data.reduced ? [] : buttons.ranked, note),
    h("div", { class: "lrp-scene" }, sides.map(({ node }) => node)),
    h("p", { class: "lrp-quiet" }, LEGEND, data.reduced ? "" : " r is Pearson's; of ranks, Spearman's."),
    live.node,
  );
  return follow(model, ["without", "ranked"], () => {
    const without = model.get("without"), ranked = model.get("ranked");
    buttons.without.textContent = without ? "Count every token" : "Count only the words";
    buttons.ranked.setAttribute("aria-pressed", String(ranked));
    el.classList.toggle("lrp-scene-words", without);
    const r = scores.map((map) => agreement(loo, map, without ? words : every, ranked));
    const verdict = verdicts(r, data.margin);
    const ahead = verdict.indexOf("ahead"), level = verdict[0] === "level";
    const apart = `Neither is ahead (less than ${say(data.margin)} apart). `;
    const who = level ? apart : methods[ahead] ? `${methods[ahead]} is ahead. ` : "";
    const kept = without ? "Only words count." : `${marks} count: marks added to every text.`;
    note.textContent = who + (marks ? kept : "");
    const each = sides.map(({ paint }, k) => paint(without, ranked, verdict[k]));
    live.say(`${note.textContent} r with LOO: ${each.join(", ")}`);
  });
}

export default front({ render });
