// What functions of front ends return, for `tests/test_front_ends.py` to compare with Python's results.
// Calls come in and results go out as JSON; an undefined number goes out as null.
import { load, modelOf } from "./load.js";

/** @type {{ front: string, calls: [string, ...unknown[]][] }} */
const { front, calls } = JSON.parse(await new Response(Deno.stdin.readable).text());
const functions = await load(front);

/**
 * An argument; `{"model": {...}}` stands for a model with this state.
 * @param {any} value
 * @returns {unknown}
 */
function argument(value) {
  return value?.model ? modelOf(value.model) : value;
}

const results = calls.map(([name, ...given]) => functions[name](...given.map(argument)));

/**
 * What JSON takes of a result: a typed array as a list, and of a tree's nodes no way back up.
 * @param {string} key
 * @param {unknown} value
 * @returns {unknown}
 */
function plain(key, value) {
  if (key === "above") return undefined;
  return ArrayBuffer.isView(value) ? Array.from(/** @type {Float64Array} */ (value)) : value;
}

console.log(JSON.stringify(results, plain));
