// One attention read-out on sliders.
const PRESETS = {
  "uniform logits": {
    set: () => ({ logits: [0, 0, 0, 0], values: [1, 1, 1, 1] }),
    note: "The paper's structural bias. All logits and all values are equal, so no token matters and LOO is 0; CP-LRP hands each token A·v all the same, AttnLRP half of it. Move one value and see what LOO, and only LOO, answers to.",
  },
  "large equal logits": {
    set: () => ({ logits: [6, 6, 6, 6], values: [2, 1, 0, -1] }),
    note: "The paper's linearisation error. Attention is flat, and the relevance at a logit is z·(n − 1)/2n times LOO: here with 6·3/8. Shift all logits together: LOO stays, this part grows, vanishes or turns its sign.",
  },
  "one dominates": {
    set: () => ({ logits: [6, 0, 0, 0], values: [1, -1, 0.5, -0.5] }),
    note: "Token 1 holds nearly all of the attention. The slope A·(v − o) is almost 0 there, while its removal changes the output a lot.",
  },
};
const ROWS = [
  ["attention", "attention A"],
  ["loo", "LOO: what removal changes"],
  ["cp", "CP-LRP: A·v"],
  ["attnlrp", "AttnLRP: both parts"],
  ["value", "its part at the value: ½ A·v"],
  ["logit", "its part at the logit: ½ z·A·(v − o)"],
];

/** All quantities of one step; sums over the others are made without subtracting, so that nothing cancels. */
function step(logits, values) {
  const top = Math.max(...logits), weights = logits.map((z) => Math.exp(z - top)), total = sum(weights);
  const attention = weights.map((w) => w / total), output = sum(attention.map((a, i) => a * values[i]));
  const others = (list, i) => sum(list.filter((_, j) => j !== i));
  const gain = values.map((v, i) => v - others(weights.map((w, j) => w * values[j]), i) / others(weights, i));
  const loo = attention.map((a, i) => a * gain[i]);
  const slope = loo.map((x, i) => (x * others(weights, i)) / total);
  const cp = attention.map((a, i) => a * values[i]), value = cp.map((x) => x / 2), logit = slope.map((d, i) => (logits[i] * d) / 2);
  return { attention, output, loo, cp, value, logit, attnlrp: value.map((x, i) => x + logit[i]) };
}

function sum(list) {
  return list.reduce((total, x) => total + x, 0);
}

function distance(map, loo) {
  const size = Math.hypot(...loo);
  return size > 1e-12 ? Math.hypot(...map.map((x, i) => x - loo[i])) / size : NaN;
}

function accept(key, value, model) {
  return value.length >= 3 && value.length <= 6 && value.every((x) => Math.abs(x) <= model.get("data").limits[key]);
}

