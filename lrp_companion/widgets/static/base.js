// deno-lint-ignore-file no-unused-vars -- the widgets use what is declared here
// What every front end shares: a widget's module is this text followed by its own, so all of it is in scope.
// Text from readers and data sets goes through `h` and `textContent` only, never through markup.

/**
 * @typedef {Node | string} Piece
 * @typedef {Piece | Piece[]} Child what an element holds; a list is laid flat
 * @typedef {"class" | "colspan" | "cx" | "cy" | "d" | "dir" | "fill" | "height" | "hidden" | "id" | "max"
 *   | "min" | "name" | "points" | "preserveAspectRatio" | "r" | "role" | "rx" | "scope" | "step" | "stroke"
 *   | "stroke-width" | "style" | "tabindex"
 *   | "text-anchor" | "title" | "transform" | "type" | "value" | "vector-effect"
 *   | "viewBox" | "width" | "x" | "x1" | "x2" | "y" | "y1" | "y2"
 *   | `aria-${string}` | `data-${string}`} AttributeName
 */

/**
 * Attributes by name; `true` sets an empty one, `false` and null set none. Listeners' names begin with "on".
 * @typedef {{ [Name in AttributeName]?: string | number | boolean | null }
 *   & { [Name in keyof GlobalEventHandlersEventMap as `on${Name}`]?:
 *     (event: GlobalEventHandlersEventMap[Name]) => void }} Attributes
 */

/**
 * The state as anywidget hands it over; `pageModel` takes its place in a page without a kernel.
 * @template State
 * @typedef {object} Model
 * @property {<Key extends keyof State>(key: Key) => State[Key]} get
 * @property {<Key extends keyof State>(key: Key, value: State[Key]) => void} set
 * @property {(event: string, call: () => void) => void} on
 * @property {(event: string, call: () => void) => void} off
 * @property {() => void} save_changes
 */

/**
 * @template State
 * @typedef {{ model: Model<State>, el: HTMLElement }} Place where a widget is drawn, and its state
 */

/** @typedef {number | string | boolean | number[] | string[]} Linked a value that an address can hold */

/**
 * A front end as anywidget wants it, with a guard for what the address says.
 * @typedef {object} FrontEnd
 * @property {(place: Place<any>) => (() => void)} render returns the clean-up
 * @property {(key: string, value: any, model: Model<any>) => boolean} accept
 */

/** @typedef {{ name: string, keys: string[] }} Address what a widget keeps there, by which name */

/** @typedef {{ tokens: string[], special: boolean[] }} Tokens a text in pieces; true where one is no word */

/**
 * Make an HTML element: attributes and `on...` listeners by name, text or elements inside.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
function h(tag, attributes, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (tag === "title") node.setAttribute("class", "nohighlight"); // see pages.js
  return dress(node, attributes, children);
}

/**
 * @template {Element} Kind
 * @param {Kind} node
 * @param {Attributes | undefined} attributes
 * @param {Child[]} children
 * @returns {Kind}
 */
function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, String(value));
  }
  node.append(...children.flat());
  return node;
}

/**
 * Call `paint` now and whenever one of the model's keys changes.
 * @template State
 * @param {Model<State>} model
 * @param {(keyof State & string)[]} keys
 * @param {() => void} paint
 * @returns {() => void} the clean-up
 */
function follow(model, keys, paint) {
  for (const key of keys) model.on(`change:${key}`, paint);
  paint();
  return () => keys.forEach((key) => model.off(`change:${key}`, paint));
}

/**
 * Set several keys of the model and send them to the kernel, where there is one.
 * @template State
 * @param {Model<State>} model
 * @param {Partial<State>} values
 * @returns {void}
 */
function put(model, values) {
  const pairs = /** @type {[keyof State, State[keyof State]][]} */ (Object.entries(values));
  for (const [key, value] of pairs) model.set(key, value);
  model.save_changes();
}

/**
 * Show a control in the place of another one; the focus goes along.
 * @param {HTMLElement} gone
 * @param {HTMLElement} come
 * @returns {void}
 */
function putInPlace(gone, come) {
  const held = document.activeElement === gone;
  gone.hidden = true;
  come.hidden = false;
  if (held) come.focus();
}

/**
 * A line for screen readers that speaks once the reader pauses. What it says first, when a widget comes to
 * life, is there to be read and is not announced.
 * @returns {{ node: HTMLElement, say: (text: string) => void }}
 */
