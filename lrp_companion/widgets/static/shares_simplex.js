// A triangle of shares, and the map of a digit that they give.

/** @typedef {number[]} Shares what queries, keys and values receive: three parts of 1 */
/** @typedef {[number, number]} Point in the picture */
/** @typedef {"raw" | "sum-to-one"} Kind of map */
/** @typedef {{ label: number, predicted: number, logit: number }} Digit */
/** @typedef {"image" | "loo" | "query" | "key" | "value"} Pack a number per pixel of each digit, in base64 */

/**
 * @typedef {{ side: number, points: { [name: string]: Shares }, digits: Digit[] }
 *   & { [pack in Pack]: string }} Data
 * @typedef {{ data: Data, address: string, shares: Shares, digit: number, map: Kind }} State
 */

/**
 * r with LOO as a function of the shares, and the sum of their map; `r(shares, sign)` takes the sum's sign as
 * given.
 * @typedef {{ r: (shares: Shares, sign?: number) => number, total: (shares: Shares) => number }} Field
 */

/**
 * A digit with what does not depend on the shares.
 * @typedef {object} Scene
 * @property {Digit} digit
 * @property {number} place
 * @property {Kind} kind
 * @property {number[]} image
 * @property {number[][]} maps of queries, keys and values
 * @property {number[]} loo
 * @property {number[]} shownLoo
 * @property {number[][]} graphs the maps of the left and of the right graph
 * @property {Field} field
 */

/** @type {Pack[]} */
const FACTORS = ["query", "key", "value"];
const WORDS = ["queries", "keys", "values"];
/** @type {{ [kind in Kind]: string }} */
const KINDS = { raw: "raw", "sum-to-one": "sum to one" };
const STEPS = 30, SIDE = 280, TOP = 32, LEFT = 30; // small triangles along an edge; the large one
const TALL = (SIDE * Math.sqrt(3)) / 2;
const GREY = "#c9c9c9", INK = "#1b1b1b";
const HIGH = 0.99; // the thick level
/** @type {{ [point: string]: string }} */
const MARKS = {
  left: "M0-7 7 0 0 7-7 0Z",
  right: "M-6-6 6 6M6-6-6 6",
  flat: "M0-7V7M-7 0H7",
  CP: "M-6-6H6V6H-6Z",
};
/** @type {{ [point: string]: { dx: number, dy: number, anchor: string } }} */
const NAMES_BESIDE = {
  left: { dx: -16, dy: 5, anchor: "end" },
  right: { dx: 16, dy: 5, anchor: "start" },
  flat: { dx: 0, dy: -16, anchor: "middle" },
  CP: { dx: -11, dy: -8, anchor: "end" },
};
const ROWS = [
  "r with LOO",
  "distance to the left map (raw)",
  "distance to the right map (raw)",
  "sum of the map (raw)",
  "logit of the predicted class",
];
const HINT =
  "At a corner one of the three gets all the relevance; in between they share it. Drag the ring, press a " +
  "place, or use arrow keys: right and left trade queries with values, up and down trade " +
  "keys with both. Shift: steps of 0.1. Home: flat. Enter: next named point.";

let drawn = 0; // how many of these the page has, for ids of their own

/**
 * @param {number[]} list
 * @returns {number}
 */
function norm(list) {
  return Math.sqrt(sum(list.map((x) => x * x)));
}

/**
 * @param {number[]} a
 * @param {number[]} b
 * @returns {number}
 */
function dot(a, b) {
  return sum(a.map((x, i) => x * b[i]));
}

/**
 * The point a fraction t of the way from a to b.
 * @param {number[]} a
 * @param {number[]} b
 * @param {number} t
 * @returns {number[]}
 */
function between(a, b, t) {
  return a.map((x, i) => x + t * (b[i] - x));
}

/**
 * @param {Shares[]} corners
 * @returns {Shares}
 */
function middleOf(corners) {
  return [0, 1, 2].map((i) => sum(corners.map((corner) => corner[i])) / corners.length);
}

