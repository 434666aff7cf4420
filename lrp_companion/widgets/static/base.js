// What every front end shares. A widget's module is this text followed by its own, so these are plain functions in its scope.
// Text from readers and data sets goes through `h` and `textContent` only, never through markup.

/** Make an HTML element: properties and attributes by name, `on...` listeners, text or elements inside. */
function h(tag, attributes, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function svg(tag, attributes, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat());
  return node;
}

/** Call `paint` now and whenever one of the model's keys changes; returns the clean-up. */
function follow(model, keys, paint) {
  for (const key of keys) model.on(`change:${key}`, paint);
  paint();
  return () => keys.forEach((key) => model.off(`change:${key}`, paint));
}

/** Set several keys of the model and send them to the kernel, where there is one. */
function put(model, values) {
  for (const [key, value] of Object.entries(values)) model.set(key, value);
  model.save_changes();
}

/** A line for screen readers that speaks once the reader pauses. */
function liveLine() {
  const node = h("p", { class: "lrp-hidden", "aria-live": "polite", role: "status" });
  let timer = 0;
  const say = (text) => {
    clearTimeout(timer);
    timer = setTimeout(() => { node.textContent = text; }, 350);
  };
  return { node, say };
}

/** Turn a row of controls into one tab stop: arrow keys, Home and End move inside it. Returns a function that picks the stop. */
function oneTabStop(items) {
  const stop = (chosen) => items.forEach((item) => { item.tabIndex = item === chosen ? 0 : -1; });
  items.forEach((item, place) => {
    item.addEventListener("focus", () => stop(item));
    item.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const to = step ? (place + step + items.length) % items.length : { Home: 0, End: items.length - 1 }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      items[to].focus();
    });
  });
  if (items.length) stop(items[0]);
  return stop;
}

/** A labelled choice between a few options as radio buttons (one tab stop by nature); `show(value)` marks one. */
function choice(legend, options, pick) {
  const name = `lrp-${window.lrpChoices = (window.lrpChoices ?? 0) + 1}`; // one count for all front ends of a page
  const inputs = Object.entries(options).map(([value, label]) => {
    const input = h("input", { type: "radio", name, value, onchange: () => pick(value) });
    return [value, input, h("label", {}, input, ` ${label}`)];
  });
  const node = h("fieldset", { class: "lrp-choice" }, h("legend", {}, legend), inputs.map(([, , label]) => label));
  return { node, show: (chosen) => inputs.forEach(([value, input]) => { input.checked = value === String(chosen); }) };
}

/** A labelled drop-down; option texts are set as text. */
function dropdown(label, options, pick) {
  const select = h("select", { onchange: () => pick(select.selectedIndex) }, options.map((text) => h("option", {}, text)));
  return { node: h("label", { class: "lrp-dropdown" }, `${label} `, select), show: (place) => { select.selectedIndex = place; } };
}

/** The colour of a number in [-1, 1], as `views/palette.py` has it: blue below 0, white, orange above, mixed in OKLab. */
function shade(value) {
  const v = Math.max(-1, Math.min(1, value)), size = Math.abs(v);
  const [chroma, hue] = v >= 0 ? [0.155, 55] : [0.14, 250];
  const light = 0.985 - 0.345 * size, turn = (hue * Math.PI) / 180;
  const a = chroma * size * Math.cos(turn), b = chroma * size * Math.sin(turn);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return `#${linear.map((c) => {
    const x = Math.max(0, Math.min(1, c));
    return Math.round(255 * (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055)).toString(16).padStart(2, "0");
  }).join("")}`;
}

/** Pearson's r over the places where `keep` is true (everywhere without it); NaN where a side is constant. */
function pearson(x, y, keep) {
  let n = 0, mx = 0, my = 0;
  for (let i = 0; i < x.length; i++) if (!keep || keep[i]) { n++; mx += x[i]; my += y[i]; }
  mx /= n; my /= n;
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < x.length; i++) if (!keep || keep[i]) { const a = x[i] - mx, b = y[i] - my; xy += a * b; xx += a * a; yy += b * b; }
  return xx > 0 && yy > 0 ? xy / Math.sqrt(xx * yy) : NaN;
}

/** A number as text with so many decimals, a true minus sign, and a word where it is not defined. */
function say(value, decimals = 2) {
  return Number.isFinite(value) ? value.toFixed(decimals).replace("-", "\u2212") : "undefined";
}

/** How many decimals show the largest of these numbers to three digits: from 3 to 9, as in `views/tokens.py`. */
function decimalsFor(values) {
  const largest = Math.max(...values.map(Math.abs));
  return largest > 0 && Number.isFinite(largest) ? Math.min(9, Math.max(3, 2 - Math.floor(Math.log10(largest)))) : 3;
}

/** A row of tokens, coloured by `paint(scores)`: the markup of `views/tokens.py`, one tab stop, the value on hover and focus.
 * `paint(scores, of)` takes the scale of other scores. */
