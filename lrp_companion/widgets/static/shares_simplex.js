// A triangle of shares, and the map of a digit that they give.
const FACTORS = ["query", "key", "value"], WORDS = ["queries", "keys", "values"], STEPS = 30, SIDE = 280, TOP = 32, LEFT = 30;
const TALL = (SIDE * Math.sqrt(3)) / 2, SHOWN = { raw: "raw", "sum-to-one": "sum to one" };
const MARKS = {
  left: "M0-7 7 0 0 7-7 0Z", right: "M-6-6 6 6M6-6-6 6", flat: "M0-7V7M-7 0H7", CP: "M-6-6H6V6H-6Z",
};
const sum = (list) => list.reduce((all, one) => all + one, 0);
const norm = (list) => Math.sqrt(sum(list.map((x) => x * x)));
const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
const between = (a, b, t) => a.map((x, i) => x + t * (b[i] - x));
const middle = (corners) => [0, 1, 2].map((i) => sum(corners.map((one) => one[i])) / corners.length);

/** Shares as a place in the picture (V at the left, Q at the right, K on top), and the nearest shares of a place. */
const placeOf = ([q, k]) => [LEFT + SIDE * (q + k / 2), TOP + TALL * (1 - k)];
const outline = (corners) => corners.map((one) => placeOf(one).map((x) => x.toFixed(2))).join(" ");
const sharesAt = (x, y) => { const k = 1 - (y - TOP) / TALL, q = (x - LEFT) / SIDE - k / 2; return nearest([q, k, 1 - q - k]); };

/** The nearest point of the simplex, to four decimals. */
function nearest(given) {
  const sorted = [...given].sort((a, b) => b - a);
  let off = 0;
  for (let n = 1, total = 0; n <= 3; n++) { total += sorted[n - 1]; if (sorted[n - 1] > (total - 1) / n) off = (total - 1) / n; }
  const [q, k] = given.map((x) => Number(Math.max(0, x - off).toFixed(4)));
  return [q, k, Number(Math.max(0, 1 - q - k).toFixed(4))];
}

/** The part of a triangle of shares where a linear function is at least 0. */
function cut(corners, height) {
  return corners.flatMap((a, i) => {
    const b = corners[(i + 1) % 3], x = height(a), y = height(b);
    return [...(x >= 0 ? [a] : []), ...(x >= 0 !== y >= 0 ? [between(a, b, x / (x - y))] : [])];
  });
}

/** Draw scores on a canvas in their colours, with a dot on those below zero, or a digit in grey. */
function draw(canvas, side, values, grey) {
  const cell = 20, pen = canvas.getContext("2d"), size = Math.max(...values.map(Math.abs)) || 1;
  canvas.width = canvas.height = side * cell;
  values.forEach((value, i) => {
    const x = (i % side) * cell, y = Math.floor(i / side) * cell, light = Math.round(255 * (1 - value));
    pen.fillStyle = grey ? `rgb(${light},${light},${light})` : Number.isFinite(value) ? shade(value / size) : "#c9c9c9";
    pen.fillRect(x, y, cell, cell);
    if (grey || !(value < -0.08 * size)) return;
    pen.fillStyle = "#1b1b1b";
    pen.fillRect(x + cell / 2 - 2.5, y + cell / 2 - 2.5, 5, 5);
  });
}