/**
 * @param {number[]} a
 * @param {number[]} b
 * @returns {boolean}
 */
function near(a, b) {
  return a.every((x, i) => Math.abs(x - b[i]) < 1e-6);
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
 * @param {Shares[]} corners
 * @returns {string} points of a polygon
 */
function outline(corners) {
  return corners.map((corner) => placeOf(corner).map((x) => x.toFixed(2))).join(" ");
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
 * The part of a triangle of shares where a linear function is at least 0.
 * @param {Shares[]} corners
 * @param {(shares: Shares) => number} height
 * @returns {Shares[]}
 */
function cut(corners, height) {
  return corners.flatMap((a, i) => {
    const b = corners[(i + 1) % 3], x = height(a), y = height(b);
    return [...(x >= 0 ? [a] : []), ...(x >= 0 !== y >= 0 ? [between(a, b, x / (x - y))] : [])];
  });
}

/**
 * The small triangles that fill the triangle of shares, each as three shares.
 * @returns {Shares[][]}
 */
function smallTriangles() {
  const triangles = [];
  const shares = (/** @type {Point} */ [q, k]) => [q / STEPS, k / STEPS, (STEPS - q - k) / STEPS];
  for (let k = 0; k < STEPS; k++) {
    for (let q = 0; q < STEPS - k; q++) {
      /** @type {Point[]} */
      const upright = [[q, k], [q + 1, k], [q, k + 1]];
      /** @type {Point[]} */
      const inverted = [[q + 1, k], [q + 1, k + 1], [q, k + 1]];
      triangles.push(upright.map(shares));
      if (q + k + 2 <= STEPS) triangles.push(inverted.map(shares));
    }
  }
  return triangles;
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

/**
 * What an arrow key adds to the shares; nothing for other keys.
 * @param {string} key
 * @param {number} size
 * @returns {number[] | undefined}
 */
function stepFor(key, size) {
  if (key === "ArrowRight") return [size, 0, -size];
  if (key === "ArrowLeft") return [-size, 0, size];
  if (key === "ArrowUp") return [-size / 2, size, -size / 2];
  return key === "ArrowDown" ? [size / 2, -size, size / 2] : undefined;
}

/**
 * The map at some shares: relevance is linear in them.
 * @param {number[][]} maps of queries, keys and values
 * @param {Shares} shares
 * @returns {number[]}
 */
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
  const size = (norm(a) + norm(b)) / 2;
  return size ? norm(a.map((x, i) => x - b[i])) / size : 0;
}

/**
 * r with LOO over all shares. It is linear over the root of a square form, so the pixels are needed once.
 * @param {number[][]} maps of queries, keys and values
 * @param {number[]} loo
 * @param {boolean} divides whether maps are divided by their sums, which may reverse the sign
 * @returns {Field}
 */
function fieldOf(maps, loo, divides) {
  const centred = (/** @type {number[]} */ map) => {
    const mean = sum(map) / map.length;
    return map.map((x) => x - mean);
  };
  const flats = maps.map(centred), flatLoo = centred(loo), sums = maps.map(sum);
  const square = flats.map((a) => flats.map((b) => dot(a, b))), cross = flats.map((a) => dot(a, flatLoo));
  const signOfLoo = Math.sign(sum(loo)), squareOfLoo = dot(flatLoo, flatLoo);
  const total = (/** @type {Shares} */ shares) => dot(shares, sums);
  const r = (/** @type {Shares} */ shares, sign = Math.sign(total(shares))) => {
    const squared = dot(shares, square.map((row) => dot(row, shares)));
    return ((divides ? sign * signOfLoo : 1) * dot(shares, cross)) / Math.sqrt(squared * squareOfLoo);
  };
  return { r, total };
}

/**
 * The height between two levels of r: at most about a dozen over the triangle.
 * @param {number} low
 * @param {number} high
 * @returns {number}
 */
function gapBetweenLevels(low, high) {
  return [0.01, 0.02, 0.05, 0.1].find((gap) => (high - low) / gap < 12) ?? 0.2;
}

/**
 * The levels of r that cross a small triangle, as straight lines.
 * @param {Shares[]} corners
 * @param {number[]} values r at the corners
 * @param {number} gap
 * @returns {{ height: number, path: string }[]}
 */
function levelsThrough(corners, values, gap) {
  if (!values.every(Number.isFinite)) return [];
  const heights = [HIGH];
  for (let n = Math.ceil(Math.min(...values) / gap); n * gap <= Math.max(...values); n++) {
    heights.push(n * gap);
  }
  return heights.flatMap((height) => {
    const sides = [[0, 1], [1, 2], [2, 0]].filter(([a, b]) => values[a] < height !== values[b] < height);
    const ends = sides.map(([a, b]) => {
      const t = (height - values[a]) / (values[b] - values[a]);
      return placeOf(between(corners[a], corners[b], t)).map((x) => x.toFixed(1));
    });
    return ends.length === 2 ? [{ height, path: `M${ends[0]}L${ends[1]}` }] : [];
  });
}

/**
 * @param {"shares" | "digit" | "map"} key
 * @param {number[] | number | string} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  if (Array.isArray(value)) {
    return value.length === 3 && value.every((share) => share >= 0) && Math.abs(sum(value) - 1) <= 1e-9;
  }
  return key === "map" ? Object.hasOwn(KINDS, value) : isPlace(value, model.get("data").digits.length);
}

/**
 * Draw pixels on a canvas.
 * @param {HTMLCanvasElement} canvas
 * @param {number} side
 * @param {number[]} values
 * @param {(value: number) => { colour: string, dotted: boolean }} look
 * @returns {void}
 */
function draw(canvas, side, values, look) {
  const size = 20, pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  canvas.width = canvas.height = side * size;
  values.forEach((value, i) => {
    const x = (i % side) * size, y = Math.floor(i / side) * size, { colour, dotted } = look(value);
    pen.fillStyle = colour;
    pen.fillRect(x, y, size, size);
    if (!dotted) return;
    pen.fillStyle = INK;
    pen.fillRect(x + size / 2 - 2.5, y + size / 2 - 2.5, 5, 5);
  });
}

/**
 * Draw a digit in grey.
 * @param {HTMLCanvasElement} canvas
 * @param {number} side
 * @param {number[]} image in [0, 1]
 * @returns {void}
 */
function drawDigit(canvas, side, image) {
  draw(canvas, side, image, (value) => {
    const light = Math.round(255 * (1 - value));
    return { colour: `rgb(${light},${light},${light})`, dotted: false };
  });
}

/**
 * Draw scores in their colours, with a dot on those below zero.
 * @param {HTMLCanvasElement} canvas
 * @param {number} side
 * @param {number[]} map
 * @returns {void}
 */
function drawMap(canvas, side, map) {
  const largest = Math.max(...map.map(Math.abs)) || 1;
  draw(canvas, side, map, (value) => ({
    colour: Number.isFinite(value) ? shade(value / largest) : GREY,
    dotted: value < -0.08 * largest,
  }));
}

/**
 * The digits' arrays, unpacked once.
 * @param {Data} data
 * @returns {(pack: Pack, digit: number) => number[]}
 */
function unpack(data) {
  const size = data.side * data.side;
  /** @type {Pack[]} */
  const packs = ["image", "loo", ...FACTORS];
  const arrays = Object.fromEntries(packs.map((pack) => [pack, numbers(data[pack], Float32Array)]));
  return (pack, digit) => Array.from(arrays[pack].subarray(digit * size, (digit + 1) * size));
}

/**
 * @param {Model<State>} model
 * @param {(pack: Pack, digit: number) => number[]} pixels
 * @returns {Scene}
 */
function sceneOf(model, pixels) {
  const { points, digits } = model.get("data"), place = model.get("digit"), kind = model.get("map");
  const maps = FACTORS.map((factor) => pixels(factor, place)), loo = pixels("loo", place);
  const graphs = [points.left, points.right].map((point) => mix(maps, point));
  const shownLoo = shownAs(loo, kind), field = fieldOf(maps, loo, kind !== "raw");
  return {
    digit: digits[place],
    place,
    kind,
    image: pixels("image", place),
    maps,
    loo,
    shownLoo,
    graphs,
    field,
  };
}

/**
 * r over the triangle as colours and levels. `paint` returns the range and which levels there are, in words.
 * @returns {{ node: SVGElement, paint: (scene: Scene) => string }}
 */
function fieldView() {
  const cells = smallTriangles().map((shares) => {
    return { shares, node: svg("polygon", { points: outline(shares), "stroke-width": 0.7 }) };
  });
  const level = (/** @type {string} */ kind) => svg("path", { class: `lrp-level ${kind}` });
  const levels = level(""), zero = level("lrp-zero"), high = level("lrp-high"), halves = svg("g", {});
  const node = svg("g", { role: "img" }, cells.map((cell) => cell.node), halves, levels, zero, high);
  /** @param {SVGElement} polygon @param {number} r */
  const tint = (polygon, r) => {
    const colour = Number.isFinite(r) ? shade(r) : GREY;
    polygon.setAttribute("fill", colour);
    polygon.setAttribute("stroke", colour);
  };
  /** @param {SVGElement} polygon @param {Shares[]} shares @param {Field} field */
  const tintHalves = (polygon, shares, { r, total }) => { // r jumps where the sum turns
    const [above, below] = [1, -1].map((sign) => cut(shares, (corner) => sign * total(corner)));
    const half = svg("polygon", { points: outline(below) });
    halves.append(half);
    tint(polygon, r(middleOf(above), 1));
    tint(half, r(middleOf(below), -1));
  };
  /** @param {Scene} scene */
  const paint = ({ digit, kind, field }) => {
    const values = cells.map(({ shares }) => shares.map((corner) => field.r(corner)));
    const all = values.flat().filter(Number.isFinite), low = Math.min(...all), top = Math.max(...all);
    const gap = gapBetweenLevels(low, top), paths = { zero: "", high: "", others: "" };
    halves.replaceChildren();
    cells.forEach(({ shares, node: polygon }, i) => {
      const sums = shares.map(field.total);
      if (kind !== "raw" && Math.min(...sums) < 0 && Math.max(...sums) > 0) {
        return tintHalves(polygon, shares, field);
      }
      tint(polygon, field.r(middleOf(shares)));
      for (const { height, path } of levelsThrough(shares, values[i], gap)) {
        paths[height === 0 ? "zero" : height === HIGH ? "high" : "others"] += path;
      }
    });
    levels.setAttribute("d", paths.others);
    zero.setAttribute("d", paths.zero);
    high.setAttribute("d", paths.high);
    const range = `from ${say(low)} to ${say(top)}`;
    node.setAttribute("aria-label", `r with LOO over all shares, digit ${digit.label}: ${range}`);
    if (!all.length) return "Undefined for this digit.";
    const kinds = [`a line every ${gap}`, paths.zero && "dashed at 0", paths.high && "thick at 0.99"];
    return `This digit: ${say(low)} to ${say(top)}; ${kinds.filter(Boolean).join(", ")}.`;
  };
  return { node, paint };
}

/**
 * @param {string} name
 * @returns {SVGElement}
 */
function markOf(name) {
  return svg("path", { d: MARKS[name], class: "lrp-mark", "aria-hidden": "true" });
}

/**
 * The named points in the picture, each as a mark on white ground next to its name.
 * @param {{ [name: string]: Shares }} points
 * @returns {SVGElement[]}
 */
function namedPoints(points) {
  return Object.entries(points).map(([name, point]) => {
    const [x, y] = placeOf(point), { dx, dy, anchor } = NAMES_BESIDE[name];
    const text = { x: dx, y: dy, "text-anchor": anchor, class: name === "CP" ? "" : "lrp-inside" };
    const ground = svg("circle", { r: 9.5, class: "lrp-ground" });
    return svg("g", { transform: `translate(${x} ${y})` }, ground, markOf(name), svg("text", text, name));
  });
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
    const shares = model.get("shares"), step = stepFor(event.key, event.shiftKey ? 0.1 : 0.01);
    const next = (named.findIndex((point) => near(point, shares)) + 1) % named.length;
    if (step) put(model, { shares: nearest(shares.map((share, i) => share + step[i])) });
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
 * The triangle: the field, the corners' names, the named points, and the ring to drag.
 * @param {Model<State>} model
 * @param {string} hint id of the text that says how the ring is moved
 * @returns {{ node: SVGElement, paintField: (scene: Scene) => string,
 *   paintHandle: (shares: Shares, label: string) => void }}
 */
function triangle(model, hint) {
  const field = fieldView(), handle = handleView(model, hint);
  const corner = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ anchor) =>
    svg("text", { x, y, "text-anchor": anchor, class: "" });
  const right = corner(LEFT + SIDE + 18, TOP + TALL + 25, "end"),
    top = corner(LEFT + SIDE / 2, TOP - 14, "middle");
  const corners = [right, top, corner(LEFT - 18, TOP + TALL + 25, "start")];
  const edge = `M${placeOf([1, 0, 0])}L${placeOf([0, 1, 0])}L${placeOf([0, 0, 1])}Z`;
  const frame = svg("path", { d: edge, class: "lrp-level" });
  const box = { viewBox: "0 0 340 304", role: "group", "aria-label": "Shares of relevance" };
  const node = svg(
    "svg",
    box,
    field.node,
    frame,
    corners,
    namedPoints(model.get("data").points),
    handle.node,
  );
  makeDraggable(node, handle.node, (x, y) => put(model, { shares: sharesAt(x, y) }));
  /** @param {Scene} scene */
  const paintField = (scene) => {
    corners.forEach((text, i) => {
      const only = scene.field.r([0, 1, 2].map((j) => Number(i === j)));
      text.textContent = `${WORDS[i]} only: ${say(only)}`;
    });
    return field.paint(scene);
  };
  return { node, paintField, paintHandle: handle.paint };
}

/**
 * Let a handle be dragged over a picture; a press next to it takes it there. A finger next to it may
 * scroll the page, so only its tap counts.
 * @param {SVGSVGElement} picture
 * @param {SVGElement} handle
 * @param {(x: number, y: number) => void} go
 * @returns {void}
 */
function makeDraggable(picture, handle, go) {
  /** @type {number | null} */
  let dragged = null;
  const onHandle = (/** @type {Event} */ event) => handle.contains(/** @type {Node} */ (event.target));
  const toward = (/** @type {MouseEvent} */ event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      picture.getScreenCTM()?.inverse(),
    );
    go(x, y);
  };
  const drop = (/** @type {PointerEvent} */ event) => {
    if (event.pointerId === dragged) dragged = null;
  };
  picture.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || (event.pointerType === "touch" && !onHandle(event))) return;
    dragged = event.pointerId;
    picture.setPointerCapture(dragged);
    handle.focus({ preventScroll: true });
    event.preventDefault();
    if (!onHandle(event)) toward(event);
  });
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // no scroll
  picture.addEventListener("pointermove", (event) => {
    if (event.pointerId === dragged) toward(event);
  });
  picture.addEventListener("click", (event) => {
    if (/** @type {PointerEvent} */ (event).pointerType === "touch" && !onHandle(event)) toward(event);
  });
  picture.addEventListener("pointerup", drop);
  picture.addEventListener("pointercancel", drop);
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
 * A button per named point; `show` presses the one that holds.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: (name: string | undefined) => void }}
 */
