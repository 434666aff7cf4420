// Every choice of the protocol as a row of switches; the numbers of each combination were computed before.
const STEPS = 10000, LACKS = -32768, TALL = 100; // values lie in steps of 1e-4; the curve is TALL units high
const SIGNS = ["above", "across", "below"];
const MARKS = { a: "M-4 -4L4 4M-4 4L4 -4", b: "M0 -5L5 0 0 5 -5 0Z" };
const known = new WeakMap();

const keyed = (list, key) => list.find((own) => own.key === key);
const signOf = (low, high) => (low > 0 ? "above" : high < 0 ? "below" : "across");
const signed = (value, decimals) => (value > 0 && Number(value.toFixed(decimals)) ? "+" : "") + tidy(value, decimals);
const count = (n) => n.toLocaleString("en");

/** A number without a minus sign before zeros. */
function tidy(value, decimals) {
  return say(Math.abs(value) < 0.5 * 10 ** -decimals ? 0 : value, decimals);
}

/** A run's numbers, unpacked when it is first looked at; its combinations in the order of their difference. */
function unpack(board, run) {
  if (known.has(run)) return known.get(run);
  const cells = numbers(run.cells, Int16Array), lacking = numbers(run.undefined, Uint16Array);
  const sizes = board.axes.map(({ options }) => options.length), strides = sizes.map((_, k) => sizes.slice(k + 1).reduce((all, size) => all * size, 1));
  const value = (cell, k) => (cells[9 * cell + k] === LACKS ? NaN : cells[9 * cell + k] / STEPS);
  const has = (cell) => cells[9 * cell + 6] !== LACKS, option = (cell, axis) => Math.floor(cell / strides[axis]) % sizes[axis];
  const order = Array.from(lacking.keys()).filter(has).sort((i, j) => cells[9 * i + 6] - cells[9 * j + 6] || i - j);
  const rank = new Map(order.map((cell, place) => [cell, place]));
  const sign = (cell) => signOf(value(cell, 7), value(cell, 8));
  const cellOf = (places) => places.reduce((all, place, axis) => all + place * strides[axis], 0);
  known.set(run, { value, has, option, order, rank, sign, cellOf, strides, lacking });
  return known.get(run);
}

/** The state in force: what does not fit the board or was not measured gives way to the start or to the nearest combination. */
function settle(model) {
  const { boards } = model.get("data"), board = keyed(boards, model.get("board")) ?? boards[0];
  const run = keyed(board.runs, model.get("run")) ?? keyed(board.runs, board.start.run), table = unpack(board, run);
  const places = placesOf(board, model.get("choices")) ?? board.axes.map(({ key, options }) => options.findIndex((own) => own.key === board.start[key]));
  return { board, run, table, cell: nearest(table, places) };
}

function placesOf(board, choices) {
  const places = board.axes.map(({ options }, axis) => options.findIndex(({ key }) => key === choices[axis]));
  return choices.length === places.length && !places.includes(-1) ? places : null;
}

/** The fewest other options, then the fewest steps along the rows, then the first. */
function nearest(table, places) {
  if (table.has(table.cellOf(places))) return table.cellOf(places);
  const steps = (cell, axis) => Math.abs(places[axis] - table.option(cell, axis));
  const far = (cell) => places.reduce((sum, _, axis) => sum + (steps(cell, axis) && 1000 + steps(cell, axis)), 0);
  return [...table.order].sort((i, j) => far(i) - far(j) || i - j)[0];
}

function keysOf({ board, table }, cell) {
  return board.axes.map(({ options }, axis) => options[table.option(cell, axis)].key);
}

function accept(key, value, model) {
  const { boards } = model.get("data"), board = keyed(boards, model.get("board"));
  return {
    board: () => keyed(boards, value) !== undefined,
    run: () => keyed(board.runs, value) !== undefined,
    choices: () => placesOf(board, value) !== null,
  }[key]();
}

/** Limits that hold all given numbers and 0, and round numbers between them. */
function scale(values) {
  const finite = values.filter(Number.isFinite), spare = 0.04 * (Math.max(0, ...finite) - Math.min(0, ...finite) || 1);
  const low = Math.max(-1.02, Math.min(0, ...finite) - spare), high = Math.min(Math.max(0, ...finite) + spare, Math.max(1.02, ...finite)), raw = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(raw)), size = power * [1, 2, 5, 10].find((factor) => factor * power >= raw), ticks = [];
  for (let k = Math.ceil(low / size); k * size <= high + 1e-9; k++) ticks.push(k * size);
  return { low, high, ticks, digits: Math.max(0, -Math.floor(Math.log10(size) + 1e-9)), part: (value) => (value - low) / (high - low) };
}

