// Perturbation curves, step by step: two methods side by side.
const SIDES = ["left", "right"];
const ORDER_NAMES = { morf: "most relevant first (MoRF)", lerf: "least relevant first (LeRF)" };
const BOX = { left: 44, right: 236, top: 22, bottom: 158 }; // names of the lines stand right of it
const MARKS = ["M0 -4.5L4.5 0 0 4.5 -4.5 0Z", "M-4 -4L4 4M-4 4L4 -4"];

function accept(key, value, model) {
  const { methods, texts } = model.get("data");
  const whole = (limit) => Number.isInteger(value) && value >= 0 && value < limit;
  return {
    text: () => whole(texts.length),
    step: () => whole(1 + Math.max(...texts.flatMap((text) => Object.values(text.methods)).flatMap(({ morf, lerf }) => [morf.steps.length, lerf.steps.length]))),
    order: () => Object.hasOwn(ORDER_NAMES, value),
    left: () => Object.hasOwn(methods, value),
    right: () => Object.hasOwn(methods, value),
  }[key]();
}

/** Round numbers between two limits, about four of them. */
function ticks(low, high) {
  const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const size = power * [1, 2, 5, 10].find((factor) => factor * power >= raw), out = [];
  for (let k = Math.ceil(low / size); k * size <= high + 1e-9; k++) out.push(k * size);
  return { out, digits: Math.max(0, -Math.floor(Math.log10(size) + 1e-9)) };
}

function chart() {
  const grid = svg("g", {}), names = svg("g", {}), whole = svg("line", { x1: BOX.left, x2: BOX.right, class: "lrp-whole" });
  const under = svg("text", { x: (BOX.left + BOX.right) / 2, y: 194, "text-anchor": "middle" }, "tokens removed"), beside = svg("text", { x: 4, y: 12 });
  const lines = SIDES.map((side) => ({
    ahead: svg("path", { class: `lrp-ahead lrp-${side}` }), done: svg("path", { class: `lrp-done lrp-${side}` }), marks: svg("g", { class: `lrp-marks lrp-${side}` }),
  }));
  const node = svg("svg", { viewBox: "0 0 320 200", role: "img", class: "lrp-curve" }, grid, whole, lines.flatMap(({ ahead, done, marks }) => [ahead, done, marks]), names, under, beside);
  const paint = (curves, step, label, text) => {
    const all = curves.flatMap(({ logits }) => logits), spare = 0.06 * (Math.max(...all) - Math.min(...all) || 1);
    const low = Math.min(...all) - spare, high = Math.max(...all) + spare;
    const most = Math.max(1, ...curves.map(({ removed }) => removed.at(-1)));
    const x = (count) => BOX.left + ((BOX.right - BOX.left - 6) * count) / most, y = (logit) => BOX.bottom - ((BOX.bottom - BOX.top) * (logit - low)) / (high - low);
    const rows = ticks(low, high), columns = ticks(0, most);
    grid.replaceChildren(
      ...rows.out.flatMap((value) => [svg("line", { x1: BOX.left, x2: BOX.right, y1: y(value), y2: y(value), class: "lrp-gridline" }), svg("text", { x: BOX.left - 5, y: y(value) + 4, "text-anchor": "end" }, say(value, rows.digits))]),
      ...columns.out.filter(Number.isInteger).map((value) => svg("text", { x: x(value), y: BOX.bottom + 16, "text-anchor": "middle" }, say(value, 0))),
    );
    for (const end of ["y1", "y2"]) whole.setAttribute(end, y(curves[0].logits[0]));
    beside.textContent = `logit of ${label}`;
    curves.forEach(({ logits, removed }, side) => {
      const at = (k) => `${x(removed[k]).toFixed(1)} ${y(logits[k]).toFixed(1)}`, now = Math.min(step, logits.length - 1);
      const places = logits.map((_, k) => k);
      lines[side].done.dataset.logits = logits.join(" ");
      lines[side].ahead.setAttribute("d", `M${places.slice(now).map(at).join("L")}`);
      lines[side].done.setAttribute("d", `M${places.slice(0, now + 1).map(at).join("L")}`);
      lines[side].marks.replaceChildren(...places.slice(0, now + 1).map((k) => svg("path", { d: MARKS[side], transform: `translate(${at(k)})` })));
    });
    const rightEnds = [{ name: "whole text", at: y(curves[0].logits[0]) }, ...curves.map(({ name, logits }, side) => ({ name, side, at: y(logits.at(-1)) }))];
    rightEnds.sort((a, b) => a.at - b.at).forEach((own, k) => { own.at = Math.max(own.at, k ? rightEnds[k - 1].at + 15 : BOX.top); });
    rightEnds.forEach((own, k) => { own.at = Math.min(own.at, BOX.bottom - 15 * (rightEnds.length - 1 - k)); });
    names.replaceChildren(...rightEnds.flatMap(({ name, side, at }) => [
      svg("text", { x: side === undefined ? BOX.right + 3 : BOX.right + 14, y: at + 4 }, name.length > 11 ? `${name.slice(0, 10)}…` : name),
      ...(side === undefined ? [] : [svg("path", { d: MARKS[side], transform: `translate(${BOX.right + 7} ${at})`, class: `lrp-marks lrp-${SIDES[side]}` })]),
    ]));
    node.setAttribute("aria-label", text);
  };
  return { node, paint };
}

