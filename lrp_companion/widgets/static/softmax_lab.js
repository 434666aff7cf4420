// One attention read-out on sliders.
const PRESETS = {
  "uniform logits": {
    set: { logits: [0, 0, 0, 0], values: [1, 1, 1, 1] },
    note: "The paper's structural bias. All values are equal, so no token matters and LOO is 0; CP-LRP gives each token A·v all the same, AttnLRP half of that. Move one value: LOO answers at every token, the two rules at that token only.",
  },
  "large equal logits": {
    set: { logits: [6, 6, 6, 6], values: [2, 1, 0, -1] },
    note: `The paper's linearisation error. Attention is flat, and AttnLRP's part at the logit is z·(n − 1)/2n times LOO, here ${(6 * 3) / 8} times. Shift all logits: LOO stays, and this part grows, vanishes or turns its sign.`,
  },
  "one dominates": {
    set: { logits: [6, 0, 0, 0], values: [1, -1, 0.5, -0.5] },
    note: "Token 1 holds nearly all of the attention. The slope A·(v − o) is almost 0 there, and so is AttnLRP's part at the logit; LOO, the effect of removing the token, is large.",
  },
};
const FREE = "Shift all logits: attention, output and LOO stay as they are, because the softmax does not see a constant. AttnLRP's part at the logit moves.";
const ROWS = [
  ["attention", "attention", "A"],
  ["loo", "LOO", "what removal changes"],
  ["cp", "CP-LRP", "A·v"],
  ["attnlrp", "AttnLRP", "both parts"],
  ["value", "at the value", "½ A·v"],
  ["logit", "at the logit", "½ z·A·(v − o)"],
];
const DECIMALS = { logits: 1, values: 2 };

const sum = (list) => list.reduce((total, x) => total + x, 0);
const exact = (x, decimals = 3) => say(Math.abs(x) < 0.5 / 10 ** decimals ? 0 : x, decimals); // no "−0.000"
const whole = (x) => Math.round(x * 1e9) / 1e9; // 0.1 + 1 + 1 is 2.1, in the address too

/** All quantities of one step; sums over the others are made without subtracting, and equal values give a LOO of exactly 0. */
function step(logits, values) {
  const top = Math.max(...logits), weights = logits.map((z) => Math.exp(z - top)), total = sum(weights);
  const attention = weights.map((w) => w / total), output = sum(attention.map((a, i) => a * values[i]));
  const relative = values.map((v) => v - values[0]), others = (list, i) => sum(list.filter((_, j) => j !== i));
  const gain = relative.map((v, i) => v - others(weights.map((w, j) => w * relative[j]), i) / others(weights, i));
  const loo = attention.map((a, i) => a * gain[i]);
  const slope = loo.map((x, i) => (x * others(weights, i)) / total);
  const cp = attention.map((a, i) => a * values[i]), value = cp.map((x) => x / 2), logit = slope.map((d, i) => (logits[i] * d) / 2);
  return { attention, output, loo, cp, value, logit, attnlrp: value.map((x, i) => x + logit[i]) };
}

/** Pearson's r, undefined where a map is constant but for rounding; and the distance relative to LOO's size. */
function agreement(map, loo) {
  const flat = [map, loo].some((list) => Math.max(...list) - Math.min(...list) <= 1e-12), size = Math.hypot(...loo);
  return [flat ? NaN : pearson(map, loo), size > 1e-12 ? Math.hypot(...map.map((x, i) => x - loo[i])) / size : NaN];
}

/** The first of 1, 2, 5, 10, 20, ... (or 0.5, 0.2, ...) that is not below x, so that the scale stands still under a slider. */
function ceiling(x) {
  if (x < 1e-9) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return Number(([1, 2, 5].find((k) => k * power >= x) ?? 10) * power).toPrecision(1) * 1;
}

/** Draw a bar between two numbers on a scale from -limit to limit. */
function draw(bar, from, to, limit) {
  const percent = (x) => `${50 + (50 * x) / limit}%`, up = Math.max(from, to) > 0;
  Object.assign(bar.style, { top: up ? "" : percent(-Math.max(from, to)), bottom: up ? percent(Math.min(from, to)) : "", height: `${(50 * Math.abs(to - from)) / limit}%` });
}

