// A triangle of shares, and the map of a digit that they give.

/** @typedef {number[]} Shares what queries, keys and values receive: three parts of 1 */
/** @typedef {[number, number]} Point in the picture */
/** @typedef {"raw" | "sum-to-one"} Kind of map */
/** @typedef {{ label: number, predicted: number, logit: number }} Digit */
/** @typedef {"image" | "loo" | "query" | "key" | "value"} Pack a number per pixel of each digit, in base64 */
/** @typedef {(pack: Pack, digit: number) => number[]} Pixels */

/**
 * @typedef {{ side: number, points: { [name: string]: Shares }, digits: Digit[] }
 *   & { [pack in Pack]: string }} Data
 * @typedef {{ data: Data, address: string, shares: Shares, digit: number, map: Kind }} State
 */

/**
 * A digit with what does not depend on the shares.
 * @typedef {object} Scene
 * @property {Digit} digit
 * @property {number} place
 * @property {Kind} kind
 * @property {number[][]} maps of queries, keys and values
 * @property {number[]} loo
 * @property {number[]} shownLoo
 * @property {number[][]} graphs the maps of the left and of the right graph
 * @property {(shares: Shares) => number} r with LOO
 * @property {boolean} conserves whether each of the maps adds up to the logit
 */

/** @type {Pack[]} */
const FACTORS = ["query", "key", "value"];
const WORDS = ["queries", "keys", "values"];
/** @type {{ [kind in Kind]: string }} */
const KINDS = { raw: "raw", "sum-to-one": "sum to one" };
const WIDE = 340, HIGH = 322, SIDE = 280, TOP = 32, LEFT = 30; // of the picture; of the triangle in it
const TALL = (SIDE * Math.sqrt(3)) / 2;
const GREY = "#c9c9c9", INK = "#1b1b1b";
const LEGEND = { wide: 96, top: 65, bottom: 76 };
const FINE = 2; // pixels to a unit of the picture
const PALE = [236, 241, 242], DEEP = [84, 133, 143]; // r: one hue that is no sign's and no method's
const ROUNDING = 1e-4; // two numbers that differ by less, over their size, are the same
/** @type {{ [point: string]: string }} */
const MARKS = {
  left: "M0-7 7 0 0 7-7 0Z",
  right: "M-6-6 6 6M6-6-6 6",
  flat: "M0-7V7M-7 0H7",
  CP: "M-6-6H6V6H-6Z",
};
/** @type {{ [point: string]: string }} */
const TITLES = { left: "Left, (QK\u1d40)V", right: "Right, Q(K\u1d40V)", flat: "Flat", CP: "CP-LRP" };
/** @type {[string, Shares, number, number, string][]} names, where, how far from there, and their anchors */
const LABELS = [
  ["all to queries: ", [1, 0, 0], LEFT, 24, "end"],
  ["all to keys: ", [0, 1, 0], 0, -14, "middle"],
  ["all to values, CP: ", [0, 0, 1], -LEFT, 24, "start"],
  ["left ", [1 / 4, 1 / 4, 1 / 2], -14, 5, "end"],
  ["right ", [1 / 2, 1 / 4, 1 / 4], 14, 5, "start"],
  ["flat ", [1 / 3, 1 / 3, 1 / 3], 0, -16, "middle"],
];
/** @type {{ [arrow: string]: number[] }} what a key adds to the shares */
const ARROWS = {
  ArrowRight: [1, 0, -1],
  ArrowLeft: [-1, 0, 1],
  ArrowUp: [-0.5, 1, -0.5],
  ArrowDown: [0.5, -1, 0.5],
};
const QUESTION = "Drag the ring from left to right. What changes, what stays?";
const HINT =
  "Drag the ring, press a place, or use arrow keys: right and left trade queries with values, up and down " +
  "trade keys with both. Shift: steps of 0.1. Home: flat. Enter: next named point.";
/** @type {{ [kind in Kind]: string }} what colours of a map say */
const SIGNS = {
  raw: "Orange speaks for the class, blue with a dot against it.",
  "sum-to-one": "Orange has the sign of the map's sum, blue with a dot the other one.",
};
const SAME_MAP = " Keys and values lead to one map in this network: only the queries' share counts.";

let drawn = 0; // how many of these the page has, for ids of their own

/** @param {number[]} a @param {number[]} b @returns {number} */
function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