function liveLine() {
  const node = h("p", { class: "lrp-hidden", "aria-live": "polite", role: "status" });
  let timer = 0, wait = 0;
  /** @param {string} text */
  const say = (text) => {
    clearTimeout(timer);
    const speak = () => {
      node.textContent = text;
    };
    if (wait) timer = setTimeout(speak, wait);
    else speak();
    wait = 350;
  };
  return { node, say };
}

/**
 * Where an arrow key, Home or End leads in a list of controls; nothing for other keys and with a modifier.
 * @param {Pick<KeyboardEvent, "key" | "altKey" | "ctrlKey" | "metaKey">} event
 * @param {number} place
 * @param {number} count
 * @returns {number | undefined}
 */
function placeAfterKey({ key, altKey, ctrlKey, metaKey }, place, count) {
  if (altKey || ctrlKey || metaKey) return undefined;
  if (key === "ArrowRight" || key === "ArrowDown") return (place + 1) % count;
  if (key === "ArrowLeft" || key === "ArrowUp") return (place - 1 + count) % count;
  return key === "Home" ? 0 : key === "End" ? count - 1 : undefined;
}

/**
 * A key press with left and right swapped where a row runs from right to left.
 * @param {KeyboardEvent} event
 * @param {Element} item
 * @returns {Pick<KeyboardEvent, "key" | "altKey" | "ctrlKey" | "metaKey">}
 */
function turned({ key, altKey, ctrlKey, metaKey }, item) {
  const swapped = item.closest("[dir=rtl]")
    ? { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[key]
    : null;
  return { key: swapped ?? key, altKey, ctrlKey, metaKey };
}

/**
 * Turn a row of controls into one tab stop: arrow keys, Home and End move inside it.
 * @param {(HTMLElement | SVGElement)[]} items
 * @returns {(chosen: HTMLElement | SVGElement) => void} picks the stop
 */
function oneTabStop(items) {
  /** @param {HTMLElement | SVGElement} chosen */
  const stop = (chosen) => {
    for (const item of items) item.tabIndex = item === chosen ? 0 : -1;
  };
  items.forEach((item, place) => {
    item.addEventListener("focus", () => stop(item));
    item.addEventListener("keydown", (event) => {
      const next = placeAfterKey(turned(/** @type {KeyboardEvent} */ (event), item), place, items.length);
      if (next === undefined) return;
      event.preventDefault();
      items[next].focus();
    });
  });
  if (items.length) stop(items[0]);
  return stop;
}

/**
 * A name for a group of radio buttons that no other group of the page has, whichever front end it belongs to.
 * @param {string} prefix
 * @returns {string}
 */
function groupName(prefix) {
  window.lrpChoices = (window.lrpChoices ?? 0) + 1;
  return `${prefix}-${window.lrpChoices}`;
}

/**
 * A labelled choice between a few options as radio buttons (one tab stop by nature); `show(value)` marks one.
 * @param {string} legend
 * @param {{ [value: string]: string }} options labels by value
 * @param {(value: string) => void} pick
 * @returns {{ node: HTMLElement, show: (chosen: string) => void }}
 */
function choice(legend, options, pick) {
  const name = groupName("lrp");
  const inputs = Object.keys(options).map((value) =>
    h("input", { type: "radio", name, value, onchange: () => pick(value) })
  );
  const labels = inputs.map((input) => h("label", {}, input, ` ${options[input.value]}`));
  const node = h("fieldset", { class: "lrp-choice" }, h("legend", {}, legend), labels);
  const show = (/** @type {string} */ chosen) => {
    for (const input of inputs) input.checked = input.value === chosen;
  };
  return { node, show };
}

/**
 * A labelled drop-down; option texts are set as text.
 * @param {string} label
 * @param {string[]} options
 * @param {(place: number) => void} pick
 * @returns {{ node: HTMLElement, show: (place: number) => void }}
 */
function dropdown(label, options, pick) {
  const texts = options.map((text) => h("option", {}, text));
  const select = h("select", { onchange: () => pick(select.selectedIndex) }, texts);
  const show = (/** @type {number} */ place) => {
    select.selectedIndex = place;
  };
  return { node: h("label", { class: "lrp-dropdown" }, `${label} `, select), show };
}

/**
 * A table's head: one row of column headers, then what follows them.
 * @param {string[]} names
 * @param {...Child} rest
 * @returns {HTMLElement}
 */
function tableHead(names, ...rest) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)), ...rest));
}

/**
 * The colour of a number in [-1, 1], as `show/palette.py` has it: blue below 0, white, orange above, mixed
 * in OKLab.
 * @param {number} value
 * @returns {string} `#rrggbb`
 */