function pointButtons(model) {
  const { points } = model.get("data"), names = Object.keys(points);
  const buttons = names.map((name) => {
    const icon = svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, markOf(name));
    return h("button", { type: "button", onclick: () => put(model, { shares: points[name] }) }, icon, name);
  });
  oneTabStop(buttons);
  /** @param {string | undefined} name */
  const show = (name) => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(names[i] === name)));
  };
  return {
    node: h("div", { class: "lrp-controls", role: "group", "aria-label": "Named points" }, buttons),
    show,
  };
}

/**
 * A button per digit, and the choice between raw maps and maps over their sums.
 * @param {Model<State>} model
 * @param {(pack: Pack, digit: number) => number[]} pixels
 * @returns {{ node: HTMLElement, show: (scene: Scene) => void }}
 */
function digitControls(model, pixels) {
  const { side, digits } = model.get("data");
  const buttons = digits.map((digit, place) => {
    const picture = h("canvas", { "aria-hidden": "true" }), name = `digit ${digit.label}`;
    drawDigit(picture, side, pixels("image", place));
    const onclick = () => put(model, { digit: place });
    return h("button", { type: "button", "aria-label": name, title: name, onclick }, picture);
  });
  const stop = oneTabStop(buttons);
  const kinds = choice("Maps", KINDS, (map) => put(model, { map: /** @type {Kind} */ (map) }));
  /** @param {Scene} scene */
  const show = ({ place, kind }) => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === place)));
    stop(buttons[place]);
    kinds.show(kind);
  };
  const group = h("div", { class: "lrp-digits", role: "group", "aria-label": "Digit" }, buttons);
  return { node: h("div", { class: "lrp-controls" }, group, kinds.node), show };
}

