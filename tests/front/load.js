// Front ends are no modules that can be imported: a widget's text goes on where that of `base.js` ends.

// `deno test -- FOLDER` tests the front ends of that folder instead, such as those that pages load.
const STATIC = new URL(Deno.args[0] ?? "../../lrp_companion/widgets/static/", import.meta.url);

// As `SHARED` in `widgets/base.py` has it.
/** @type {{ [name: string]: string[] }} */
const SHARED = {
  layer_toggles: ["layers", "live_model"],
  sentence_box: ["live_model"],
};

/**
 * The functions of a front end, from the text that `widgets/base.py` makes of it.
 * @param {string} name
 * @returns {Promise<{ [name: string]: any }>}
 */
export async function load(name) {
  const parts = [...new Set(["base", ...(SHARED[name] ?? []), name])];
  const texts = await Promise.all(parts.map((part) => Deno.readTextFile(new URL(`${part}.js`, STATIC))));
  const functions = texts.join("\n").matchAll(/(?:^|;)(?:async )?function (\w+)/gm).map(([, declared]) =>
    declared
  );
  const text = [...texts, `export { ${[...functions].join(", ")} };`].join("\n");
  return await import(`data:text/javascript,${encodeURIComponent(text)}`);
}

/**
 * Numbers as `widgets/base.py` packs them, in base64.
 * @param {ArrayBufferView} numbers
 * @returns {string}
 */
export function packed(numbers) {
  return new Uint8Array(numbers.buffer).toBase64();
}

/**
 * A model that holds values, to read from.
 * @param {{ [key: string]: unknown }} state
 * @returns {{ get: (key: string) => any }}
 */
export function modelOf(state) {
  return { get: (key) => state[key] };
}

/**
 * The same numbers on every run, in [0, 1).
 * @param {number} seed
 * @returns {() => number}
 */
export function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