/** @param {Data["points"]} points @param {Shares} shares @returns {string | undefined} a point's name */
function nameOf(points, shares) {
  return Object.keys(points).find((name) => points[name].every((x, i) => Math.abs(x - shares[i]) < 1e-6));
}

/**
 * Shares as a place in the picture: values at the left, queries at the right, keys on top.
 * @param {Shares} shares
 * @returns {Point}
 */
function placeOf([q, k]) {
  return [LEFT + SIDE * (q + k / 2), TOP + TALL * (1 - k)];
}

/**
 * The nearest shares of a place in the picture.
 * @param {number} x
 * @param {number} y
 * @returns {Shares}
 */
function sharesAt(x, y) {
  const k = 1 - (y - TOP) / TALL, q = (x - LEFT) / SIDE - k / 2;
  return nearest([q, k, 1 - q - k]);
}

/**
 * The nearest point of the simplex, to four decimals.
 * @param {number[]} given
 * @returns {Shares}
 */
function nearest(given) {
  const sorted = [...given].sort((a, b) => b - a);
  let total = 0, off = 0;
  sorted.forEach((x, i) => {
    total += x;
    if (x > (total - 1) / (i + 1)) off = (total - 1) / (i + 1);
  });
  const [q, k] = given.map((x) => Number(Math.max(0, x - off).toFixed(4)));
  return [q, k, Number(Math.max(0, 1 - q - k).toFixed(4))];
}

/**
 * The shares when one of them is set: queries and keys trade with values, values with both.
 * @param {Shares} shares
 * @param {number} i
 * @param {number} x from 0 to 1
 * @returns {Shares}
 */
function withShare([q, k], i, x) {
  const rest = 1 - x, part = q + k > 0 ? q / (q + k) : 0.5;
  if (i === 2) return [rest * part, rest * (1 - part), x];
  const [queries, keys] = i === 0 ? [x, Math.min(k, rest)] : [Math.min(q, rest), x];
  return [queries, keys, Math.max(0, 1 - queries - keys)];
}

/** @param {number[][]} maps @param {Shares} shares @returns {number[]} the map there: it is linear in them */
function mix([query, key, value], shares) {
  return query.map((x, i) => shares[0] * x + shares[1] * key[i] + shares[2] * value[i]);
}

/**
 * A map as it is shown and compared: raw, or over its sum. A sum that cancels has no size and no sign, as in
 * `metrics.normalise`.
 * @param {number[]} map
 * @param {Kind} kind
 * @returns {number[]}
 */
function shownAs(map, kind) {
  if (kind === "raw") return map;
  const total = sum(map), defined = Math.abs(total) > 1e-6 * sum(map.map(Math.abs));
  return map.map((x) => (defined ? x / total : NaN));
}

/**
 * The distance of two maps over the mean of their sizes; 0 where both are zero.
 * @param {number[]} a
 * @param {number[]} b
 * @returns {number}
 */
function gapOf(a, b) {
  const size = (Math.hypot(...a) + Math.hypot(...b)) / 2;
  return size ? Math.hypot(...a.map((x, i) => x - b[i])) / size : 0;
}

/**
 * r with LOO over all shares. It is linear over the root of a square form, so the pixels are needed once.
 * @param {number[][]} maps of queries, keys and values
 * @param {number[]} loo
 * @param {boolean} divides whether maps are divided by their sums, which may reverse the sign
 * @returns {(shares: Shares) => number}
 */
function rOver(maps, loo, divides) {
  const centred = (/** @type {number[]} */ map) => {
    const mean = sum(map) / map.length;
    return map.map((x) => x - mean);
  };
  const flats = maps.map(centred), flatLoo = centred(loo), sums = maps.map(sum);
  const square = flats.map((a) => flats.map((b) => dot(a, b))), cross = flats.map((a) => dot(a, flatLoo));
  const signOfLoo = Math.sign(sum(loo)), squareOfLoo = dot(flatLoo, flatLoo);
  return (shares) => {
    const sign = divides ? Math.sign(dot(shares, sums)) * signOfLoo : 1;
    const squared = dot(shares, square.map((row) => dot(row, shares)));
    return (sign * dot(shares, cross)) / Math.sqrt(squared * squareOfLoo);
  };
}

/** @param {number} low @param {number} high @returns {number} r from level to level: a dozen at most */
function gapBetweenLevels(low, high) {
  return [0.01, 0.02, 0.05, 0.1].find((gap) => (high - low) / gap < 12) ?? 0.2;
}