/**
 * What stands under a map, and what is said of it in full.
 * @param {string} name
 * @param {number[]} map
 * @returns {{ short: string, long: string }}
 */
function aboutMap(name, map) {
  const least = 1e-6 * Math.max(...map.map(Math.abs)); // LOO of a black pixel is rounding
  const below = Math.round((100 * map.filter((x) => x < -least).length) / map.length);
  const total = say(sum(map)), largest = say(Math.max(...map), decimalsFor(map));
  return {
    short: `sum ${total}, ${below}\u00a0%\u00a0<\u00a00`,
    long: `${name}: sum ${total}, largest ${largest}, ${below} % of the pixels below zero`,
  };
}

/**
 * The digit, the map at the shares, and LOO.
 * @param {number} side
 * @returns {{ node: HTMLElement, paintScene: (scene: Scene) => void,
 *   paintMap: (map: number[], title: string, at: string) => void }}
 */
function pictures(side) {
  const figures = Array.from({ length: 3 }, () => {
    const canvas = h("canvas", { role: "img" }),
      title = h("strong", {}),
      under = h("span", { class: "lrp-quiet" });
    return { canvas, title, under, node: h("figure", {}, title, canvas, h("figcaption", {}, under)) };
  });
  const [digit, map, reference] = figures;
  /** @param {typeof digit} figure @param {string} title @param {{ short: string, long: string }} about */
  const caption = (figure, title, { short, long }) => {
    figure.title.textContent = title;
    figure.under.textContent = short;
    figure.canvas.setAttribute("aria-label", long);
  };
  /** @param {Scene} scene */
  const paintScene = ({ digit: { label, predicted }, image, shownLoo }) => {
    const long = `The digit ${label}; the network predicts ${predicted}`;
    drawDigit(digit.canvas, side, image);
    caption(digit, `digit ${label}`, { short: `predicted ${predicted}`, long });
    drawMap(reference.canvas, side, shownLoo);
    caption(reference, "LOO", aboutMap("LOO", shownLoo));
  };
  /** @param {number[]} scores @param {string} title @param {string} at */
  const paintMap = (scores, title, at) => {
    drawMap(map.canvas, side, scores);
    caption(map, title, aboutMap(`Map at ${at}`, scores));
  };
  return { node: h("div", { class: "lrp-maps" }, figures.map(({ node }) => node)), paintScene, paintMap };
}