function shade(value) {
  const clipped = Math.max(-1, Math.min(1, value)), size = Math.abs(clipped);
  const [chroma, hue] = clipped >= 0 ? [0.155, 55] : [0.14, 250];
  const light = 0.985 - 0.345 * size, angle = (hue * Math.PI) / 180;
  const a = chroma * size * Math.cos(angle), b = chroma * size * Math.sin(angle);
  const long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
  return `#${linear.map(byteInHex).join("")}`;
}

/**
 * Give an element the colour of a number in [-1, 1], on light pages and, small ones stronger, on dark ones.
 * @param {HTMLElement} node
 * @param {number | null} share null takes the colour away
 * @returns {void}
 */
function heat(node, share) {
  node.style.backgroundColor = share === null ? "" : shade(share);
  if (share === null) return void delete node.dataset.heat;
  node.dataset.heat = share < 0 ? "against" : "for";
  node.style.setProperty("--lrp-share", `${(100 * Math.min(1, Math.abs(share)) ** 0.5).toFixed(1)}%`);
}

/**
 * One channel of a colour, linear in [0, 1], as two hexadecimal digits of sRGB.
 * @param {number} linear
 * @returns {string}
 */
function byteInHex(linear) {
  const inside = Math.max(0, Math.min(1, linear));
  const srgb = inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055;
  return Math.round(255 * srgb).toString(16).padStart(2, "0");
}

/**
 * Pearson's r over the places where `keep` is true (everywhere without it); NaN where a side is constant.
 * @param {ArrayLike<number>} x
 * @param {ArrayLike<number>} y
 * @param {boolean[] | null} [keep]
 * @returns {number}
 */
function pearson(x, y, keep) {
  const places = Array.from(x, (_, i) => i).filter((i) => !keep || keep[i]);
  let meanX = 0, meanY = 0, xy = 0, xx = 0, yy = 0;
  for (const i of places) {
    meanX += x[i];
    meanY += y[i];
  }
  meanX /= places.length;
  meanY /= places.length;
  for (const i of places) {
    const fromMeanX = x[i] - meanX, fromMeanY = y[i] - meanY;
    xy += fromMeanX * fromMeanY;
    xx += fromMeanX * fromMeanX;
    yy += fromMeanY * fromMeanY;
  }
  return xx > 0 && yy > 0 ? xy / Math.sqrt(xx * yy) : NaN;
}

/**
 * r of a text that a reader typed, over the tokens that count; NaN for fewer than three, since two points
 * always lie on a line.
 * @param {ArrayLike<number>} scores
 * @param {number[]} loo
 * @param {boolean[] | null} keep
 * @returns {number}
 */
function rOf(scores, loo, keep) {
  return (keep ?? loo).filter((one) => !keep || one).length < 3 ? NaN : pearson(scores, loo, keep);
}

/**
 * The sum of a list.
 * @param {number[]} list
 * @returns {number}
 */
function sum(list) {
  return list.reduce((total, x) => total + x, 0);
}

/**
 * A number as text with the given decimals, a true minus sign, and a word where it is not defined.
 * @param {number} value
 * @param {number} [decimals]
 * @returns {string}
 */
function say(value, decimals = 2) {
  return Number.isFinite(value) ? value.toFixed(decimals).replace("-", "\u2212") : "undefined";
}

/**
 * The same without a minus sign before zeros.
 * @param {number} value
 * @param {number} decimals
 * @returns {string}
 */
function sayTidy(value, decimals) {
  return say(Math.abs(value) < 0.5 / 10 ** decimals ? 0 : value, decimals);
}

/**
 * A token's score as text, with its sign, as in `show/tokens.py`.
 * @param {number} score
 * @param {number} decimals
 * @returns {string}
 */
function sayScore(score, decimals) {
  return (score >= 0 ? "+" : "") + score.toFixed(decimals);
}

/**
 * How many decimals show the largest of these numbers to three digits: from 3 to 9, as in `show/tokens.py`.
 * @param {number[]} values
 * @returns {number}
 */
function decimalsFor(values) {
  const largest = Math.max(...values.map(Math.abs));
  if (!(largest > 0 && Number.isFinite(largest))) return 3;
  return Math.min(9, Math.max(3, 2 - Math.floor(Math.log10(largest))));
}

/**
 * Round numbers between two limits, about as many as asked for, and the decimals that they need.
 * @param {number} low
 * @param {number} high
 * @param {number} parts
 * @returns {{ ticks: number[], digits: number }}
 */