function accept(key, value, model) {
  return value.length >= 3 && value.length <= 6 && value.every((x) => Math.abs(x) <= model.get("data").limits[key]);
}

function render({ model, el }) {
  const { limits } = model.get("data"), live = liveLine(), button = (text, onclick) => h("button", { type: "button", onclick }, text);
  const state = () => { // an address may name one of the two lists only: the shorter length counts
    const n = Math.min(model.get("logits").length, model.get("values").length);
    return { logits: model.get("logits").slice(0, n), values: model.get("values").slice(0, n) };
  };
  const change = (turn) => { const { logits, values } = state(); put(model, { logits: turn(logits, "logits"), values: turn(values, "values") }); };
  const presets = Object.entries(PRESETS).map(([name, { set }]) => button(name, () => put(model, set)));
  const shifts = [-1, 1].map((c) => button(`all logits ${c < 0 ? "−" : "+"} 1`, () => change((list, key) => (key === "logits" ? list.map((z) => whole(z + c)) : list))));
  const fewer = button("− token", () => change((list) => list.slice(0, -1))), more = button("+ token", () => change((list) => [...list, 0]));
  const note = h("p", { class: "lrp-note" }), bank = h("div", { class: "lrp-bank" }), chart = h("table", { class: "lrp-lab", role: "table" });
  const output = h("strong", { class: "lrp-lab-output" }), verdict = h("tbody", {});
  const facts = h("table", { class: "lrp-facts" }, h("thead", {}, h("tr", {}, ["against LOO", "r over tokens", "|R − LOO| / |LOO|"].map((name) => h("th", { scope: "col" }, name)))), verdict);
  oneTabStop(presets);
  el.replaceChildren(h("div", { class: "lrp-softmax" },
    h("div", { class: "lrp-controls" }, presets), h("div", { class: "lrp-controls" }, shifts, fewer, more),
    note, bank, chart, h("p", { class: "lrp-readout" }, "output o = Σ A·v = ", output), facts, live.node));

  let sliders = [], cells = {}, sums = {}, bars = [], ticks = [];
  const row = (head, list, end = "", part = "cell") => h("tr", { role: "row" }, head, list.map((inner) => h(part === "cell" ? "td" : "th", { role: part, scope: part !== "cell" && "col" }, inner)), end);
  const build = (n) => {
    const all = Array.from({ length: n }, (_, i) => i), head = (inner) => h("th", { role: "rowheader", scope: "row" }, inner);
    el.firstChild.style.setProperty("--n", n);
    sliders = all.map((place) => ["logits", "values"].map((key) => {
      const shown = h("span", {}), letter = key === "logits" ? "z" : "v";
      const edit = () => change((list, own) => (own === key ? list.map((x, i) => (i === place ? Number(slider.value) : x)) : list));
      const slider = h("input", { type: "range", min: -limits[key], max: limits[key], step: 10 ** -DECIMALS[key] * (key === "logits" ? 1 : 5), "aria-label": `${letter}, ${key.slice(0, -1)} of token ${place + 1}`, oninput: edit });
      return { key, slider, shown, node: h("label", {}, h("i", {}, letter), shown, slider) };
    }));
    bank.replaceChildren(h("div", { class: "lrp-side", "aria-hidden": "true" }, h("span", {}, "logit z"), h("span", {}, "value v")), ...sliders.map((pair, place) => h("div", { class: "lrp-pair" }, h("b", {}, `token ${place + 1}`), pair.map(({ node }) => node))));
    bars = all.map(() => Object.fromEntries(["loo", "cp", "value", "logit", "attnlrp"].map((key) => [key, h("i", { class: `lrp-column lrp-fill-${key}` })])));
    ticks = ["lrp-top", "lrp-middle", "lrp-bottom"].map((name) => h("span", { class: name }));
    const picture = row(h("th", {}, ticks), bars.map((own) => Object.values(own)));
    picture.setAttribute("aria-hidden", "true"); // the rows below say the same in numbers
    const lines = Object.fromEntries(ROWS.map(([key, name, formula]) => {
      cells[key] = all.map(() => ({ text: h("span", {}), bar: h("i", {}) }));
      sums[key] = h("td", { role: "cell", class: "lrp-sum" });
      const inner = cells[key].map(({ text, bar }) => (key === "attention" ? [text, h("div", { class: "lrp-share" }, bar)] : text));
      const line = row(head([h("i", { class: `lrp-key lrp-fill-${key}` }), `${name} `, h("span", { class: "lrp-quiet" }, formula)]), inner, sums[key]);
      line.className = `lrp-row-${key}`;
      return [key, line];
    }));
    picture.className = "lrp-plot";
    const names = row(h("td", { role: "cell" }), all.map((i) => `token ${i + 1}`), h("th", { role: "columnheader", scope: "col", class: "lrp-sum" }, "sum"), "columnheader");
    const { attention, ...rest } = lines;
    chart.replaceChildren(h("caption", { class: "lrp-hidden" }, "Attention and scores of each token"), h("thead", { role: "rowgroup" }, names), h("tbody", { role: "rowgroup" }, attention, picture, Object.values(rest)));
  };

  return follow(model, ["logits", "values"], () => {
    const now = state(), found = step(now.logits, now.values), n = now.logits.length;
    if (sliders.length !== n) build(n);
    sliders.forEach((pair, i) => pair.forEach(({ key, slider, shown }) => {
      const x = now[key][i], digits = DECIMALS[key];
      slider.value = x;
      shown.textContent = say(x, Math.abs(x - x.toFixed(digits)) < 1e-9 ? digits : 3);
    }));
    const chosen = Object.keys(PRESETS).find((name) => JSON.stringify(PRESETS[name].set) === JSON.stringify(now));
    presets.forEach((one) => one.setAttribute("aria-pressed", one.textContent === chosen));
    note.textContent = PRESETS[chosen]?.note ?? FREE;
    shifts.forEach((one, k) => { one.disabled = now.logits.some((z) => Math.abs(z + (k ? 1 : -1)) > limits.logits); });
    fewer.disabled = n <= 3; more.disabled = n >= 6;
    for (const [one, other] of [[fewer, more], [more, fewer], shifts, [...shifts].reverse()]) if (one.disabled && one === document.activeElement) other.focus();
    const signs = [1, -1].map((sign) => found.value.map((x, i) => Math.max(0, sign * x) + Math.max(0, sign * found.logit[i]))); // the stacks' two ends
    const limit = ceiling(Math.max(...signs.flat(), ...[...found.loo, ...found.cp].map(Math.abs)));
    ticks.forEach((tick, k) => { tick.textContent = ["", "0", "−"][k] + (k === 1 ? "" : limit); });
    ROWS.forEach(([key]) => {
      sums[key].textContent = exact(sum(found[key]));
      cells[key].forEach(({ text, bar }, i) => {
        text.textContent = exact(found[key][i]);
        text.dataset.x = found[key][i];
        if (key === "attention") bar.style.width = `${100 * found.attention[i]}%`;
      });
    });
    bars.forEach((own, i) => {
      const [v, z, total] = [found.value[i], found.logit[i], found.attnlrp[i]], base = v * z > 0 ? v : 0;
      for (const key of ["loo", "cp", "value"]) draw(own[key], 0, found[key][i], limit);
      draw(own.logit, base, base + z, limit);
      own.attnlrp.style.bottom = `${50 + (50 * total) / limit}%`;
    });
    output.textContent = exact(found.output);
    output.dataset.x = found.output;
    verdict.replaceChildren(...[["CP-LRP", found.cp], ["AttnLRP", found.attnlrp]].map(([name, map]) => {
      const [r, error] = agreement(map, found.loo);
      return h("tr", { "data-r": r, "data-error": error }, h("th", { scope: "row" }, name), h("td", {}, exact(r, 2)), h("td", {}, exact(error, 2)));
    }));
    const spoken = (list) => list.map((x) => exact(x, 2)).join(", ");
    live.say(`Output ${exact(found.output, 2)}. LOO ${spoken(found.loo)}. AttnLRP ${spoken(found.attnlrp)}. CP-LRP ${spoken(found.cp)}.`);
  });
}

export default front({ render, accept });