/**
 * The numbers of the map at the shares, and a word where dividing by sums reverses the sign of r.
 * @returns {{ nodes: HTMLElement[], paint: (scene: Scene, measures: ReturnType<typeof measure>) => void }}
 */
function readout() {
  const cells = ROWS.map((_, i) => h("dd", { class: i ? null : "lrp-first" }));
  const terms = ROWS.map((row, i) => h("dt", { class: i ? null : "lrp-first" }, row));
  const list = h("dl", { class: "lrp-readout" }, terms.flatMap((term, i) => [term, cells[i]]));
  const turned = h("p", {});
  /** @param {Scene} scene @param {ReturnType<typeof measure>} measures */
  const paint = ({ digit: { logit }, loo }, { r, gaps, total }) => {
    [r, ...gaps, total, logit].forEach((value, i) => {
      cells[i].textContent = say(value, i > 2 ? 2 : 3);
    });
    Object.assign(list.dataset, { r, gapLeft: gaps[0], gapRight: gaps[1], sum: total, logit });
    turned.textContent = turnInWords(total < 0, sum(loo) < 0);
  };
  return { nodes: [list, turned], paint };
}

/**
 * What negative sums do to r.
 * @param {boolean} map whether the map's sum is negative
 * @param {boolean} loo whether LOO's is
 * @returns {string}
 */
