// The paths of bypassed layers next to the paper's: r with LOO layer by layer, and what the ends differ by.

/** @typedef {{ mean: (number | null)[], low: (number | null)[], high: (number | null)[] }} Curve */
/** @typedef {{ mean: number | null, low: number | null, high: number | null, side: string }} Ends */
/** @typedef {{ key: string, label: string }} Named */

/**
 * A run's numbers by protocol and path; lists have an entry per layer k, the first one's first.
 * @typedef {Named & { n: number, layers: number,
 *   cells: { [protocol: string]: { [path: string]: Curve } },
 *   levels: { [protocol: string]: (number | null)[] },
 *   ends: { [protocol: string]: { [path: string]: Ends } },
 *   paper: { [path: string]: number[] } | null, "paper ends": { [path: string]: number | null } }} Run
 */

/**
 * @typedef {{ data: { protocols: Named[], paths: Named[], levels: string[], runs: Run[] },
 *   run: string, protocol: string, path: string, layer: number }} State
 * @typedef {{ run: Run, protocol: string, path: string, layer: number }} View the state in force
 */

const FIELD = { left: 34, right: 262, top: 20, bottom: 176 }; // names of the lines stand right of it
const PAPER = "the paper's model";
const KEY = `Band: 95 % interval. Rings: ${PAPER}, Table A3, protocol unknown. ` +
  "Dotted: AttnLRP (no layer bypassed) and CP-LRP (all).";

/**
 * @param {"run" | "protocol" | "path" | "layer"} key
 * @param {string | number} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(key, value, model) {
  const { runs, protocols, paths } = model.get("data");
  if (key === "layer") return isPlace(Number(value) - 1, Math.max(...runs.map(({ layers }) => layers)));
  const rows = /** @type {Named[]} */ ({ run: runs, protocol: protocols, path: paths }[key]);
  return rows.some((row) => row.key === value);
}

/**
 * Which layers are bypassed at a step of a path.
 * @param {string} path
 * @param {number} layer
 * @param {number} last
 * @returns {string}
 */
function bypassed(path, layer, last) {
  const [from, to] = { "front-to-back": [1, layer], "back-to-front": [layer, last] }[path] ?? [layer, layer];
  return from === to ? `Layer ${from} bypassed` : `Layers ${from} to ${to} bypassed`;
}

/**
 * A mean with its interval, as the package prints it.
 * @param {number | null} mean
 * @param {number | null} low
 * @param {number | null} high
 * @param {boolean} [sign] a plus sign before what is above 0
 * @returns {string}
 */
function withInterval(mean, low, high, sign = false) {
  const value = `${sign && (mean ?? 0) > 0 ? "+" : ""}${say(mean ?? NaN)}`;
  return low === null || high === null ? value : `${value} [${say(low)}, ${say(high)}]`;
}

/**
 * Both values at the layer that is read.
 * @param {View} view
 * @returns {string}
 */
function reading({ run, protocol, path, layer }) {
  const { mean, low, high } = run.cells[protocol][path], k = layer - 1;
  const project = `r = ${withInterval(mean[k], low[k], high[k])} in this project`;
  const paper = run.paper ? `, ${say(run.paper[path][k])} in ${PAPER}` : "";
  return `${bypassed(path, layer, run.layers)}: ${project}${paper}.`;
}

/**
 * As many layers from the other end, where the path has two.
 * @param {View} view
 * @returns {string}
 */
function otherEnd({ run, protocol, path, layer }) {
  const other = path === "front-to-back" ? "back-to-front" : "front-to-back", k = run.layers + 1 - layer;
  if (path === "single") return "";
  const layers = bypassed(other, k, run.layers).replace("bypassed", "instead");
  return ` ${layers}: ${say(run.cells[protocol][other].mean[k - 1] ?? NaN)}.`;
}

/**
 * One sentence on the ends of the path: their paired difference, its side, and the paper's.
 * @param {View} view
 * @returns {string}
 */
function verdict({ run, protocol, path }) {
  const { mean, low, high, side } = run.ends[protocol][path], paper = run["paper ends"][path];
  const single = path === "single";
  const what = single
    ? `Layer ${run.layers} alone minus layer 1 alone`
    : "CP-LRP (all layers) minus AttnLRP (none)";
  const [first, second] = single
    ? [`bypassing layer ${run.layers} gives the higher r`, "bypassing layer 1 gives the higher r"]
    : ["CP-LRP is nearer to LOO", "AttnLRP is nearer to LOO"];
  const said = {
    above: `the whole interval is above 0: ${first}`,
    below: `the whole interval is below 0: ${second}`,
    across: "the interval includes 0, so this is open",
  }[side] ?? "it has no interval";
  const printed = paper === null ? "" : ` (${PAPER}: ${paper > 0 ? "+" : ""}${say(paper)})`;
  return `${what}: a paired difference of ${withInterval(mean, low, high, true)}${printed}; ${said}.`;
}

/**
 * Where layers and r lie in the picture; one scale for all paths and protocols of a run.
 * @param {Run} run
 * @returns {{ x: (layer: number) => number, y: (r: number) => number, ticks: number[], digits: number }}
 */
