// Passes spent one after the other on a sentence: the map nears LOO, with r and cost.
const TOKEN_NAMES = { "no-special": "words", all: "words and special tokens" };
const BOX = { left: 36, right: 200, top: 24, bottom: 160 }; // names of the lines stand right of it
const RUNGS = 0.25; // r on the vertical axis goes in these steps

function accept(key, value, model) {
  const { ways, texts } = model.get("data");
  const upTo = (most) => Number.isInteger(value) && value >= 0 && value <= most;
  return {
    text: () => upTo(texts.length - 1),
    way: () => Object.hasOwn(ways, value),
    tokens: () => Object.hasOwn(TOKEN_NAMES, value),
    step: () => upTo(Math.max(...texts.map((text) => text.tokens.length))),
  }[key]();
}

/** The map at a step: LOO where it is exact, elsewhere what the way says of the others. */
function scoresAt({ loo, ways }, way, step) {
  const { order, exact, rest } = ways[way];
  let from = step;
  while (rest[from] === null) from -= 1; // as before
  const known = new Set(order.slice(0, exact[step]));
  return { known, scores: loo.map((value, i) => (known.has(i) ? value : Array.isArray(rest[from]) ? rest[from][i] : rest[from])) };
}

function passesInWords([forwards, backwards]) {
  const count = (number, kind) => `${number} ${kind} pass${number === 1 ? "" : "es"}`;
  if (!backwards) return count(forwards, "forward");
  return forwards === backwards ? `${count(forwards, "forward")} and as many backward` : `${forwards} forward and ${count(backwards, "backward")}`;
}

/** Forward and backward passes of a way at a step. */
function costOf(text, way, step) {
  return text.ways[way].passes[step].reduce((sum, part) => sum + part);
}