function turnInWords(map, loo) {
  if (map && loo) {
    return "The sums of this map and of LOO are negative: " +
      "dividing both by their sums reverses r twice, so it stays the same.";
  }
  if (!map && !loo) return "";
  return `The sum of ${map ? "this map" : "LOO"} is negative: dividing by the sums reverses the sign of r.`;
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
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const data = model.get("data"), { points } = data, pixels = unpack(data), live = liveLine();
  const hint = `lrp-hint-${model.get("address")}-${drawn += 1}`;
  const picture = triangle(model, hint), digits = digitControls(model, pixels);
  const inputs = shareInputs(model),
    buttons = pointButtons(model),
    maps = pictures(data.side),
    facts = readout();
  const colours = [-1, -0.5, 0, 0.5, 1].map(shade).join();
  const bar = h("span", { class: "lrp-bar", style: `background: linear-gradient(90deg, ${colours})` });
  const range = h("span", {}), here = h("p", { class: "lrp-readout lrp-printed" });
  const key = h("p", { class: "lrp-quiet" }, "r with LOO: \u22121", bar, "1. ", range);
  const left = h("div", {}, picture.node, key, buttons.node);
  const right = h("div", {}, maps.node, here, inputs.node, facts.nodes);
  const foot = h("p", { class: "lrp-foot", id: hint }, HINT);
  el.append(digits.node, h("div", { class: "lrp-simplex" }, left, right), foot, live.node);

  /** @type {Scene} */
  let scene;
  const paintScene = () => {
    scene = sceneOf(model, pixels);
    digits.show(scene);
    maps.paintScene(scene);
    range.textContent = picture.paintField(scene);
    paint();
  };
  const paint = () => {
    const shares = model.get("shares"), measures = measure(scene, shares), { r, gaps, total } = measures;
    const name = Object.keys(points).find((point) => near(points[point], shares));
    const text = WORDS.map((word, i) => `${word} ${say(shares[i])}`).join(", "), { digit, kind } = scene;
    picture.paintHandle(shares, `Shares: ${name ? [text, name].join(", ") : text}`);
    buttons.show(name);
    inputs.show();
    here.textContent = (name ? `Shares (${name})` : "Shares") + `: ${text}`;
    maps.paintMap(measures.map, name ?? "mixture", text);
    facts.paint(scene, measures);
    const distances = `distance to left ${say(gaps[0])}, to right ${say(gaps[1])}`;
    const sign = total < 0 ? ", negative" : "", state = `Digit ${digit.label}, ${KINDS[kind]}, ${text}`;
    live.say(
      `${state}: r with LOO ${say(r)}, ${distances}; sum ${say(total)}${sign}, logit ${say(digit.logit)}.`,
    );
  };
  const stops = [follow(model, ["digit", "map"], paintScene), follow(model, ["shares"], paint)];
  return () => stops.forEach((stop) => stop());
}

export default front({ render, accept });