function render({ model, el }) {
  const { methods, texts } = model.get("data"), names = Object.keys(methods), live = liveLine();
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const steps = (side) => texts[model.get("text")].methods[model.get(side)][model.get("order")].steps;
  const last = () => Math.max(...SIDES.map((side) => steps(side).length));
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
  const here = () => Math.min(model.get("step"), last()); // the address may name a step that only a longer text has
  const go = (step) => put(model, { step: Math.max(0, Math.min(last(), step)) });
  const start = () => {
    if (here() >= last()) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => { go(here() + 1); if (here() >= last()) stop(); }, still ? 1500 : 900);
  };

  const beginning = ({ tokens, special }) => {
    const text = tokens.filter((_, i) => !special[i]).join(" ").replaceAll(" ##", "");
    return text.length > 60 ? `${text.slice(0, 58)} …` : text;
  };
  const fresh = (values) => { stop(); put(model, { ...values, step: 0 }); };
  const pick = dropdown("Text", texts.map(beginning), (text) => fresh({ text }));
  const order = choice("Remove the", ORDER_NAMES, (value) => fresh({ order: value }));
  const play = h("button", { type: "button", class: "lrp-play", onclick: () => (timer ? stop() : start()) }, "Play");
  const button = (name, call) => h("button", { type: "button", onclick: () => { stop(); call(); } }, name);
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step", oninput: () => { stop(); go(Number(slider.value)); } });
  const count = h("span", { class: "lrp-readout" });
  const panels = SIDES.map((side) => {
    const choose = dropdown(side === "left" ? "Method ◆" : "Method ✕", Object.values(methods), (place) => put(model, { [side]: names[place] }));
    const tokens = h("div", {}), next = h("p", { class: "lrp-readout" });
    return { side, choose, tokens, next, shown: "", row: null, node: h("section", { class: `lrp-panel lrp-${side}`, "aria-label": `${side} method` }, choose.node, tokens, next) };
  });
  const curve = chart(), caption = h("figcaption", {}), body = h("tbody", {});
  const summary = h("table", { class: "lrp-numbers" }, h("caption", {}, "Mean logit along the curves; Δ = LeRF − MoRF"), h("thead", {}, h("tr", {}, ["Method", "logit now", "MoRF ↓", "LeRF ↑", "Δ"].map((name) => h("th", { scope: "col" }, name)))), body);
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, pick.node, order.node),
    h("div", { class: "lrp-controls" }, h("div", { class: "lrp-buttons" }, button("First", () => go(0)), button("Back", () => go(here() - 1)), play, button("Forward", () => go(here() + 1)), button("Last", () => go(last()))), slider, count),
    h("div", { class: "lrp-panels" }, panels.map(({ node }) => node)),
    h("div", { class: "lrp-outcome" }, h("figure", {}, caption, curve.node), h("div", { class: "lrp-scroll", role: "region", tabindex: 0, "aria-label": "Means of the curves" }, summary)),
    live.node,
  );

  const end = follow(model, ["text", "left", "right", "order", "step"], () => {
    const place = model.get("text"), { tokens, special, label, methods: all } = texts[place], step = here();
    const said = [], curves = [];
    pick.show(place); order.show(model.get("order"));
    slider.max = last(); slider.value = step;
    count.textContent = `step ${step} of ${last()}`;
    panels.forEach((panel) => {
      const method = model.get(panel.side), own = all[method], { steps: plan, logits } = own[model.get("order")];
      const now = Math.min(step, plan.length), gone = new Set(plan.slice(0, now).flat()), next = plan[now] ?? [];
      if (panel.shown !== `${place} ${method}`) {
        panel.shown = `${place} ${method}`;
        panel.row = tokenRow(tokens, special, `Relevance by ${methods[method]}`);
        panel.row.paint(own.scores);
        panel.tokens.replaceChildren(panel.row.node);
      }
      [...panel.row.node.children].forEach((item, i) => {
        item.classList.toggle("lrp-gone", gone.has(i));
        item.classList.toggle("lrp-next", next.includes(i));
        const what = gone.has(i) ? "removed" : next.includes(i) ? "goes next" : null;
        if (what) item.setAttribute("aria-description", what);
        else item.removeAttribute("aria-description");
      });
      panel.choose.show(names.indexOf(method));
      const list = (places, between) => places.map((i) => tokens[i]).join(between), sum = next.reduce((all, i) => all + own.scores[i], 0);
      panel.next.replaceChildren(...(next.length ? ["next: “", h("bdi", {}, list(next, " ")), `” (${sum >= 0 ? "+" : ""}${say(sum, decimalsFor(own.scores))})`] : ["nothing is left but the special tokens"]));
      const removed = plan.reduce((counts, own) => [...counts, counts.at(-1) + own.length], [0]);
      curves.push({ name: methods[method], logits, removed });
      said.push(`${methods[method]} has removed ${now ? list(plan.slice(0, now).flat(), ", ") : "nothing"}, logit ${say(logits[now])}`);
    });
    body.replaceChildren(...SIDES.map((side, i) => {
      const own = all[model.get(side)], { logits } = own[model.get("order")], now = logits[Math.min(step, logits.length - 1)];
      const cells = [now, own.morf.mean, own.lerf.mean, own.lerf.mean - own.morf.mean];
      return h("tr", { "data-logit": now, "data-morf": own.morf.mean, "data-lerf": own.lerf.mean }, h("th", { scope: "row" }, `${i ? "✕" : "◆"} ${methods[model.get(side)]}`), cells.map((value) => h("td", {}, say(value))));
    }));
    const text = `Step ${step} of ${last()}, ${ORDER_NAMES[model.get("order")]}: ${said.join("; ")}`;
    caption.textContent = `Step ${step} of ${last()}, ${ORDER_NAMES[model.get("order")]}; dotted: steps to come`;
    curve.paint(curves, step, label, `Curves of the logit of ${label}. ${text}`);
    live.say(text);
  });
  return () => { stop(); end(); };
}

export default front({ render, accept });