/** @param {string} key @param {any} value @param {Model<State>} model @returns {boolean} */
function accept(key, value, model) {
  if (Array.isArray(value)) {
    return value.length === 3 && value.every((share) => share >= 0) && Math.abs(sum(value) - 1) <= 1e-9;
  }
  return key === "map" ? Object.hasOwn(KINDS, value) : isPlace(value, model.get("data").digits.length);
}

/**
 * Draw numbers of at most 1 as a square of pixels, with a dot on those clearly below zero.
 * @param {HTMLCanvasElement} canvas
 * @param {number[]} values
 * @param {(value: number) => string} colour
 * @returns {void}
 */
function draw(canvas, values, colour) {
  const side = Math.sqrt(values.length), size = 20;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  canvas.width = canvas.height = side * size;
  values.forEach((value, i) => {
    const x = (i % side) * size, y = Math.floor(i / side) * size;
    pen.fillStyle = Number.isFinite(value) ? colour(value) : GREY;
    pen.fillRect(x, y, size, size);
    pen.fillStyle = INK;
    if (value < -0.08) pen.fillRect(x + size / 2 - 2.5, y + size / 2 - 2.5, 5, 5);
  });
}

/** @param {number} ink @returns {string} */
function grey(ink) {
  const light = Math.round(255 * (1 - ink));
  return `rgb(${light},${light},${light})`;
}

/** @param {HTMLCanvasElement} canvas @param {number[]} map @returns {void} */
function drawMap(canvas, map) {
  const largest = Math.max(...map.map(Math.abs)) || 1;
  draw(canvas, map.map((value) => value / largest), shade);
}

/** @param {Data} data @returns {Pixels} the digits' arrays, unpacked once */
function unpack(data) {
  const size = data.side * data.side;
  /** @type {Pack[]} */
  const packs = ["image", "loo", ...FACTORS];
  const arrays = Object.fromEntries(packs.map((pack) => [pack, numbers(data[pack], Float32Array)]));
  return (pack, digit) => Array.from(arrays[pack].subarray(digit * size, (digit + 1) * size));
}

/** @param {Model<State>} model @param {Pixels} pixels @returns {Scene} */
function sceneOf(model, pixels) {
  const { points, digits } = model.get("data"), place = model.get("digit"), kind = model.get("map");
  const maps = FACTORS.map((factor) => pixels(factor, place)), loo = pixels("loo", place);
  const digit = digits[place], size = sum(maps.flat().map(Math.abs)), shownLoo = shownAs(loo, kind);
  const graphs = [points.left, points.right].map((point) => mix(maps, point));
  const conserves = maps.every((map) => Math.abs(sum(map) - digit.logit) <= ROUNDING * size);
  return { digit, place, kind, maps, loo, shownLoo, graphs, conserves, r: rOver(maps, loo, kind !== "raw") };
}

/** @returns {Shares[]} in even steps over the whole triangle */
function grid() {
  const steps = Array.from({ length: 31 }, (_, i) => i);
  return steps.flatMap((k) => steps.slice(0, 31 - k).map((q) => [q / 30, k / 30, (30 - q - k) / 30]));
}

/**
 * r at every pixel of the picture, row by row: of the shares there, in the legend from the least to the most,
 * elsewhere undefined.
 * @param {(shares: Shares) => number} r
 * @param {number} low
 * @param {number} high
 * @returns {Float32Array}
 */
function heights(r, low, high) {
  return Float32Array.from({ length: WIDE * HIGH * FINE ** 2 }, (_, i) => {
    const x = (i % (WIDE * FINE) + 0.5) / FINE, y = Math.floor(i / (WIDE * FINE)) / FINE;
    if (x < LEGEND.wide && y > LEGEND.top && y < LEGEND.bottom) return low + (high - low) * x / LEGEND.wide;
    const k = 1 - (y - TOP) / TALL, q = (x - LEFT) / SIDE - k / 2;
    return k < 0 || q < 0 || k + q > 1 ? NaN : r([q, k, 1 - q - k]);
  });
}

/**
 * Draw r over the triangle, and the legend: a colour at every pixel, a line at every level, a thick one at 0.
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} values at every pixel
 * @param {{ low: number, high: number, gap: number }} scale
 * @returns {void}
 */