function roundTicks(low, high, parts) {
  const raw = (high - low) / parts, power = 10 ** Math.floor(Math.log10(raw));
  const size = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10), ticks = [];
  for (let k = Math.ceil(low / size); k * size <= high + 1e-9; k++) ticks.push(k * size);
  return { ticks, digits: Math.max(0, -Math.floor(Math.log10(size) + 1e-9)) };
}

/**
 * Labels at least `gap` apart, as near to where they belong as there is room from `top` to `bottom`.
 * @template {{ at: number }} Label
 * @param {Label[]} labels each with its place in pixels from the top
 * @param {number} gap
 * @param {number} top
 * @param {number} bottom
 * @returns {Label[]} from the top down
 */
function spreadLabels(labels, gap, top, bottom) {
  const sorted = labels.map((label) => ({ ...label })).sort((a, b) => a.at - b.at);
  sorted.forEach((label, k) => {
    label.at = Math.max(label.at, k ? sorted[k - 1].at + gap : top);
  });
  sorted.forEach((label, k) => {
    label.at = Math.min(label.at, bottom - gap * (sorted.length - 1 - k));
  });
  return sorted;
}

/**
 * A text's beginning for a drop-down; where only its tokens are known, word pieces joined, special ones left
 * out.
 * @param {Tokens & { text?: string }} of
 * @returns {string}
 */
function beginning({ tokens, special, text }) {
  const pieces = tokens.filter((_, i) => !special[i]).join(" ").replaceAll(" ##", "");
  const whole = visible(text || pieces);
  return whole.length > 72 ? `${whole.slice(0, 70)} …` : whole;
}

/**
 * The number that colours of scores are measured by: the largest size among the words, else among all tokens.
 * @param {number[]} scores
 * @param {boolean[]} special
 * @returns {number}
 */
function scaleOf(scores, special) {
  const sizes = scores.map(Math.abs), words = sizes.filter((_, i) => !special[i]);
  return Math.max(0, ...words) || Math.max(0, ...sizes) || 1;
}

/**
 * A text with control and direction marks spelled out, as `terminal.py` does it.
 * @param {string} text
 * @returns {string}
 */
function visible(text) {
  return text.replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = /** @type {number} */ (character.codePointAt(0)), wide = code > 0xffff, two = code < 256;
    const named = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
    return named ??
      `\\${two ? "x" : wide ? "U" : "u"}${code.toString(16).padStart(two ? 2 : wide ? 8 : 4, "0")}`;
  });
}

/**
 * The direction in which a text is read, by the first letter of its words, as `show/tokens.py` has it.
 * @param {Tokens} text
 * @returns {"rtl" | null} null for left to right
 */
function direction({ tokens, special }) {
  const [first] = tokens.filter((_, i) => !special[i]).join("").match(/\p{L}/u) ?? [""];
  const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
  return rightToLeft.test(first) ? "rtl" : null;
}

/**
 * A row of tokens: the markup of `show/tokens.py`, one tab stop, the value on hover and focus.
 * `paint(scores)` colours it; `paint(scores, of)` takes the scale of other scores.
 * @param {string[]} tokens
 * @param {boolean[]} special
 * @param {string} label
 * @returns {{ node: HTMLElement, paint: (scores: number[], of?: number[]) => void }}
 */
function tokenRow(tokens, special, label) {
  const values = tokens.map(() => h("span", { class: "lrp-value" }));
  const items = tokens.map((token, i) => h("li", {}, h("bdi", {}, visible(token)), values[i]));
  const dir = direction({ tokens, special });
  const node = h("ol", { class: "lrp-tokens", "aria-label": label, dir }, items);
  oneTabStop(items);
  /** @param {number[]} scores @param {number[]} [of] */
  const paint = (scores, of = scores) => {
    const scale = scaleOf(of, special), digits = decimalsFor(scores);
    scores.forEach((score, i) => {
      const sign = Math.abs(score) < 0.05 * scale ? "" : score > 0 ? "lrp-for" : "lrp-against";
      items[i].className = `${sign} ${special[i] ? "lrp-special" : ""}`.trim();
      heat(items[i], score / scale);
      values[i].textContent = ` ${sayScore(score, digits)}`;
    });
  };
  return { node, paint };
}

/**
 * Numbers from base64: `kind` is a typed array, little-endian as every browser's machine is.
 * @template List
 * @param {string} text
 * @param {new (buffer: ArrayBuffer) => List} kind
 * @returns {List}
 */