function chart(ways) {
  const names = Object.keys(ways), middle = (BOX.left + BOX.right) / 2;
  const grid = svg("g", {}), ends = svg("g", {}), here = svg("circle", { r: 5, class: "lrp-frontier-here" });
  const now = svg("line", { y1: BOX.top, y2: BOX.bottom, class: "lrp-frontier-now" });
  const bound = svg("line", { y1: BOX.top, y2: BOX.bottom, class: "lrp-frontier-loo" }), over = svg("text", { y: BOX.top - 5, "text-anchor": "middle" }, "LOO");
  const lines = names.map((way) => svg("path", { class: `lrp-frontier-line lrp-frontier-${way}` }));
  const node = svg("svg", { viewBox: "0 0 320 200", role: "img", class: "lrp-frontier-chart" }, grid, bound, over, now, lines, here, ends,
    svg("text", { x: 4, y: 12 }, "r with LOO"), svg("text", { x: middle, y: 194, "text-anchor": "middle" }, "passes, forward and backward"));
  const paint = (text, way, tokens, step, label) => {
    const all = names.flatMap((name) => Object.values(text.ways[name].r).flat()).filter((r) => r !== null);
    const low = Math.min(1 - RUNGS, RUNGS * Math.floor(Math.min(...all) / RUNGS)), rungs = [];
    const cost = (name, k) => costOf(text, name, k);
    const most = Math.max(text.forwards, ...names.map((name) => cost(name, text.tokens.length)));
    const x = (passes) => BOX.left + ((BOX.right - BOX.left) * passes) / most, y = (r) => BOX.bottom - ((BOX.bottom - BOX.top) * (r - low)) / (1 - low);
    for (let r = low; r <= 1; r += RUNGS) rungs.push(r);
    const gap = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((size) => most / size <= 6) ?? most, marks = [];
    for (let passes = 0; passes <= most; passes += gap) marks.push(passes);
    grid.replaceChildren(
      ...rungs.flatMap((r) => [svg("line", { x1: BOX.left, x2: BOX.right, y1: y(r), y2: y(r), class: "lrp-frontier-rung" }), svg("text", { x: BOX.left - 5, y: y(r) + 4, "text-anchor": "end" }, say(r))]),
      ...marks.map((passes) => svg("text", { x: x(passes), y: BOX.bottom + 15, "text-anchor": "middle" }, say(passes, 0))),
    );
    names.forEach((name, place) => {
      let pen = "M";
      const r = text.ways[name].r[tokens];
      const path = r.map((value, k) => {
        const piece = value === null ? "" : `${pen}${x(cost(name, k)).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = value === null ? "M" : "L"; // an undefined r breaks the line
        return piece;
      });
      lines[place].setAttribute("d", path.join(""));
      lines[place].classList.toggle("lrp-frontier-on", name === way);
    });
    for (const [line, at] of [[bound, text.forwards], [now, cost(way, step)]]) for (const end of ["x1", "x2"]) line.setAttribute(end, x(at));
    over.setAttribute("x", x(text.forwards));
    const r = text.ways[way].r[tokens][step];
    here.style.display = r === null ? "none" : "";
    here.setAttribute("class", `lrp-frontier-here lrp-frontier-${way}`);
    if (r !== null) { here.setAttribute("cx", x(cost(way, step))); here.setAttribute("cy", y(r)); }
    const last = names.map((name) => ({ name, value: text.ways[name].r[tokens].at(-1) })).map((own) => ({ ...own, at: own.value === null ? BOX.bottom : y(own.value) }));
    last.sort((a, b) => a.at - b.at).forEach((own, k) => { own.at = Math.max(own.at, k ? last[k - 1].at + 16 : BOX.top); });
    last.forEach((own, k) => { own.at = Math.min(own.at, BOX.bottom - 16 * (last.length - 1 - k)); });
    ends.replaceChildren(...last.flatMap(({ name, value, at }) => [
      svg("path", { d: `M${BOX.right + 5} ${at}h18`, class: `lrp-frontier-line lrp-frontier-${name} ${name === way ? "lrp-frontier-on" : ""}` }),
      svg("text", { x: BOX.right + 27, y: at + 4, class: name === way ? "lrp-frontier-name" : "" }, `${ways[name].label} ${say(value ?? NaN)}`),
    ]));
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

function render({ model, el }) {
  const { ways, texts } = model.get("data"), names = Object.keys(ways), live = liveLine();
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const last = (place = model.get("text")) => texts[place].tokens.length;
  const here = () => Math.min(model.get("step"), last()); // the address may name a step that only a longer text has
  let timer = 0, shown, map;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
  const go = (step) => put(model, { step: Math.max(0, Math.min(last(), step)) });
  const start = () => {
    if (here() >= last()) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => { go(here() + 1); if (here() >= last()) stop(); }, still ? 1500 : 700);
  };
  const change = (values) => { stop(); put(model, { ...values, step: Math.min(here(), last(values.text)) }); };

  const beginning = ({ tokens, special }) => {
    const text = tokens.filter((_, i) => !special[i]).join(" ").replaceAll(" ##", "");
    return text.length > 60 ? `${text.slice(0, 58)} …` : text;
  };
  const pick = dropdown("Sentence", texts.map(beginning), (text) => change({ text }));
  const way = choice("Spend passes by", Object.fromEntries(names.map((name) => [name, ways[name].label])), (value) => change({ way: value }));
  const tokens = choice("r on", TOKEN_NAMES, (value) => change({ tokens: value }));
  const play = h("button", { type: "button", class: "lrp-frontier-play", onclick: () => (timer ? stop() : start()) }, "Play");
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step", oninput: () => { stop(); go(Number(slider.value)); } });
  const count = h("span", { class: "lrp-readout" }), about = h("p", { class: "lrp-quiet" }), said = h("p", { class: "lrp-readout lrp-frontier-said" });
  const caption = h("figcaption", {}), maps = h("div", { class: "lrp-frontier-maps" }), curve = chart(ways), budget = h("caption", {}), body = h("tbody", {});
  const bought = h("table", { class: "lrp-frontier-bought" }, budget, h("thead", {}, h("tr", {}, ["Way", "passes", "r", "error"].map((name) => h("th", { scope: "col" }, name)))), body);
  el.replaceChildren(
    h("div", { class: "lrp-controls" }, pick.node), h("div", { class: "lrp-controls" }, way.node, tokens.node), about,
    h("div", { class: "lrp-controls lrp-frontier-steps" }, play, slider, count), said, maps,
    h("p", { class: "lrp-quiet" }, "Orange with a line below: for the class. Blue with a dotted line above: against it. Both rows have LOO's scale, set by its words; what is larger has the end's colour. ",
      h("span", { class: "lrp-frontier-mark" }, "●"), " after a token: the value is LOO's own. Error: sum of |map − LOO| over sum of |LOO|, on the same tokens as r."),
    h("div", { class: "lrp-outcome" }, h("figure", {}, caption, curve.node), bought), live.node,
  );

  const end = follow(model, ["text", "way", "tokens", "step"], () => {
    const place = model.get("text"), text = texts[place], own = model.get("way"), kind = model.get("tokens"), step = here();
    const { passes, r, error } = text.ways[own], { scores, known } = scoresAt(text, own, step);
    if (shown !== place) {
      shown = place;
      map = tokenRow(text.tokens, text.special, "Map at this step");
      const loo = tokenRow(text.tokens, text.special, "LOO");
      loo.paint(text.loo);
      maps.replaceChildren(h("p", { class: "lrp-frontier-title" }, "Map at this step"), map.node, h("p", { class: "lrp-frontier-title" }, "LOO, for the class ", h("bdi", {}, text.label)), loo.node);
    }
    pick.show(place); way.show(own); tokens.show(kind);
    slider.max = last(); slider.value = step;
    about.textContent = `${ways[own].label}: ${ways[own].says}.`;
    count.textContent = `${ways[own].counts}: ${step} of ${last()}`;
    slider.setAttribute("aria-valuetext", count.textContent);
    map.paint(scores, text.loo);
    map.node.dataset.scores = scores.join(" ");
    [...map.node.children].forEach((item, i) => {
      item.classList.toggle("lrp-frontier-exact", known.has(i));
      if (known.has(i)) item.setAttribute("aria-description", "LOO's own value");
      else item.removeAttribute("aria-description");
    });
    const value = r[kind][step];
    const words = `${passesInWords(passes[step])}: r ${value === null ? "undefined" : `= ${say(value)}`} with LOO on the ${TOKEN_NAMES[kind]}, error ${say(error[kind][step] ?? NaN)} (LOO itself: ${passesInWords([text.forwards, 0])})`;
    said.textContent = words;
    caption.textContent = `r with LOO on the ${TOKEN_NAMES[kind]} against passes; upright line: what LOO costs`;
    const most = costOf(text, own, step);
    budget.textContent = `What each way says for at most ${most} passes`;
    body.replaceChildren(...names.map((name) => {
      let k = last();
      while (k >= 0 && costOf(text, name, k) > most) k -= 1;
      const cells = k < 0 ? ["–", "–", "–"] : [say(costOf(text, name, k), 0), ...["r", "error"].map((what) => say(text.ways[name][what][kind][k] ?? NaN))];
      return h("tr", { "data-way": name, class: name === own ? "lrp-frontier-name" : "" }, h("th", { scope: "row" }, ways[name].label), cells.map((cell) => h("td", {}, cell)));
    }));
    const ending = names.map((name) => `${ways[name].label} ends at ${say(text.ways[name].r[kind].at(-1) ?? NaN)}`).join(", ");
    curve.paint(text, own, kind, step, `${caption.textContent}. ${ways[own].label} here: ${words}. ${ending}.`);
    live.say(`${ways[own].label}, ${count.textContent}. ${words}`);
  });
  return () => { stop(); end(); };
}

export default front({ render, accept });