function scales(run) {
  const curves = Object.values(run.cells).flatMap((paths) => Object.values(paths));
  const all = [
    ...curves.flatMap(({ mean, low, high }) => [...mean, ...low, ...high]),
    ...Object.values(run.levels).flat(),
    ...Object.values(run.paper ?? {}).flat(),
  ].filter((r) => r !== null);
  const lowest = Math.min(...all), highest = Math.max(...all), margin = 0.04 * (highest - lowest) || 0.1;
  const low = lowest - margin, high = highest + margin;
  return {
    x: (layer) => FIELD.left + ((FIELD.right - FIELD.left) * (layer - 0.5)) / run.layers,
    y: (r) => FIELD.bottom - ((FIELD.bottom - FIELD.top) * (r - low)) / (high - low),
    ...roundTicks(low, high, 6),
  };
}

/**
 * A line through the defined values, an entry per layer; an undefined one breaks it.
 * @param {(number | null)[]} values
 * @param {ReturnType<typeof scales>} scale
 * @returns {string}
 */
function lineOf(values, { x, y }) {
  return values.map((r, k) => {
    if (r === null) return "";
    return `${k && values[k - 1] !== null ? "L" : "M"}${x(k + 1).toFixed(1)} ${y(r).toFixed(1)}`;
  }).join("");
}

/**
 * The band between the limits, as the corners of one shape.
 * @param {Curve} curve
 * @param {ReturnType<typeof scales>} scale
 * @returns {string}
 */
function bandOf({ low, high }, { x, y }) {
  const corner = (/** @type {number | null} */ r, /** @type {number} */ k) =>
    r === null ? [] : [`${x(k + 1).toFixed(1)},${y(r).toFixed(1)}`];
  return [...high.flatMap(corner), ...low.flatMap(corner).reverse()].join(" ");
}

/**
 * What the lines are called, at the height of their right ends and apart.
 * @param {View} view
 * @param {string[]} levels
 * @param {(r: number) => number} y
 * @returns {SVGElement[]}
 */
function namesOf({ run, protocol, path }, levels, y) {
  const ends = [
    { name: "this project", kind: `lrp-paths-${path}`, r: run.cells[protocol][path].mean.at(-1) },
    ...levels.map((name, k) => ({ name, kind: "lrp-paths-level", r: run.levels[protocol][k] })),
    ...(run.paper ? [{ name: "the paper", kind: "lrp-paths-paper", r: run.paper[path].at(-1) }] : []),
  ].flatMap(({ name, kind, r }) => (r === null || r === undefined ? [] : [{ name, kind, r, at: y(r) }]));
  return spreadLabels(ends, 13, FIELD.top, FIELD.bottom).flatMap(({ name, kind, r, at }) => [
    svg("path", { d: `M${FIELD.right} ${y(r).toFixed(1)}L${FIELD.right + 8} ${at.toFixed(1)}`, class: kind }),
    svg("text", { x: FIELD.right + 11, y: at + 4 }, name),
  ]);
}

/**
 * The grid and the numbers along both edges.
 * @param {Run} run
 * @param {ReturnType<typeof scales>} scale
 * @returns {SVGElement[]}
 */
function gridOf(run, { x, y, ticks, digits }) {
  const rows = ticks.flatMap((r) => [
    svg("line", { x1: FIELD.left, x2: FIELD.right, y1: y(r), y2: y(r), class: "lrp-paths-rung" }),
    svg("text", { x: FIELD.left - 5, y: y(r) + 4, "text-anchor": "end" }, sayTidy(r, digits)),
  ]);
  const columns = Array.from(
    { length: run.layers },
    (_, k) => svg("text", { x: x(k + 1), y: FIELD.bottom + 14, "text-anchor": "middle" }, String(k + 1)),
  );
  return [...rows, ...columns];
}

/**
 * Both curves of a path over the layers, with the layer that is read.
 * @param {string[]} levels
 * @param {(share: number) => void} point told where the reader points, from 0 at the first layer's edge to 1
 * @returns {{ node: SVGElement, paint: (view: View, label: string) => void }}
 */