function render({ model, el }) {
  const { limits } = model.get("data"), live = liveLine();
  // An address may name one of the two lists only: the shorter length counts.
  const state = () => {
    const n = Math.min(model.get("logits").length, model.get("values").length);
    return { logits: model.get("logits").slice(0, n), values: model.get("values").slice(0, n) };
  };
  const edit = (key, place, number) => put(model, { ...state(), [key]: state()[key].map((x, i) => (i === place ? number : x)) });
  const presets = Object.entries(PRESETS).map(([name, { set }]) => h("button", { type: "button", onclick: () => put(model, set()) }, name));
  const shifts = [-1, 1].map((c) => h("button", { type: "button", onclick: () => put(model, { logits: state().logits.map((z) => z + c) }) }, `all logits ${c < 0 ? "−" : "+"} 1`));
  const fewer = h("button", { type: "button", onclick: () => put(model, { logits: state().logits.slice(0, -1), values: state().values.slice(0, -1) }) }, "− token");
  const more = h("button", { type: "button", onclick: () => put(model, { logits: [...state().logits, 0], values: [...state().values, 0] }) }, "+ token");
  const note = h("p", { class: "lrp-note" }), bank = h("div", { class: "lrp-bank" }), output = h("p", { class: "lrp-readout lrp-lab-output" });
  const chart = h("table", { class: "lrp-lab" }), verdict = h("tbody", {});
  const facts = h("table", { class: "lrp-facts" }, h("thead", {}, h("tr", {}, ["against LOO", "r", "relative error"].map((name) => h("th", { scope: "col" }, name)))), verdict);
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, presets),
    h("div", { class: "lrp-controls" }, shifts, fewer, more),
    note, bank, output, chart, facts, live.node,
  );

  let sliders = [], cells = {}, sums = {};
  const build = (n) => {
    sliders = Array.from({ length: n }, (_, place) => ["logits", "values"].map((key) => {
      const shown = h("output", {}), name = `${key.slice(0, -1)} of token ${place + 1}`;
      const slider = h("input", { type: "range", min: -limits[key], max: limits[key], step: key === "logits" ? 0.1 : 0.05, "aria-label": name, oninput: () => edit(key, place, Number(slider.value)) });
      return { key, slider, shown };
    }));
    bank.replaceChildren(...sliders.map((pair, place) => h("div", { class: "lrp-pair" }, h("b", {}, `token ${place + 1}`), pair.map(({ key, slider, shown }) => h("label", {}, key === "logits" ? "z " : "v ", shown, slider)))));
    cells = {}; sums = {};
    chart.replaceChildren(
      h("caption", { class: "lrp-hidden" }, "Attention and scores of each token"),
      h("thead", {}, h("tr", {}, sliders.map((_, i) => h("th", { scope: "col" }, `token ${i + 1}`)))),
      ...ROWS.map(([key, name]) => {
        sums[key] = h("span", { class: "lrp-sum" });
        cells[key] = sliders.map(() => ({ text: h("span", {}), bar: h("i", {}) }));
        return h("tbody", { class: `lrp-row-${key}` }, h("tr", {}, h("th", { scope: "rowgroup", colspan: n }, name, sums[key])), h("tr", {}, cells[key].map(({ text, bar }) => h("td", {}, text, h("div", { class: "lrp-track" }, bar)))));
      }),
    );
  };

  return follow(model, ["logits", "values"], () => {
    const { logits, values } = state(), found = step(logits, values), n = logits.length;
    if (sliders.length !== n) build(n);
    sliders.forEach((pair, i) => pair.forEach(({ key, slider, shown }) => {
      slider.value = { logits, values }[key][i];
      shown.textContent = say({ logits, values }[key][i], key === "logits" ? 1 : 2);
    }));
    const same = (set) => JSON.stringify(set()) === JSON.stringify({ logits, values });
    const chosen = Object.entries(PRESETS).filter(([, { set }]) => same(set)).map(([name]) => name)[0];
    presets.forEach((button) => button.setAttribute("aria-pressed", button.textContent === chosen));
    note.textContent = chosen ? PRESETS[chosen].note : "Shift all logits: attention, the output and LOO stay as they are, because the softmax does not see a constant. AttnLRP's part at the logit moves.";
    shifts.forEach((button, k) => { button.disabled = logits.some((z) => Math.abs(z + (k ? 1 : -1)) > limits.logits); });
    fewer.disabled = n <= 3; more.disabled = n >= 6;
    const most = Math.max(1e-9, ...["loo", "cp", "attnlrp", "value", "logit"].flatMap((key) => found[key].map(Math.abs)));
    ROWS.forEach(([key]) => {
      const scale = key === "attention" ? 1 : most;
      sums[key].textContent = `sum ${say(sum(found[key]), 3)}`;
      cells[key].forEach(({ text, bar }, i) => {
        const x = found[key][i], part = (50 * Math.abs(x)) / scale;
        text.textContent = say(x, 3);
        text.dataset.x = x;
        bar.style.left = key === "attention" ? "0" : `${x < 0 ? 50 - part : 50}%`;
        bar.style.width = key === "attention" ? `${100 * x}%` : `${part}%`;
      });
    });
    output.textContent = `output o = ${say(found.output, 3)}`;
    output.dataset.x = found.output;
    verdict.replaceChildren(...[["CP-LRP", found.cp], ["AttnLRP", found.attnlrp]].map(([name, map]) => {
      const r = pearson(map, found.loo), error = distance(map, found.loo);
      return h("tr", { "data-r": r, "data-error": error }, h("th", { scope: "row" }, name), h("td", {}, say(r)), h("td", {}, say(error)));
    }));
    live.say(`Output ${say(found.output, 2)}. LOO ${found.loo.map((x) => say(x, 2)).join(", ")}. AttnLRP ${found.attnlrp.map((x) => say(x, 2)).join(", ")}. CP-LRP ${found.cp.map((x) => say(x, 2)).join(", ")}.`);
  });
}

export default front({ render, accept });