function numbers(text, kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new kind(bytes.buffer);
}

/**
 * Whether a value is a whole number from 0 up to, but not, a limit.
 * @param {unknown} value
 * @param {number} limit
 * @returns {value is number}
 */
function isPlace(value, limit) {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limit;
}

/**
 * Whether two values are the same as JSON.
 * @param {unknown} a
 * @param {unknown} b
 * @returns {boolean}
 */
function alike(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

// In a page without a kernel the state is next to the widget as JSON, and the address keeps what was chosen.

/**
 * A widget's module ends with `export default front({ render, accept })`. `accept(key, value, model)` guards
 * the address: it is asked about values of the kind that the key starts with, and no others.
 * @template State
 * @template {string} Key
 * @template {Linked} Value
 * @param {object} widget
 * @param {(place: Place<State>) => (() => void)} widget.render
 * @param {(key: Key, value: Value, model: Model<State>) => boolean} [widget.accept]
 * @returns {FrontEnd}
 */
function front({ render, accept }) {
  /** @param {Place<State>} place */
  const dressed = ({ model, el }) => {
    if (!el.closest(".lrp-widget")) el.classList.add("lrp-widget");
    return render({ model, el });
  };
  return { render: dressed, accept: /** @type {FrontEnd["accept"]} */ (accept ?? (() => true)) };
}

/**
 * A stand-in for the kernel's model: values and listeners.
 * @param {{ [key: string]: any }} state
 * @returns {Model<{ [key: string]: any }>}
 */
function pageModel(state) {
  /** @type {{ [event: string]: (() => void)[] }} */
  const listeners = {};
  return {
    get: (key) => state[key],
    set(key, value) {
      if (alike(state[key], value)) return;
      state[key] = value;
      for (const call of [...(listeners[`change:${key}`] ?? [])]) call();
    },
    on: (event, call) => (listeners[event] ??= []).push(call),
    off: (event, call) => {
      listeners[event] = (listeners[event] ?? []).filter((listener) => listener !== call);
    },
    save_changes() {},
  };
}

/**
 * A value as it stands in the address.
 * @param {Linked} value
 * @returns {string}
 */
function toAddress(value) {
  if (Array.isArray(value)) return value.join(",");
  return typeof value === "boolean" ? String(Number(value)) : String(value);
}

/**
 * The value of a text in the address; undefined where it is not of the kind that the widget starts with.
 * @param {string} text
 * @param {Linked} like
 * @returns {Linked | undefined}
 */
function fromAddress(text, like) {
  /** @param {string} piece */
  const number = (piece) => piece.trim() !== "" && Number.isFinite(Number(piece)) ? Number(piece) : undefined;
  if (Array.isArray(like)) {
    if (text === "") return [];
    const pieces = text.split(",");
    if (typeof like[0] === "string") return pieces;
    const list = pieces.map(number);
    return list.includes(undefined) ? undefined : /** @type {number[]} */ (list);
  }
  if (typeof like === "number") return number(text);
  if (typeof like === "boolean") return ["0", "1"].includes(text) ? text === "1" : undefined;
  return text;
}

/**
 * An address with one widget's part put first, where it leads, in place of what it said before. The other
 * parts stay; a heading's anchor stays while the widget has nothing to say.
 * @param {string} before
 * @param {string} name
 * @param {string[]} pieces
 * @returns {string}
 */
function joinAddress(before, name, pieces) {
  const others = before.split("&").filter((piece) => piece && !piece.startsWith(`${name}.`));
  return [...pieces, ...others.filter((piece) => piece.includes("=") || !pieces.length)].join("&");
}

/**
 * One part of a widget's state, as an address has it: `name.key=value`.
 * @param {Model<{ [key: string]: any }>} model
 * @param {string} name
 * @param {string} key
 * @returns {string}
 */
function piece(model, name, key) {
  const text = encodeURIComponent(toAddress(model.get(key))).replace(/\.$/, "%2E"); // cut off by programs
  return `${name}.${key}=${text.replaceAll("%2C", ",")}`;
}

/**
 * What of a widget's state is not as at the start, piece by piece.
 * @param {Model<{ [key: string]: any }>} model
 * @param {string} name
 * @param {{ [key: string]: any }} start
 * @returns {string[]}
 */
function changedPieces(model, name, start) {
  const changed = Object.keys(start).filter((key) => !alike(model.get(key), start[key]));
  return changed.map((key) => piece(model, name, key));
}

/**
 * Keep the model's linked keys and the part `#name.key=value` of the address alike, both ways.
 * @param {Model<{ [key: string]: any }>} model
 * @param {Address} address
 * @param {{ [key: string]: any }} start their values at the start
 * @param {FrontEnd["accept"]} accept
 * @param {HTMLAnchorElement} link leads to the state in force
 * @returns {() => void} the clean-up
 */
function followAddress(model, { name, keys }, start, accept, link) {
  let timer = 0;
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!keys.some((key) => given.has(`${name}.${key}`))) return; // a heading's anchor is no state
    for (const key of keys) {
      const text = given.get(`${name}.${key}`);
      const value = text === null ? start[key] : fromAddress(text, start[key]);
      if (value !== undefined && accept(key, value, model)) model.set(key, value);
    }
  };
  const address = () => joinAddress(location.hash.slice(1), name, changedPieces(model, name, start));
  const lead = () => { // at the start, too, to this widget
    link.nextElementSibling?.replaceChildren(); // "Copied." was said of another state
    const pieces = changedPieces(model, name, start);
    const said = pieces.length || !keys.length ? pieces : [piece(model, name, keys[0])];
    link.href = `#${joinAddress(location.hash.slice(1), name, said)}`;
  };
  const write = () => {
    lead();
    clearTimeout(timer);
    timer = setTimeout(() => {
      const hash = address();
      if (location.hash.slice(1) === hash) return;
      history.replaceState(history.state, "", hash ? `#${hash}` : location.pathname + location.search);
    }, 200);
  };
  read();
  addEventListener("hashchange", read); // replaceState above is silent: every event is the reader's
  const stop = follow(model, keys, lead);
  for (const key of keys) model.on(`change:${key}`, write);
  return () => {
    stop();
    removeEventListener("hashchange", read);
    clearTimeout(timer);
  };
}