function chart(levels, point) {
  const grid = svg("g", {}), names = svg("g", {}), marks = svg("g", {});
  const band = svg("polygon", {}),
    line = svg("path", {}),
    printed = svg("path", { class: "lrp-paths-paper" });
  const flat = levels.map(() => svg("path", { class: "lrp-paths-level" }));
  const now = svg("line", { y1: FIELD.top, y2: FIELD.bottom, class: "lrp-paths-now" });
  const beside = svg("text", { x: 2, y: 10 }, "mean r with LOO");
  const middle = (FIELD.left + FIELD.right) / 2;
  const under = svg("text", { x: middle, y: FIELD.bottom + 29, "text-anchor": "middle" }, "layer k");
  /** @param {PointerEvent} event */
  const at = ({ clientX }) => {
    const { left, width } = node.getBoundingClientRect(), across = ((clientX - left) / width) * 360;
    point((across - FIELD.left) / (FIELD.right - FIELD.left));
  };
  const frame = {
    viewBox: "0 0 360 208",
    role: "img",
    class: "lrp-paths-chart",
  };
  const node = svg("svg", frame, grid, band, flat, now, printed, line, marks, names, beside, under);
  followPointer(node, at, true);
  /** @param {View} view @param {string} label */
  const paint = (view, label) => {
    const { run, protocol, path, layer } = view, scale = scales(run), { x, y } = scale;
    const curve = run.cells[protocol][path], paper = run.paper?.[path] ?? [];
    grid.replaceChildren(...gridOf(run, scale));
    band.setAttribute("points", bandOf(curve, scale));
    band.setAttribute("class", `lrp-paths-band lrp-paths-${path}`);
    line.setAttribute("d", lineOf(curve.mean, scale));
    line.setAttribute("class", `lrp-paths-line lrp-paths-${path}`);
    printed.setAttribute("d", lineOf(paper, scale));
    run.levels[protocol].forEach((r, k) => {
      flat[k].setAttribute("d", r === null ? "" : `M${FIELD.left} ${y(r)}H${FIELD.right}`);
    });
    for (const end of ["x1", "x2"]) now.setAttribute(end, String(x(layer)));
    const ring = (
      /** @type {number | null | undefined} */ r,
      /** @type {number} */ k,
      /** @type {string} */ kind,
    ) =>
      r === null || r === undefined
        ? []
        : [svg("circle", { cx: x(k + 1), cy: y(r), r: k + 1 === layer ? 4.5 : 2.2, class: kind })];
    marks.replaceChildren(
      ...paper.flatMap((r, k) => ring(r, k, "lrp-paths-ring lrp-paths-paper")),
      ...curve.mean.flatMap((r, k) => ring(r, k, `lrp-paths-dot lrp-paths-${path}`)),
    );
    names.replaceChildren(...namesOf(view, levels, y));
    node.setAttribute("aria-label", label);
  };
  return { node, paint };
}

/**
 * Everything that the reader turns: run, protocol and path; `show` brings them up to date.
 * @param {Model<State>} model
 * @returns {{ node: HTMLElement, show: (view: View) => void }}
 */
function controls(model) {
  const { runs, protocols, paths } = model.get("data");
  const labels = Object.fromEntries(paths.map(({ key, label }) => [key, label]));
  const which = dropdown("Run", runs.map(sizeOf), (k) => put(model, { run: runs[k].key }));
  const names = protocols.map(({ label }) => label);
  const how = dropdown("Protocol", names, (k) => put(model, { protocol: protocols[k].key }));
  const way = choice("Path", labels, (path) => put(model, { path }));
  /** @param {View} view */
  const show = ({ run, protocol, path }) => {
    which.show(runs.indexOf(run));
    how.show(protocols.findIndex(({ key }) => key === protocol));
    way.show(path);
  };
  return { node: h("div", { class: "lrp-controls" }, which.node, how.node, way.node), show };
}

/**
 * A run's data, depth and size.
 * @param {Run} run
 * @returns {string}
 */
function sizeOf({ label, n }) {
  return `${label}, n = ${n.toLocaleString("en-US")}`;
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { runs, levels } = model.get("data"), live = liveLine(), turns = controls(model);
  const view = () => {
    const run = runs.find(({ key }) => key === model.get("run")) ?? runs[0];
    const layer = Math.min(model.get("layer"), run.layers); // a run may have fewer layers than the last one
    return { run, protocol: model.get("protocol"), path: model.get("path"), layer };
  };
  const read = (/** @type {number} */ layer) => {
    if (layer !== view().layer) put(model, { layer });
  };
  const curve = chart(levels, (share) => {
    const { layers } = view().run;
    read(Math.max(1, Math.min(layers, Math.ceil(share * layers))));
  });
  const slide = () => read(Number(slider.value));
  const slider = h("input", { type: "range", min: 1, "aria-label": "Layer k", oninput: slide });
  const readout = h("p", { class: "lrp-readout lrp-paths-said" }), said = h("p", { class: "lrp-readout" });
  const figure = h("figure", {}, curve.node, h("div", { class: "lrp-controls lrp-paths-slide" }, slider));
  const words = h("div", { class: "lrp-paths-words" }, readout, said, h("p", { class: "lrp-quiet" }, KEY));
  el.replaceChildren(turns.node, h("div", { class: "lrp-outcome" }, figure, words), live.node);
  return follow(model, ["run", "protocol", "path", "layer"], () => {
    const now = view(), here = reading(now) + otherEnd(now), judged = verdict(now);
    turns.show(now);
    slider.max = String(now.run.layers);
    slider.value = String(now.layer);
    readout.textContent = here;
    live.say(judged === said.textContent ? here : judged); // one sentence, of what has changed
    said.textContent = judged;
    curve.paint(now, `Mean r with LOO by layer k, ${sizeOf(now.run)}. ${here} ${judged}`);
  });
}

export default front({ render, accept });
