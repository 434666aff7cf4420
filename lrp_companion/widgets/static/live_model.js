// deno-lint-ignore-file no-unused-vars -- the widgets use what is declared here
// What front ends with a model in the page share: the button that loads it, and why it may not run here.

/** @typedef {LRPCompanionModel} Companion */
/**
 * `folder` is where the model is staged, seen from the page; bytes are read from disk, sent by a web host, or
 * kept in memory.
 * @typedef {{ folder: string, name: string, fetched: number, sent: number, memory: number }} Staged
 */

const LEAST_MEMORY = 3; // gigabytes

/**
 * Bytes in words.
 * @param {number} bytes
 * @returns {string}
 */
function megabytes(bytes) {
  return `${Math.round(bytes / 1e6)} MB`;
}

/**
 * Why this browser cannot run the model, or what it should know first; empty where there is nothing to say.
 * @param {{ WebAssembly?: unknown, Worker?: unknown, navigator?: any }} world
 * @param {number} memory in bytes
 * @returns {{ fails: boolean, line: string }}
 */
function obstacle(world, memory) {
  const lacks = ["WebAssembly", "Worker"].filter((name) => !(name in world));
  if (lacks.length) {
    const line = `The model cannot run here: this browser has no ${lacks[0]}. A current one has it.`;
    return { fails: true, line };
  }
  const gigabytes = world.navigator?.deviceMemory;
  if (!(gigabytes < LEAST_MEMORY)) return { fails: false, line: "" };
  const needs = `the model needs about ${megabytes(memory)} of it`;
  return {
    fails: false,
    line: `This device reports ${gigabytes} GB of memory; ${needs}, so the page may be closed.`,
  };
}

/**
 * The engine's script, loaded once.
 * @param {string} folder
 * @returns {Promise<NonNullable<typeof window.LRPCompanion>>}
 */
function engineFrom(folder) {
  if (window.LRPCompanion) return Promise.resolve(window.LRPCompanion);
  const src = `${folder}engine.js`;
  return new Promise((resolve, reject) => {
    const fail = () => {
      script.remove();
      const hint = "put the whole folder next to the page, check the connection, and try again";
      reject(new Error(`load: got no file ${src}; expected the engine. Next step: ${hint}.`));
    };
    const script = h("script", {
      onload: () => (window.LRPCompanion ? resolve(window.LRPCompanion) : fail()),
      onerror: fail,
    });
    script.src = src;
    document.head.append(script);
  });
}

/**
 * The button that loads the model, with progress and a way to cancel.
 * @param {Staged} staged
 * @param {(companion: Companion) => void} ready
 * @returns {HTMLElement}
 */
function loader({ folder, fetched, sent, memory }, ready) {
  const before = obstacle(window, memory), bytes = location.protocol === "file:" ? fetched : sent;
  const text = `It runs in this page, in about ${megabytes(memory)} of memory. ` +
    "What you type stays here, and in links that you copy.";
  const line = h("span", { role: "status", class: "lrp-load-line" }, before.line);
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Loading the model" });
  let control = new AbortController();
  const begin = async () => {
    const { signal } = control = new AbortController();
    show(true);
    const progress = (/** @type {{ loaded: number, total: number }} */ { loaded, total }) => {
      bar.value = loaded / total;
      bar.title = `${Math.round((100 * loaded) / total)} %`;
    };
    try {
      const companion = await (await engineFrom(folder)).load(folder, { signal, progress });
      ready(companion);
    } catch (error) {
      const { name, message } = /** @type {Error} */ (error);
      line.textContent = name === "AbortError" ? "Cancelled." : message;
    }
    show(false);
  };
  const attributes = { type: /** @type {const} */ ("button"), class: "lrp-load" };
  const button = h("button", { ...attributes, onclick: begin }, `Load the model (${megabytes(bytes)})`);
  const cancel = h("button", { type: "button", hidden: true, onclick: () => control.abort() }, "Cancel");
  const show = (/** @type {boolean} */ loading) => {
    bar.hidden = !loading;
    if (loading) putInPlace(button, cancel);
    else putInPlace(cancel, button);
    if (loading) line.textContent = "Loading the model";
  };
  button.disabled = before.fails;
  const controls = h("div", { class: "lrp-controls" }, button, bar, cancel, line);
  return h("div", { class: "lrp-loader" }, controls, h("p", { class: "lrp-quiet" }, text));
}