/**
 * Copy a link's address, and say so.
 * @param {HTMLAnchorElement} link
 * @returns {Promise<void>}
 */
async function copyOf(link) {
  const said = link.nextElementSibling ?? h("span", { role: "status" });
  link.after(said);
  try {
    await navigator.clipboard.writeText(link.href);
    said.textContent = " Copied.";
  } catch {
    said.textContent = " This page's address leads here.";
  }
}

/**
 * Draw a widget into its place in the page, from the JSON that lies there.
 * @param {HTMLElement} host
 * @param {FrontEnd} widget
 * @returns {void}
 */
function wake(host, widget) {
  const { state, address, shared } = JSON.parse(host.querySelector("script")?.textContent ?? "");
  if (shared) state.data = window.companionData?.[shared]; // of a script that other pages load, too
  const model = pageModel(state), el = h("div");
  const link = h("a", { class: "lrp-link", onclick: () => copyOf(link) }, "Link to this state");
  const linked = address.linked ?? address.keys; // a slide's widget leaves the address alone
  const start = Object.fromEntries(linked.map((/** @type {string} */ key) => [key, model.get(key)]));
  followAddress(model, address, start, widget.accept, link);
  host.companion = { model, changed: () => changedPieces(model, address.name, start) };
  host.replaceChildren(el, ...(address.keys.length ? [h("p", { class: "lrp-foot" }, link)] : []));
  widget.render({ model, el });
  host.dataset.ready = "";
}

/**
 * Bring every widget of this kind in the page to life, each when it first comes near the window or is named
 * in the address.
 * @param {string} kind
 * @param {FrontEnd} widget
 * @returns {void}
 */
function mount(kind, widget) {
  /** @type {NodeListOf<HTMLElement>} */
  const hosts = document.querySelectorAll(`[data-companion-widget="${kind}"]`);
  for (const host of hosts) {
    const begin = () => {
      watch.disconnect();
      removeEventListener("hashchange", arrive);
      wake(host, widget);
    };
    const arrive = () => {
      const pieces = location.hash.slice(1).split("&");
      if (!pieces.some((piece) => piece.startsWith(`${host.dataset.address}.`))) return;
      begin();
      if (!pieces[0].startsWith(`${host.dataset.address}.`)) return; // the address leads to another widget
      host.tabIndex = -1; // who comes by the keyboard goes on from here
      host.focus({ preventScroll: true });
      host.scrollIntoView({ block: "start" }); // of a tall widget the controls, which stand on top
    };
    const watch = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) begin();
    }, { rootMargin: "600px" });
    watch.observe(host);
    addEventListener("hashchange", arrive);
    arrive();
  }
}