function drawField(canvas, values, { low, high, gap }) {
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), wide = WIDE * FINE;
  const picture = pen.createImageData(canvas.width = wide, canvas.height = HIGH * FINE);
  /** @param {number} i @param {number} size @param {number} width */
  const line = (i, size, width) => {
    const here = Math.floor(values[i] / size), right = values[i + width], below = values[i + width * wide];
    return Math.abs(Math.floor(right / size) - here) > 0 || Math.abs(Math.floor(below / size) - here) > 0;
  };
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) continue;
    const t = high > low ? (values[i] - low) / (high - low) : 1;
    const inked = line(i, gap, 2) || line(i, 2, 5); // all of r's size is less than 2: this one parts signs
    for (let n = 0; n < 3; n++) picture.data[4 * i + n] = inked ? 27 : PALE[n] + t * (DEEP[n] - PALE[n]);
    picture.data[4 * i + 3] = 255;
  }
  pen.putImageData(picture, 0, 0);
}

/**
 * r over the triangle as colours and levels, with a legend. `paint` returns which levels there are, in words.
 * @returns {{ canvas: HTMLCanvasElement, legend: SVGElement, paint: (scene: Scene) => string }}
 */
function fieldView() {
  const canvas = h("canvas", { role: "img" }), y = LEGEND.bottom + 16;
  const least = svg("text", { y }), most = svg("text", { x: LEGEND.wide, y, "text-anchor": "end" });
  const title = svg("text", { y: LEGEND.top - 7 }, "r with LOO");
  const legend = svg("g", { class: "lrp-legend" }, title, least, most);
  /** @param {Scene} scene */
  const paint = ({ digit, r }) => {
    const known = grid().map(r).filter(Number.isFinite), low = Math.min(...known), high = Math.max(...known);
    const gap = gapBetweenLevels(low, high), range = `from ${say(low)} to ${say(high)}`;
    drawField(canvas, heights(r, low, high), { low, high, gap });
    least.textContent = say(low);
    most.textContent = say(high);
    canvas.setAttribute("aria-label", `r with LOO over all shares, digit ${digit.label}: ${range}`);
    if (!known.length) return "r is undefined for this digit.";
    return `A line every ${gap}${low < 0 && high > 0 ? ", thick at 0" : ""}.`;
  };
  return { canvas, legend, paint };
}

/** @param {string} name @returns {SVGElement} */
function markOf(name) {
  return svg("path", { d: MARKS[name], class: "lrp-mark", "aria-hidden": "true" });
}

/**
 * The ring that the reader moves by arrow keys; Home and Enter go to named points.
 * @param {Model<State>} model
 * @param {string} hint id of the text that says so
 * @returns {{ node: SVGElement, paint: (shares: Shares, label: string) => void }}
 */
