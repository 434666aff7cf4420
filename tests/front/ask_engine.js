// What the engine says of texts, for `tests/test_browser_engine.py` to compare with Python's results.
//
// A staged folder, the address of the engine's joined modules, and questions come in as JSON; an answer to
// each goes out as a line of JSON. With `relaxed` the kernel has fused products.
const given = JSON.parse(await new Response(Deno.stdin.readable).text());
const { folder, modules, questions, relaxed = false } = given;

/**
 * The content of a staged script.
 * @param {string} name
 * @returns {any}
 */
function contentOf(name) {
  const script = Deno.readTextFileSync(`${folder}/${name}`);
  return JSON.parse(script.slice(script.indexOf("(") + 1, script.lastIndexOf(")")));
}

const engine = await import(modules);
const manifest = contentOf("model.js");
const kernels = JSON.parse(Deno.readTextFileSync(`${folder}/kernels.json`));
const weights = new engine.Weights(engine.kernelFrom(relaxed ? kernels : kernels.slice(1)), manifest);
for (const number of manifest.parts.keys()) {
  weights.take(number, engine.bytesOf(contentOf(`part-${String(number).padStart(2, "0")}.js`)));
}
const explainer = new engine.Explainer(weights.model(), new engine.Tokenizer(manifest.tokenizer));

/** @returns {Promise<void>} */
async function pause() {
}

/**
 * One answer.
 * @param {{ kind: string, text: string, choices?: any }} question
 * @returns {Promise<unknown>}
 */
async function answer({ kind, text, choices = {} }) {
  try {
    if (kind === "encode") return explainer.tokenizer.encode(text);
    if (kind === "levels") return await explainer.levels(text, choices, pause);
    if (kind !== "masks") return await explainer.explain(text, choices, pause);
    const { masks, ...rest } = await engine.allMasks(explainer, text, choices, pause, () => undefined);
    return { ...rest, masks: Array.from(masks) };
  } catch (error) {
    return { error: String(error) };
  }
}

for (const question of questions) {
  const before = performance.now(), result = await answer(question);
  console.log(JSON.stringify({ result, seconds: (performance.now() - before) / 1000 }));
}