const percent = (part) => `${(100 * part).toFixed(2)}%`;

/** A value with its interval on an axis; `ring` is the paper's. */
function strip(axis, kind, [mean, low, high], paper) {
  const at = (value, ...inside) => svg("svg", { x: percent(axis.part(value)), y: "50%", class: "lrp-at" }, inside);
  const zero = svg("line", { x1: percent(axis.part(0)), x2: percent(axis.part(0)), y1: 0, y2: "100%", class: "lrp-origin" });
  const span = Number.isFinite(low) ? [svg("rect", { x: percent(axis.part(low)), width: percent(axis.part(high) - axis.part(low)), y: 2, height: 18, class: "lrp-span" })] : [];
  const mark = Number.isFinite(mean) ? [at(mean, kind === "d" ? svg("circle", { r: 4.5, class: "lrp-dot" }) : svg("path", { d: MARKS[kind], class: "lrp-dot" }))] : [];
  const ring = Number.isFinite(paper) ? [at(paper, svg("circle", { r: 6, class: "lrp-paper" }))] : [];
  return svg("svg", { class: "lrp-strip", "aria-hidden": true }, zero, ring, span, mark);
}

const key = (mark) => svg("svg", { viewBox: "-7 -7 14 14", class: "lrp-glyph", "aria-hidden": true }, mark);

/** The picture that stays while the choices change: all combinations by their difference, and beneath them their options. */
function curve({ board, run, table }, axis) {
  const n = table.order.length, y = (value) => (TALL * (1 - axis.part(value))).toFixed(2);
  const lines = { above: ["", ""], across: ["", ""], below: ["", ""] };
  table.order.forEach((cell, x) => {
    const own = lines[table.sign(cell)], [mean, low, high] = [6, 7, 8].map((k) => table.value(cell, k));
    if (Number.isFinite(low)) own[0] += `M${x + 0.5} ${y(low)}V${y(high)}`;
    own[1] += `M${x} ${y(mean)}h1`;
  });
  const flat = { preserveAspectRatio: "none", "aria-hidden": true };
  const grid = axis.ticks.map((value) => svg("line", { x1: 0, x2: n, y1: y(value), y2: y(value), class: Math.abs(value) < 1e-9 ? "lrp-origin" : "lrp-rung" }));
  const bands = SIGNS.map((sign) => svg("path", { d: lines[sign][0], class: `lrp-band lrp-${sign}`, style: `stroke-width:${n > 200 ? 1 : 2}px` }));
  const means = SIGNS.map((sign) => svg("path", { d: lines[sign][1], class: `lrp-mean lrp-${sign}` }));
  const picture = svg("svg", { ...flat, viewBox: `0 0 ${n} ${TALL}`, class: "lrp-picture" }, grid, bands, means);
  const rows = board.axes.flatMap(({ options }, k) => options.map((option, place) => {
    let path = "", sum = 0, cells = 0;
    for (let x = 0, from = -1; x <= n; x++) {
      const inside = x < n && table.option(table.order[x], k) === place;
      if (inside) { sum += table.value(table.order[x], 6); cells += 1; }
      if (inside && from < 0) from = x;
      if (!inside && from >= 0) { path += `M${from} 0h${x - from}v1h${from - x}z`; from = -1; }
    }
    const tag = place ? "" : "lrp-leading", strip = svg("svg", { ...flat, viewBox: `0 0 ${n} 1`, class: `lrp-ticks ${tag}` }, svg("path", { d: path }));
    const label = h("span", { class: `lrp-option ${tag}`, "data-label": option.label }, option.label);
    return { axis: k, place, nodes: [label, strip, h("span", { class: `lrp-average ${tag}` }, cells ? signed(sum / cells, 2) : "–")] };
  }));
  return { run, picture, rows, n };
}