function handleView(model, hint) {
  const { points } = model.get("data"), named = Object.values(points);
  const move = (/** @type {KeyboardEvent} */ event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const shares = model.get("shares"), step = ARROWS[event.key], size = event.shiftKey ? 0.1 : 0.01;
    const next = (Object.keys(points).indexOf(nameOf(points, shares) ?? "") + 1) % named.length;
    if (step) put(model, { shares: nearest(shares.map((share, i) => share + size * step[i])) });
    else if (event.key === "Home") put(model, { shares: points.flat });
    else if (event.key === "Enter" || event.key === " ") put(model, { shares: named[next] });
    else return;
    event.preventDefault();
  };
  const spoken = { role: "button", "aria-roledescription": "movable point", "aria-describedby": hint };
  const rings = ["", "lrp-halo", "lrp-ring"].map((kind, i) =>
    svg("circle", { r: i ? 10 : 20, class: kind || null })
  );
  const node = svg("g", { class: "lrp-handle", ...spoken, tabindex: 0, onkeydown: move }, rings);
  /** @param {Shares} shares @param {string} label */
  const paint = (shares, label) => {
    node.setAttribute("transform", `translate(${placeOf(shares)})`);
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

/**
 * The triangle: r as colours, the names, and the ring to drag. `paintField` returns what lines there are.
 * @param {Model<State>} model
 * @param {string} hint id of the text that says how the ring is moved
 * @returns {{ node: HTMLElement, paintField: (scene: Scene) => string,
 *   paintHandle: (shares: Shares, label: string) => void }}
 */
function triangle(model, hint) {
  const { points } = model.get("data"), field = fieldView(), handle = handleView(model, hint);
  const corners = [[1, 0], [0, 1], [0, 0]].map(placeOf);
  const frame = svg("polygon", { points: corners.join(" "), class: "lrp-edge" });
  const marks = Object.entries(points).map(([name, point]) => {
    const ground = svg("circle", { r: 9.5, class: "lrp-ground" });
    return svg("g", { transform: `translate(${placeOf(point)})` }, ground, markOf(name));
  });
  const texts = LABELS.map(([name, shares, right, down, anchor]) => {
    const [x, y] = [placeOf(shares)[0] + right, placeOf(shares)[1] + down];
    const r = svg("tspan", down === 24 ? { x, y: y + 17 } : {}); // at the foot, a line of its own
    return { r, node: svg("text", { x, y, "text-anchor": anchor }, name, r) };
  });
  const box = { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": "Shares of relevance" };
  const picture = svg("svg", box, frame, field.legend, texts.map(({ node }) => node), marks, handle.node);
  makeDraggable(picture, handle.node, (x, y) => put(model, { shares: sharesAt(x, y) }));
  /** @param {Scene} scene */
  const paintField = (scene) => {
    LABELS.forEach(([name, shares], i) => {
      texts[i].r.textContent = (name.includes(":") ? "r " : "") + say(scene.r(shares));
    });
    return field.paint(scene);
  };
  const node = h("div", { class: "lrp-triangle" }, field.canvas, picture);
  return { node, paintField, paintHandle: handle.paint };
}

/**
 * Let a handle be dragged over a picture; a press next to it takes it there. A finger may scroll the page:
 * next to the handle only its tap counts, and on it a stroke up or down scrolls until it has the focus.
 * @param {SVGSVGElement} picture
 * @param {SVGElement} handle
 * @param {(x: number, y: number) => void} go
 * @returns {void}
 */
function makeDraggable(picture, handle, go) {
  const onHandle = (/** @type {Event} */ event) => handle.contains(/** @type {Node} */ (event.target));
  const take = () => handle.focus({ preventScroll: true });
  /** @type {PointerEvent | null} a finger's first touch, while it may still mean to scroll */
  let first = null, held = false; // the browser gives a finger to the picture, pressed on the handle or not
  const toward = (/** @type {MouseEvent} */ event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      picture.getScreenCTM()?.inverse(),
    );
    go(x, y);
  };
  picture.addEventListener("pointerdown", (event) => {
    const touch = event.pointerType === "touch";
    if (event.button !== 0 || (touch && !onHandle(event))) return;
    picture.setPointerCapture(event.pointerId);
    held = true;
    first = touch && !handle.matches(":focus") ? event : null;
    if (!touch) take();
    event.preventDefault();
    if (!onHandle(event)) toward(event);
  });
  handle.addEventListener("touchmove", (event) => {
    if (!first && event.cancelable) event.preventDefault();
  }, { passive: false });
  picture.addEventListener("pointermove", (event) => {
    if (!held) return;
    const { clientX, clientY } = first ?? event;
    if (first && Math.abs(event.clientX - clientX) <= Math.abs(event.clientY - clientY)) return;
    first = null;
    toward(event);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    picture.addEventListener(kind, () => {
      held = false;
      if (kind === "pointerup") take();
    });
  }
  picture.addEventListener("click", (event) => {
    if (/** @type {PointerEvent} */ (event).pointerType !== "touch") return;
    take();
    if (!onHandle(event)) toward(event);
  });
}

/**
 * Number inputs for the three shares. What is no number is set back.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: () => void }}
 */
function shareInputs(model) {
  const read = (/** @type {number} */ i) => {
    const { value } = inputs[i], given = value === "" ? NaN : Number(value);
    if (Number.isFinite(given)) {
      put(model, { shares: withShare(model.get("shares"), i, Math.max(0, Math.min(1, given))) });
    }
    show();
  };
  const limits = { type: "number", min: 0, max: 1, step: 0.01 };
  const inputs = WORDS.map((_, i) => h("input", { ...limits, onchange: () => read(i) }));
  const show = () =>
    inputs.forEach((input, i) => {
      input.value = String(Number(model.get("shares")[i].toFixed(4)));
    });
  const labels = inputs.map((input, i) => h("label", {}, `${WORDS[i]} `, input));
  return { node: h("div", { class: "lrp-controls lrp-shares" }, labels), show };
}

/**
 * A row of buttons, one tab stop; `show` presses one of them.
 * @param {string} label
 * @param {HTMLButtonElement[]} buttons
 * @returns {{ node: HTMLElement, show: (chosen: number) => void }}
 */
function buttonRow(label, buttons) {
  const stop = oneTabStop(buttons);
  const show = (/** @type {number} */ chosen) => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    if (buttons[chosen]) stop(buttons[chosen]);
  };
  return { node: h("div", { class: "lrp-controls", role: "group", "aria-label": label }, buttons), show };
}

/** @param {Model<State>} model @returns {HTMLButtonElement[]} */
function pointButtons(model) {
  return Object.entries(model.get("data").points).map(([name, shares]) => {
    const icon = svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, markOf(name));
    return h("button", { type: "button", onclick: () => put(model, { shares }) }, icon, name);
  });
}

/** @param {Model<State>} model @param {Pixels} pixels @returns {HTMLButtonElement[]} */
function digitButtons(model, pixels) {
  return model.get("data").digits.map(({ label }, digit) => {
    const picture = h("canvas", { "aria-hidden": "true" }), name = `digit ${label}`;
    draw(picture, pixels("image", digit), grey);
    const onclick = () => put(model, { digit });
    return h("button", { type: "button", "aria-label": name, title: name, onclick }, picture);
  });
}

/** @param {string} name @param {number[]} map @returns {string} what is said of a map in full */
function aboutMap(name, map) {
  const least = 1e-6 * Math.max(...map.map(Math.abs)); // LOO of a black pixel is rounding
  const below = Math.round((100 * map.filter((x) => x < -least).length) / map.length);
  const largest = say(Math.max(...map), decimalsFor(map));
  return `${name}: sum ${say(sum(map))}, largest ${largest}, ${below} % of the pixels below zero`;
}

/**
 * The digit, the map at the shares, and LOO.
 * @returns {{ node: HTMLElement, paintScene: (scene: Scene, image: number[]) => void,
 *   paintMap: (map: number[], title: string, at: string) => void }}
 */
function pictures() {
  const figures = ["", "at the ring", "a pixel left out"].map((under) => {
    const canvas = h("canvas", { role: "img" }), title = h("strong", {});
    const caption = h("figcaption", {}, under), node = h("figure", {}, title, canvas, caption);
    return { canvas, title, caption, node };
  });
  const [digit, map, reference] = figures;
  /** @param {typeof digit} figure @param {string} title @param {string} long */
  const name = (figure, title, long) => {
    figure.title.textContent = title;
    figure.canvas.setAttribute("aria-label", long);
  };
  /** @param {Scene} scene @param {number[]} image */
  const paintScene = ({ digit: { label, predicted }, shownLoo }, image) => {
    draw(digit.canvas, image, grey);
    name(digit, `digit ${label}`, `The digit ${label}; the network predicts ${predicted}`);
    digit.caption.textContent = `predicted ${predicted}`;
    drawMap(reference.canvas, shownLoo);
    name(reference, "LOO", aboutMap("LOO", shownLoo));
  };
  /** @param {number[]} scores @param {string} title @param {string} at */
  const paintMap = (scores, title, at) => {
    drawMap(map.canvas, scores);
    name(map, title, aboutMap(`Map at ${at}`, scores));
  };
  return { node: h("div", { class: "lrp-maps" }, figures.map(({ node }) => node)), paintScene, paintMap };
}

/**
 * The numbers of the map at the shares.
 * @param {HTMLElement} list
 * @param {Scene} scene
 * @param {ReturnType<typeof measure>} measures
 * @returns {void}
 */
function writeNumbers(list, { digit: { logit }, loo }, { r, gaps: [left, right], total }) {
  const rows = {
    "r with LOO": say(r, 3),
    "distance to the left map (raw)": say(left, 3),
    "distance to the right map (raw)": say(right, 3),
    "sum of the map (raw)": say(total),
    "sum of LOO (raw)": say(sum(loo)),
    "logit of the predicted class": say(logit),
  };
  list.replaceChildren(
    ...Object.entries(rows).flatMap(([row, text]) => [h("dt", {}, row), h("dd", {}, text)]),
  );
  Object.assign(list.dataset, { r, gapLeft: left, gapRight: right, sum: total, logit });
}

/**
 * What negative sums do to r.
 * @param {boolean} map whether the map's sum is negative
 * @param {boolean} loo whether LOO's is
 * @returns {string}
 */
function turnInWords(map, loo) {
  if (!map && !loo) return "";
  const whose = map && loo ? "this map and that of LOO are" : map ? "this map is" : "LOO is";
  const effect = map && loo ? "reverses r twice, so it stays the same" : "reverses the sign of r";
  return `The sum of ${whose} negative: dividing by the sums ${effect}.`;
}

/**
 * The map at the shares, its r with LOO, its distance to both graphs' maps, and its sum.
 * @param {Scene} scene
 * @param {Shares} shares
 * @returns {{ map: number[], r: number, gaps: number[], total: number }}
 */
function measure({ maps, graphs, kind, shownLoo }, shares) {
  const raw = mix(maps, shares), map = shownAs(raw, kind);
  return { map, r: pearson(map, shownLoo), gaps: graphs.map((graph) => gapOf(raw, graph)), total: sum(raw) };
}

/**
 * The state in one line: the shares, r with LOO, and what the map adds up to.
 * @param {Scene} scene
 * @param {string} spread where the ring is
 * @param {ReturnType<typeof measure>} measures
 * @returns {string}
 */
function inWords({ digit: { logit }, kind, conserves }, spread, { map, r, total }) {
  const size = sayTidy(total, 2);
  /** @returns {string} */
  const sums = () => {
    if (!map.every(Number.isFinite)) return "the sum of the map cancels, so nothing can be divided by it";
    if (kind !== "raw") return `divided by its sum, ${size}, the map adds up to 1`;
    if (conserves) return `the map adds up to the logit, ${size}, as every point does`;
    return `the map adds up to ${size}; the logit is ${sayTidy(logit, 2)}`;
  };
  return `${spread}. r with LOO ${say(r)}; ${sums()}.`;
}

/** @param {Place<State>} place @returns {() => void} */
function render({ model, el }) {
  const data = model.get("data"), { points } = data, pixels = unpack(data), live = liveLine();
  const hint = `lrp-hint-${model.get("address")}-${drawn += 1}`;
  const picture = triangle(model, hint), inputs = shareInputs(model), maps = pictures();
  const named = buttonRow("Named points", pointButtons(model));
  const digits = buttonRow("Digit", digitButtons(model, pixels));
  const kinds = choice("Maps", KINDS, (map) => put(model, { map: /** @type {Kind} */ (map) }));
  const same = data.digits.every((_, i) => gapOf(pixels("key", i), pixels("value", i)) <= ROUNDING);
  const lines = h("span", {}), key = h("p", { class: "lrp-quiet" }, lines, same ? SAME_MAP : "");
  const facts = h("dl", { class: "lrp-readout" });
  const more = h("details", { class: "lrp-more" }, h("summary", {}, "More numbers"), inputs.node, facts);
  const signs = h("p", { class: "lrp-quiet" }), turned = h("p", {});
  const said = h("p", { class: "lrp-readout lrp-said" });
  el.append(
    h("p", {}, h("strong", {}, QUESTION)),
    said,
    h(
      "div",
      { class: "lrp-simplex" },
      h("div", {}, picture.node, key, named.node),
      h("div", {}, digits.node, kinds.node, maps.node, signs, turned, more),
    ),
    h("p", { class: "lrp-foot", id: hint }, HINT),
    live.node,
  );

  /** @type {Scene} */
  let scene;
  const paintScene = () => {
    scene = sceneOf(model, pixels);
    digits.show(scene.place);
    kinds.show(scene.kind);
    signs.textContent = SIGNS[scene.kind];
    maps.paintScene(scene, pixels("image", scene.place));
    lines.textContent = picture.paintField(scene);
    paint();
  };
  const paint = () => {
    const shares = model.get("shares"), measures = measure(scene, shares), name = nameOf(points, shares);
    const text = WORDS.map((word, i) => `${word} ${say(shares[i])}`).join(", ");
    picture.paintHandle(shares, `Shares: ${name ? [text, name].join(", ") : text}`);
    named.show(Object.keys(points).indexOf(name ?? ""));
    inputs.show();
    maps.paintMap(measures.map, name ?? "mixture", text);
    writeNumbers(facts, scene, measures);
    turned.textContent = turnInWords(measures.total < 0, sum(scene.loo) < 0);
    const spread = `${name ? TITLES[name] : "At the ring"}: ${text.replace(" ", " get ")} of the relevance`;
    live.say(said.textContent = inWords(scene, spread, measures));
  };
  const stops = [follow(model, ["digit", "map"], paintScene), follow(model, ["shares"], paint)];
  return () => stops.forEach((stop) => stop());
}

export default front({ render, accept });