function render({ model, el }) {
  const { side, points, digits, ...packs } = model.get("data"), count = side * side;
  const arrays = Object.fromEntries(["image", "loo", ...FACTORS].map((name) => [name, numbers(packs[name], Float32Array)]));
  const part = (name, place) => Array.from(arrays[name].subarray(place * count, (place + 1) * count));
  const mix = (maps, shares) => maps[0].map((_, i) => shares[0] * maps[0][i] + shares[1] * maps[1][i] + shares[2] * maps[2][i]);
  const divided = (map) => { // a sum that cancels has no size and no sign, as in `metrics.normalise`
    const total = sum(map), defined = Math.abs(total) > 1e-6 * sum(map.map(Math.abs));
    return model.get("map") === "raw" ? map : map.map((x) => (defined ? x / total : NaN));
  };
  const near = (a, b) => a.every((x, i) => Math.abs(x - b[i]) < 1e-6);
  const go = (shares) => put(model, { shares });
  const step = (shares, by) => go(nearest(shares.map((share, i) => share + by[i])));

  // the triangle
  const cells = [], field = svg("g", { role: "img" });
  for (let k = 0; k < STEPS; k++) {
    for (let q = 0; q < STEPS - k; q++) {
      for (const corners of [[[q, k], [q + 1, k], [q, k + 1]], [[q + 1, k], [q + 1, k + 1], [q, k + 1]]]) {
        if (corners[1][0] + corners[1][1] > STEPS) continue;
        const shares = corners.map(([a, b]) => [a / STEPS, b / STEPS, (STEPS - a - b) / STEPS]);
        cells.push({ shares, node: svg("polygon", { points: outline(shares), "stroke-width": 0.7 }) });
      }
    }
  }
  const [levels, zero, high99] = ["", "lrp-zero", "lrp-high"].map((kind) => svg("path", { class: `lrp-level ${kind}` })), rest = svg("g", {});
  field.append(...cells.map(({ node }) => node), rest, levels, zero, high99);
  const mark = (name) => svg("path", { d: MARKS[name], class: "lrp-mark", "aria-hidden": "true" });
  const label = (x, y, anchor, inside, text = "") => svg("text", { x, y, "text-anchor": anchor, class: inside ? "lrp-inside" : "" }, text);
  const beside = { left: [-16, 5, "end"], right: [16, 5, "start"], flat: [0, -16, "middle"], CP: [-11, -8, "end"] };
  const named = Object.entries(points).map(([name, point]) => {
    const [x, y] = placeOf(point), [dx, dy, anchor] = beside[name];
    return svg("g", { transform: `translate(${x} ${y})` }, svg("circle", { r: 9.5, class: "lrp-ground" }), mark(name), label(dx, dy, anchor, name !== "CP", name));
  });
  const corners = [label(LEFT + SIDE + 18, TOP + TALL + 25, "end"), label(LEFT + SIDE / 2, TOP - 14, "middle"), label(LEFT - 18, TOP + TALL + 25, "start")];
  const rule = `lrp-hint-${model.get("address")}-${render.count = (render.count ?? 0) + 1}`;
  const handle = svg("g", { class: "lrp-handle", role: "button", tabindex: 0, "aria-roledescription": "movable point", "aria-describedby": rule, onkeydown: onkey },
    svg("circle", { r: 20 }), svg("circle", { r: 10, class: "lrp-halo" }), svg("circle", { r: 10, class: "lrp-ring" }));
  const frame = `M${placeOf([1, 0, 0])}L${placeOf([0, 1, 0])}L${placeOf([0, 0, 1])}Z`;
  const picture = svg("svg", { viewBox: "0 0 340 304", role: "group", "aria-label": "Shares of relevance", onpointerdown: ondown, onpointermove: onmove, onclick: ontap,
    onpointerup: ondrop, onpointercancel: ondrop }, field, svg("path", { d: frame, class: "lrp-level" }), corners, named, handle);
  let dragged = null;
  function toward(event) {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    go(sharesAt(x, y));
  }
  function ondown(event) { // a finger beside the handle may scroll the page; its tap is a click
    if (event.button !== 0 || (event.pointerType === "touch" && !handle.contains(event.target))) return;
    dragged = event.pointerId;
    picture.setPointerCapture(dragged);
    handle.focus({ preventScroll: true });
    event.preventDefault();
    if (!handle.contains(event.target)) toward(event);
  }
  function onmove(event) { if (event.pointerId === dragged) toward(event); }
  function ondrop(event) { if (event.pointerId === dragged) dragged = null; }
  function ontap(event) { if (event.pointerType === "touch" && !handle.contains(event.target)) toward(event); }
  function onkey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const d = event.shiftKey ? 0.1 : 0.01, shares = model.get("shares"), all = Object.values(points);
    const by = { ArrowRight: [d, 0, -d], ArrowLeft: [-d, 0, d], ArrowUp: [-d / 2, d, -d / 2], ArrowDown: [d / 2, -d, d / 2] }[event.key];
    if (by) step(shares, by);
    else if (event.key === "Home") go(points.flat);
    else if (event.key === "Enter" || event.key === " ") go(all[(all.findIndex((point) => near(point, shares)) + 1) % all.length]);
    else return;
    event.preventDefault();
  }

  // controls
  const inputs = WORDS.map((_, i) => h("input", { type: "number", min: 0, max: 1, step: 0.01, onchange: (event) => typed(i, event.target) }));
  function typed(i, { value }) { // queries and keys trade with values, values with both
    const [q, k] = model.get("shares"), given = value === "" ? NaN : Number(value), x = Math.max(0, Math.min(1, given));
    if (!Number.isFinite(given)) return paint();
    const part = q + k > 0 ? q / (q + k) : 0.5;
    const [a, b] = [[x, Math.min(k, 1 - x)], [Math.min(q, 1 - x), x], [(1 - x) * part, (1 - x) * (1 - part)]][i];
    go([a, b, i === 2 ? x : Math.max(0, 1 - a - b)]);
    paint();
  }
  const icon = (name) => svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, mark(name));
  const pointButtons = Object.entries(points).map(([name, point]) => h("button", { type: "button", onclick: () => go(point) }, icon(name), name));
  oneTabStop(pointButtons);
  const digitButtons = digits.map((digit, i) => {
    const small = h("canvas", { "aria-hidden": "true" });
    draw(small, side, part("image", i), true);
    return h("button", { type: "button", "aria-label": `digit ${digit.label}`, title: `digit ${digit.label}`, onclick: () => put(model, { digit: i }) }, small);
  });
  const digitStop = oneTabStop(digitButtons);
  const mapChoice = choice("Maps", SHOWN, (map) => put(model, { map }));
  const bar = h("span", { class: "lrp-bar", style: `background: linear-gradient(90deg, ${[-1, -0.5, 0, 0.5, 1].map(shade)})` });
  const range = h("span", {}), hint = "Drag the ring, or press arrow keys: right and left trade queries with values, up and down trade keys with both. "
    + "Shift: 0.1 a step. Home: flat. Enter: next named point.";

  // maps and numbers
  const canvases = ["digit", "map", "loo"].map(() => h("canvas", { role: "img" }));
  const captions = canvases.map(() => [h("strong", {}), h("span", { class: "lrp-quiet" })]);
  const figures = canvases.map((canvas, i) => h("figure", {}, captions[i][0], canvas, h("figcaption", {}, captions[i][1])));
  const rows = ["r with LOO", "distance to the left map (raw)", "distance to the right map (raw)", "sum of the map (raw)", "logit of the predicted class"];
  const cellsOf = rows.map(() => h("dd", {})), turned = h("p", {}), { node: line, say: tell } = liveLine();
  const readout = h("dl", { class: "lrp-readout" }, rows.flatMap((row, i) => [h("dt", {}, row), cellsOf[i]]));
  readout.firstChild.className = cellsOf[0].className = "lrp-first";
  const here = h("p", { class: "lrp-readout lrp-printed" });
  el.append(
    h("div", { class: "lrp-controls" },
      h("div", { class: "lrp-digits", role: "group", "aria-label": "Digit" }, digitButtons), mapChoice.node),
    h("div", { class: "lrp-simplex" },
      h("div", {}, picture, h("p", { class: "lrp-quiet" }, "r with LOO: \u22121", bar, "1. ", range),
        h("div", { class: "lrp-controls", role: "group", "aria-label": "Named points" }, pointButtons)),
      h("div", {}, h("div", { class: "lrp-maps" }, figures), here, h("div", { class: "lrp-controls lrp-shares" },
        inputs.map((input, i) => h("label", {}, `${WORDS[i]} `, input))), readout, turned)),
    h("p", { class: "lrp-foot", id: rule }, hint), line);

  let place, maps, loo, graphs, shown;
  const about = (name, map, total) => {
    const least = 1e-6 * Math.max(...map.map(Math.abs)), below = map.filter((x) => x < -least).length / count; // LOO of a black pixel is rounding
    return [`sum ${say(total)}, ${Math.round(100 * below)}\u00a0%\u00a0<\u00a00`,
      `${name}: sum ${say(total)}, largest ${say(Math.max(...map), decimalsFor(map))}, ${Math.round(100 * below)} % of the pixels below zero`];
  };
  function caption(i, title, [short, long]) {
    captions[i][0].textContent = title;
    captions[i][1].textContent = short;
    canvases[i].setAttribute("aria-label", long);
  }
  function paintDigit() { // what does not depend on the shares: the digit, LOO, and r over the triangle
    place = model.get("digit");
    maps = FACTORS.map((name) => part(name, place));
    loo = part("loo", place);
    graphs = [points.left, points.right].map((point) => mix(maps, point));
    shown = divided(loo);
    const { label: truth, predicted } = digits[place];
    digitButtons.forEach((button, i) => button.setAttribute("aria-pressed", i === place));
    digitStop(digitButtons[place]);
    mapChoice.show(model.get("map"));
    draw(canvases[0], side, part("image", place), true);
    draw(canvases[2], side, shown);
    caption(0, `digit ${truth}`, [`predicted ${predicted}`, `The digit ${truth}; the network predicts ${predicted}`]);
    caption(2, "LOO", about("LOO", shown, sum(shown)));
    // r is linear over a root of a square form in the shares, so the field needs the 196 pixels once
    const flat = (map) => { const mean = sum(map) / count; return map.map((x) => x - mean); };
    const flats = maps.map(flat), other = flat(loo), square = flats.map((a) => flats.map((b) => dot(a, b))), cross = flats.map((a) => dot(a, other));
    const sums = maps.map(sum), divides = model.get("map") !== "raw", turn = Math.sign(sum(loo)), total = (a) => dot(a, sums);
    const r = (a, sign = Math.sign(total(a))) => ((divides ? sign * turn : 1) * dot(a, cross)) / Math.sqrt(dot(a, square.map((row) => dot(row, a))) * dot(other, other));
    const values = cells.map(({ shares }) => shares.map((one) => r(one))), all = values.flat().filter(Number.isFinite);
    const low = Math.min(...all), high = Math.max(...all), gap = [0.01, 0.02, 0.05, 0.1].find((one) => (high - low) / one < 12) ?? 0.2;
    const lines = { 0: "", 0.99: "", other: "" }, tint = (node, value) => ["fill", "stroke"].forEach((name) => {
      node.setAttribute(name, Number.isFinite(value) ? shade(value) : "#c9c9c9");
    });
    rest.replaceChildren();
    cells.forEach(({ shares, node }, c) => {
      const own = values[c];
      if (divides && shares.some((one) => total(one) < 0) && shares.some((one) => total(one) > 0)) { // r jumps where the sum turns
        const [above, below] = [1, -1].map((sign) => cut(shares, (a) => sign * total(a))), extra = svg("polygon", { points: outline(below) });
        rest.append(extra);
        tint(node, r(middle(above), 1));
        return tint(extra, r(middle(below), -1));
      }
      tint(node, r(middle(shares)));
      if (!own.every(Number.isFinite)) return;
      const from = Math.min(...own), to = Math.max(...own), heights = [0.99];
      for (let n = Math.ceil(from / gap); n * gap <= to; n++) heights.push(n * gap);
      for (const height of heights) {
        const ends = [[0, 1], [1, 2], [2, 0]].filter(([a, b]) => own[a] < height !== own[b] < height)
          .map(([a, b]) => placeOf(between(shares[a], shares[b], (height - own[a]) / (own[b] - own[a]))).map((x) => x.toFixed(1)));
        if (ends.length === 2) lines[height in lines ? height : "other"] += `M${ends[0]}L${ends[1]}`;
      }
    });
    [levels, zero, high99].forEach((node, i) => node.setAttribute("d", lines[["other", 0, 0.99][i]]));
    const kinds = [`a line every ${gap}`, lines[0] && "dashed at 0", lines[0.99] && "thick at 0.99"].filter(Boolean).join(", ");
    range.textContent = all.length ? `This digit: ${say(low)} to ${say(high)}; ${kinds}.` : "Undefined for this digit.";
    field.setAttribute("aria-label", `r with LOO over all shares, digit ${truth}: from ${say(low)} to ${say(high)}`);
    corners.forEach((node, i) => { node.textContent = `${WORDS[i]} only: ${say(r([0, 1, 2].map((j) => Number(i === j))))}`; });
    paint();
  }
  function paint() {
    const shares = model.get("shares"), raw = mix(maps, shares), map = divided(raw), r = pearson(map, shown), total = sum(raw);
    const gaps = graphs.map((graph) => {
      const size = (norm(raw) + norm(graph)) / 2;
      return size ? norm(raw.map((x, i) => x - graph[i])) / size : 0;
    });
    const { label: truth, logit } = digits[place], text = WORDS.map((word, i) => `${word} ${say(shares[i])}`).join(", ");
    const name = Object.keys(points).find((key) => near(points[key], shares));
    handle.setAttribute("transform", `translate(${placeOf(shares)})`);
    handle.setAttribute("aria-label", `Shares: ${text}${name ? `, ${name}` : ""}`);
    pointButtons.forEach((button, i) => button.setAttribute("aria-pressed", Object.keys(points)[i] === name));
    inputs.forEach((input, i) => { input.value = Number(shares[i].toFixed(4)); });
    here.textContent = `Shares${name ? ` (${name})` : ""}: ${text}`;
    draw(canvases[1], side, map);
    caption(1, name ?? "mixture", about(`Map at ${text}`, map, sum(map)));
    [r, ...gaps, total, logit].forEach((value, i) => { cellsOf[i].textContent = say(value, i > 2 ? 2 : 3); });
    Object.assign(readout.dataset, { r, gapLeft: gaps[0], gapRight: gaps[1], sum: total, logit });
    const below = [total < 0 && "this map", sum(loo) < 0 && "LOO"].filter(Boolean);
    turned.textContent = !below.length ? "" : `The sum${below.length === 2 ? "s" : ""} of ${below.join(" and of ")} ${below.length === 2 ? "are" : "is"} negative: ${below.length === 2
      ? "dividing both by their sums turns r twice, which leaves it." : "dividing by the sums turns the sign of r."}`;
    tell(`Digit ${truth}, ${SHOWN[model.get("map")]}, ${text}: r with LOO ${say(r)}, distance to left ${say(gaps[0])}, to right ${say(gaps[1])}; `
      + `sum ${say(total)}${total < 0 ? ", negative" : ""}, logit ${say(logit)}.`);
  }
  const stops = [follow(model, ["digit", "map"], paintDigit), follow(model, ["shares"], paint)];
  return () => stops.forEach((stop) => stop());
}

function accept(key, value, model) {
  if (key === "shares") return value.length === 3 && value.every((share) => share >= 0) && Math.abs(sum(value) - 1) <= 1e-9;
  return key === "map" ? Object.keys(SHOWN).includes(value) : Number.isInteger(value) && value >= 0 && value < model.get("data").digits.length;
}

export default front({ render, accept });