function render({ model, el }) {
  const { boards } = model.get("data"), live = liveLine(), memory = {};
  const go = (board, run, choices) => put(model, { board: board.key, run: run.key, choices });
  const begin = (board) => memory[board.key] ?? [board, keyed(board.runs, board.start.run), board.axes.map(({ key }) => board.start[key])];
  const tabs = boards.map((board) => h("button", { type: "button", role: "tab", onclick: () => go(...begin(board)) }, board.label));
  const stopTab = oneTabStop(tabs), panel = h("div", boards.length > 1 ? { role: "tabpanel" } : {});
  el.replaceChildren(...(boards.length > 1 ? [h("div", { class: "lrp-tabs", role: "tablist", "aria-label": "Data" }, tabs)] : []), panel, live.node);
  let shown = null, paint = null;

  /** One row of switches; each says beside its name what the difference would be there. */
  const row = (legend, options, pick) => {
    const name = `lrp-board-${row.count = (row.count ?? 0) + 1}`;
    const parts = options.map(({ key, label }) => {
      const input = h("input", { type: "radio", name, value: key, onchange: () => pick(key) }), note = h("small", {});
      return { key, input, note, node: h("label", {}, input, h("span", {}, label), note) };
    });
    const why = h("p", { class: "lrp-why" });
    const show = (chosen, tell) => {
      const missing = {};
      parts.forEach(({ key, input, note, node }, place) => {
        const { text = "", sign = "across", reason } = tell(place);
        input.checked = key === chosen;
        input.disabled = reason !== undefined;
        note.textContent = text;
        note.className = `lrp-would lrp-${sign}`;
        node.title = reason ?? "";
        if (reason) (missing[reason] ??= []).push(options[place].label);
      });
      why.textContent = Object.entries(missing).map(([reason, names]) => `${reason}: ${names.join(", ")}`).join("; ");
      why.hidden = !why.textContent;
    };
    return { node: h("fieldset", { class: "lrp-turn" }, h("legend", {}, legend), h("div", {}, parts.map(({ node }) => node), why)), show };
  };

  const build = (board) => {
    const here = () => settle(model);
    const every = board.runs.flatMap((run) => {
      const table = unpack(board, run);
      return table.order.map((cell) => Array.from({ length: 9 }, (_, k) => table.value(cell, k)));
    });
    const papers = board.runs.flatMap(({ paper }) => (paper ? [paper] : []));
    const axisR = scale([...every.flatMap((own) => own.slice(0, 6)), ...papers.flatMap(({ a, b }) => [a, b])]);
    const axisD = scale([...every.flatMap((own) => own.slice(6)), ...papers.map(({ a, b }) => a - b)]);
    const presets = board.presets.map(({ label, state }) => {
      const full = { ...board.start, ...state }, run = keyed(board.runs, full.run), choices = board.axes.map(({ key }) => full[key]);
      return { run, choices, node: h("button", { type: "button", onclick: () => go(board, run, choices) }, label) };
    });
    const runs = row("data and model", board.runs, (key) => {
      const run = keyed(board.runs, key), table = unpack(board, run), seen = here();
      go(board, run, keysOf({ board, table }, nearest(table, placesOf(board, keysOf(seen, seen.cell)))));
    });
    const rows = board.axes.map(({ label, options }, axis) => row(label, options, (key) => {
      const seen = here();
      go(board, seen.run, keysOf(seen, seen.cell).map((own, k) => (k === axis ? key : own)));
    }));

    const words = h("p", { class: "lrp-words lrp-readout" }), chosen = h("p", { class: "lrp-chosen" });
    const measures = [["a", board.a], ["b", board.b], ["d", "difference"]].map(([kind, label]) => {
      const mark = kind === "d" ? svg("circle", { r: 4.5, class: "lrp-dot" }) : svg("path", { d: MARKS[kind], class: "lrp-dot" });
      const number = h("td", {}), interval = h("td", {}), place = h("td", {});
      return { kind, number, interval, place, node: h("tr", { class: `lrp-${kind}` }, h("th", { scope: "row" }, key(mark), ` ${label}`), number, interval, place) };
    });
    const under = (axis, left, title, right) => h("tr", { class: "lrp-scale", "aria-hidden": true }, h("td", { colspan: 3 }), h("td", {}, h("div", { class: "lrp-axis-numbers" }, axis.ticks.map((value) => h("span", { style: `left:${percent(axis.part(value))}` }, tidy(value, axis.digits)))), h("div", { class: "lrp-ends" }, [left, title, right].map((text) => h("span", {}, text)))));
    const head = h("thead", {}, h("tr", {}, ["mean r with LOO", "here", "95 % interval"].map((name) => h("th", { scope: "col" }, name)), h("td", {})));
    const quote = h("span", {}), ring = h("p", { class: "lrp-quiet lrp-readout" }, key(svg("circle", { r: 5.5, class: "lrp-paper" })), quote);
    const outcome = h("table", { class: "lrp-measures" }, head, h("tbody", {}, measures[0].node, measures[1].node, under(axisR, "", "r with LOO", "")), h("tbody", {}, measures[2].node, under(axisD, `← ${board.b} nearer`, "", `${board.a} nearer →`)));

    const dot = h("i", {}), whisker = h("b", {}), line = h("u", {});
    const slider = h("div", { class: "lrp-cursor", role: "slider", tabindex: 0, "aria-valuemin": 1, "aria-label": "Combination, by its difference" }, line, whisker, dot);
    const spec = h("div", { class: "lrp-spec" }), title = h("p", { class: "lrp-heading" }), tally = h("p", { class: "lrp-tally lrp-readout" }), rank = h("figcaption", { class: "lrp-readout" });
    let drawn = null;
    const step = (place) => { const seen = here(), { order } = seen.table; go(board, seen.run, keysOf(seen, order[Math.max(0, Math.min(order.length - 1, place))])); };
    const point = (event) => { const box = slider.getBoundingClientRect(); step(Math.floor(((event.clientX - box.left) / box.width) * drawn.n)); };
    slider.addEventListener("pointerdown", (event) => { if (event.button === 0) { slider.setPointerCapture(event.pointerId); point(event); } });
    slider.addEventListener("pointermove", (event) => { if (slider.hasPointerCapture(event.pointerId)) point(event); });
    slider.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const seen = here(), now = seen.table.rank.get(seen.cell), last = drawn.n - 1, page = Math.max(2, Math.round(drawn.n / 20));
      const to = { ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1, PageUp: now + page, PageDown: now - page, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      step(to);
    });

    const redraw = (seen) => {
      drawn = curve(seen, axisD);
      const signs = seen.table.order.map(seen.table.sign), many = (sign) => count(signs.filter((own) => own === sign).length);
      const levels = h("div", { class: "lrp-rungs", "aria-hidden": true }, axisD.ticks.map((value) => h("span", { style: `top:${percent(1 - axisD.part(value))}` }, tidy(value, axisD.digits))));
      drawn.rows.forEach(({ nodes }, k) => nodes.forEach((node, column) => { node.style.gridArea = `${k + 2} / ${column + 1}`; }));
      slider.style.gridArea = `1 / 2 / span ${1 + drawn.rows.length}`;
      slider.setAttribute("aria-valuemax", drawn.n);
      spec.replaceChildren(levels, drawn.picture, h("span", { class: "lrp-average" }, "mean"), ...drawn.rows.flatMap(({ nodes }) => nodes), slider,
        h("span", { class: "lrp-way lrp-up" }, `${board.a} nearer ↑`), h("span", { class: "lrp-way lrp-down" }, `${board.b} nearer ↓`));
      title.textContent = `All ${count(drawn.n)} combinations on ${seen.run.label}, by ${board.a} minus ${board.b}`;
      tally.replaceChildren(...[["above", `${board.a} nearer in`], ["below", `${board.b} nearer in`], ["across", "interval across 0 in"]].map(([sign, text]) => h("span", { class: `lrp-${sign}` }, `${text} `, h("b", {}, many(sign)))));
    };

    panel.replaceChildren(
      ...(presets.length ? [h("div", { class: "lrp-controls lrp-presets" }, presets.map(({ node }) => node))] : []),
      h("div", { class: "lrp-board" }, runs.node, rows.map(({ node }) => node), h("p", { class: "lrp-quiet lrp-about" }, `Beside each switch: ${board.a} minus ${board.b} if only this switch is turned.`)),
      words, chosen, outcome, ring, h("figure", { class: "lrp-all" }, title, tally, spec, rank),
    );

    return (seen) => {
      const { table, cell } = seen, keys = keysOf(seen, cell), values = Array.from({ length: 9 }, (_, k) => table.value(cell, k));
      if (drawn?.run !== seen.run) redraw(seen);
      const would = (own, other) => ({ text: signed(own.value(other, 6), 2), sign: own.sign(other) });
      runs.show(seen.run.key, (k) => { const own = unpack(board, board.runs[k]); return own.has(cell) ? would(own, cell) : {}; });
      rows.forEach((own, axis) => own.show(keys[axis], (place) => {
        const other = cell + (place - table.option(cell, axis)) * table.strides[axis];
        if (table.has(other)) return would(table, other);
        const ever = table.order.some((one) => table.option(one, axis) === place);
        return { reason: ever ? "no r together with these other choices" : `not run on ${seen.run.label}` };
      }));
      presets.forEach((own) => own.node.setAttribute("aria-pressed", own.run === seen.run && own.choices.every((key, axis) => key === keys[axis])));

      const groups = { a: values.slice(3, 6), b: values.slice(0, 3), d: values.slice(6) }, { paper } = seen.run;
      const quoted = { a: paper?.a, b: paper?.b, d: paper ? paper.a - paper.b : undefined };
      const digits = groups.d.some((value) => Math.abs(value) < 0.005) ? 4 : 2, range = ([, low, high]) => (Number.isFinite(low) ? `[${tidy(low, digits)}, ${tidy(high, digits)}]` : "[no interval]");
      measures.forEach(({ kind, number, interval, place }) => {
        number.textContent = tidy(groups[kind][0], digits);
        interval.textContent = range(groups[kind]);
        place.replaceChildren(strip(kind === "d" ? axisD : axisR, kind, groups[kind], quoted[kind]));
      });
      ring.hidden = !paper;
      if (paper) quote.textContent = ` the paper (choices unknown): ${board.a} ${tidy(paper.a, 2)}, ${board.b} ${tidy(paper.b, 2)}, difference ${tidy(quoted.d, 2)}`;
      const sign = table.sign(cell), lacking = table.lacking[cell], n = seen.run.n - lacking, place = table.rank.get(cell);
      const verdict = sign === "above" ? `${board.a} is nearer to LOO` : sign === "below" ? `${board.b} is nearer to LOO` : "the interval reaches across 0";
      const sentence = `${board.a} minus ${board.b}: ${tidy(groups.d[0], digits)} ${range(groups.d)}, n = ${count(n)}${lacking ? ` (${count(lacking)} more without r)` : ""}`;
      words.replaceChildren(`${sentence}: `, h("strong", {}, verdict));
      words.className = `lrp-words lrp-readout lrp-${sign}`;
      Object.assign(words.dataset, { values: values.join(" "), n, undefined: lacking, rank: place + 1 });
      chosen.textContent = `${seen.run.label}; ${board.axes.map(({ label, options }, axis) => `${label}: ${options[table.option(cell, axis)].label}`).join("; ")}`;

      const across = percent((place + 0.5) / drawn.n), [mid, bottom, top] = groups.d.map((value) => 1 - axisD.part(value));
      line.style.left = dot.style.left = whisker.style.left = across;
      dot.style.top = `calc(var(--lrp-tall) * ${mid})`;
      whisker.hidden = !Number.isFinite(bottom);
      whisker.style.top = `calc(var(--lrp-tall) * ${top})`;
      whisker.style.height = `calc(var(--lrp-tall) * ${bottom - top})`;
      slider.className = `lrp-cursor lrp-${sign}`;
      drawn.rows.forEach((own) => own.nodes.forEach((node) => node.classList.toggle("lrp-on", table.option(cell, own.axis) === own.place)));
      const ranked = `place ${count(place + 1)} of ${count(drawn.n)} from the smallest difference`;
      rank.textContent = `The line marks this combination, ${ranked}; drag it, or use its arrow keys. Beneath the curve: which option each combination has, and the mean difference with it.`;
      slider.setAttribute("aria-valuenow", place + 1);
      slider.setAttribute("aria-valuetext", `${ranked}: ${tidy(groups.d[0], digits)}, ${verdict}`);
      live.say(`${sentence}: ${verdict}; ${ranked}`);
    };
  };

  return follow(model, ["board", "run", "choices"], () => {
    const seen = settle(model);
    if (shown !== seen.board) { shown = seen.board; paint = build(shown); }
    tabs.forEach((tab, k) => tab.setAttribute("aria-selected", boards[k] === shown));
    stopTab(tabs[boards.indexOf(shown)]);
    if (boards.length > 1) panel.setAttribute("aria-label", shown.label);
    memory[seen.board.key] = [seen.board, seen.run, keysOf(seen, seen.cell)];
    paint(seen);
  });
}

export default front({ render, accept });