function tokenRow(tokens, special, label) {
  const values = tokens.map(() => h("span", { class: "lrp-value" }));
  const items = tokens.map((token, i) => h("li", {}, h("bdi", {}, token), values[i]));
  const node = h("ol", { class: "lrp-tokens", "aria-label": label }, items);
  oneTabStop(items);
  const paint = (scores, of = scores) => {
    const list = Array.from(scores), sizes = Array.from(of, Math.abs), words = sizes.filter((_, i) => !special[i]);
    const scale = Math.max(0, ...words) || Math.max(0, ...sizes) || 1, digits = decimalsFor(list);
    list.forEach((score, i) => {
      const sign = Math.abs(score) < 0.05 * scale ? "" : score > 0 ? "lrp-for" : "lrp-against";
      const text = (score >= 0 ? "+" : "") + score.toFixed(digits);
      items[i].className = `${sign} ${special[i] ? "lrp-special" : ""}`.trim();
      items[i].style.backgroundColor = shade(score / scale);
      values[i].textContent = ` ${text}`;
    });
  };
  return { node, paint };
}

/** Numbers from base64: `kind` is a typed array, little-endian as every browser's machine is. */
function numbers(text, kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new kind(bytes.buffer);
}

// -- in a page without a kernel: the state lies beside the widget as JSON, and what the reader chose survives in the address --

/** A widget's module ends with `export default front({ render, accept })`; `accept(key, value, model)` guards the address. */
function front({ render, accept }) {
  const dressed = ({ model, el }) => {
    if (!el.closest(".lrp-widget")) el.classList.add("lrp-widget");
    return render({ model, el });
  };
  return { render: dressed, accept: accept ?? (() => true) };
}

/** A stand-in for the kernel's model: values and listeners. */
function pageModel(state) {
  const listeners = {};
  return {
    get: (key) => state[key],
    set(key, value) {
      if (JSON.stringify(state[key]) === JSON.stringify(value)) return;
      state[key] = value;
      for (const call of [...(listeners[`change:${key}`] ?? [])]) call();
    },
    on: (event, call) => (listeners[event] ??= []).push(call),
    off: (event, call) => { listeners[event] = (listeners[event] ?? []).filter((own) => own !== call); },
    save_changes() {},
  };
}

/** A value as it stands in the address, and back; what is not of the kind that the widget starts with is dropped. */
function toAddress(value) {
  return Array.isArray(value) ? value.join(",") : typeof value === "boolean" ? String(Number(value)) : String(value);
}

function fromAddress(text, like) {
  const number = (piece) => (piece.trim() !== "" && Number.isFinite(Number(piece)) ? Number(piece) : undefined);
  if (Array.isArray(like)) {
    const list = text === "" ? [] : text.split(",").map(typeof like[0] === "string" ? String : number);
    return list.includes(undefined) ? undefined : list;
  }
  if (typeof like === "number") return number(text);
  if (typeof like === "boolean") return ["0", "1"].includes(text) ? text === "1" : undefined;
  return text;
}

/** Keep the model's linked keys and the part `#name.key=value` of the address alike, both ways; returns the clean-up. */
function followAddress(model, { name, keys }, accept, link) {
  const start = Object.fromEntries(keys.map((key) => [key, model.get(key)]));
  let timer = 0;
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!keys.some((key) => given.has(`${name}.${key}`))) return false; // a heading's anchor is no state
    for (const key of keys) {
      const text = given.get(`${name}.${key}`);
      const value = text === null ? start[key] : fromAddress(text, start[key]);
      if (value !== undefined && accept(key, value, model)) model.set(key, value);
    }
    return true;
  };
  const same = (key) => JSON.stringify(model.get(key)) === JSON.stringify(start[key]);
  const address = () => {
    const mine = keys.filter((key) => !same(key)).map((key) => `${name}.${key}=${encodeURIComponent(toAddress(model.get(key))).replaceAll("%2C", ",")}`);
    const keep = (piece) => piece && !piece.startsWith(`${name}.`) && (piece.includes("=") || !mine.length);
    return [...location.hash.slice(1).split("&").filter(keep), ...mine].join("&");
  };
  const write = () => {
    link.href = `#${address()}`;
    clearTimeout(timer);
    timer = setTimeout(() => {
      const own = address();
      if (location.hash.slice(1) !== own) history.replaceState(history.state, "", own ? `#${own}` : location.pathname + location.search);
    }, 200);
  };
  read();
  addEventListener("hashchange", read); // replaceState above is silent: every event is the reader's
  const stop = follow(model, keys, () => { link.href = `#${address()}`; });
  for (const key of keys) model.on(`change:${key}`, write);
  return () => { stop(); removeEventListener("hashchange", read); clearTimeout(timer); };
}

/** Bring every widget of this kind in the page to life, each when it first comes near the window or is named in the address. */
function mount(kind, widget) {
  for (const host of document.querySelectorAll(`[data-companion-widget="${kind}"]`)) {
    const named = () => location.hash.slice(1).split("&").some((piece) => piece.startsWith(`${host.dataset.address}.`));
    const wake = () => {
      watch.disconnect();
      removeEventListener("hashchange", arrive);
      const { state, address } = JSON.parse(host.querySelector("script").textContent);
      const model = pageModel(state), el = h("div"), link = h("a", { class: "lrp-link" }, "Link to this state");
      followAddress(model, address, widget.accept, link);
      host.companion = { model };
      host.replaceChildren(el, ...(address.keys.length ? [h("p", { class: "lrp-foot" }, link)] : []));
      widget.render({ model, el });
      host.dataset.ready = "";
    };
    const arrive = () => { if (named()) { wake(); host.scrollIntoView({ block: "center" }); } };
    const watch = new IntersectionObserver((seen) => { if (seen.some((entry) => entry.isIntersecting)) wake(); }, { rootMargin: "600px" });
    watch.observe(host);
    addEventListener("hashchange", arrive);
    arrive();
  }
}
