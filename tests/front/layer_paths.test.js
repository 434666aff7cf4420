// LayerPaths: which layers a step bypasses, what is read, the verdict, and where lines and bands lie.
import assert from "node:assert/strict";
import { load, modelOf } from "./load.js";

const { accept, bandOf, bypassed, lineOf, reading, scales, verdict, withInterval } = await load(
  "layer_paths",
);

const CURVE = { mean: [0.25, 0.5, 0.75], low: [0.125, 0.375, 0.625], high: [0.375, 0.625, 0.875] };
const RUN = {
  key: "a",
  label: "SST-2, 3 layers",
  n: 872,
  layers: 3,
  cells: { words: { "back-to-front": CURVE, single: CURVE } },
  levels: { words: [0.25, 0.75] },
  ends: {
    words: {
      "back-to-front": { mean: 0.5, low: 0.25, high: 0.75, side: "above" },
      single: { mean: -0.5, low: -0.75, high: -0.25, side: "below" },
    },
  },
  paper: { "back-to-front": [0.5, 0.375, 0.25], single: [0.25, 0.25, 0.25] },
  "paper ends": { "back-to-front": 0.3, single: 0 },
};
const VIEW = { run: RUN, protocol: "words", path: "back-to-front", layer: 2 };

Deno.test("a step of each path bypasses its layers", () => {
  assert.equal(bypassed("front-to-back", 2, 3), "Layers 1 to 2 bypassed");
  assert.equal(bypassed("front-to-back", 1, 3), "Layer 1 bypassed");
  assert.equal(bypassed("back-to-front", 2, 3), "Layers 2 to 3 bypassed");
  assert.equal(bypassed("back-to-front", 3, 3), "Layer 3 bypassed");
  assert.equal(bypassed("single", 2, 3), "Layer 2 bypassed");
});

Deno.test("both values are read at one layer", () => {
  const said = "Layers 2 to 3 bypassed: r = 0.50 [0.38, 0.63] in this project, 0.38 in the paper's model.";
  assert.equal(reading(VIEW), said);
  const alone = reading({ ...VIEW, run: { ...RUN, paper: null } });
  assert.equal(alone, "Layers 2 to 3 bypassed: r = 0.50 [0.38, 0.63] in this project.");
});

Deno.test("numbers have a true minus sign, and a plus only where it is asked for", () => {
  assert.equal(withInterval(-0.5, -0.75, -0.25, true), "\u22120.50 [\u22120.75, \u22120.25]");
  assert.equal(withInterval(0.5, null, null, true), "+0.50");
  assert.equal(withInterval(null, null, null, true), "undefined");
});

Deno.test("the verdict follows the side of the interval", () => {
  const above = verdict(VIEW);
  assert.match(above, /^CP-LRP \(all layers\) minus AttnLRP \(none\): .* \+0\.50 \[0\.25, 0\.75\]/);
  assert.match(
    above,
    /the paper's model: \+0\.30\); the whole interval is above 0: CP-LRP is nearer to LOO\.$/,
  );
  assert.match(
    verdict({ ...VIEW, path: "single" }),
    /^Layer 3 alone minus layer 1 alone: .* layer 1 gives the/,
  );
  const sides = {
    below: /below 0: AttnLRP is nearer to LOO\.$/,
    across: /includes 0, so this is open\.$/,
    undefined: /it has no interval\.$/,
  };
  for (const [side, words] of Object.entries(sides)) {
    const ends = { words: { "back-to-front": { ...RUN.ends.words["back-to-front"], side } } };
    assert.match(verdict({ ...VIEW, run: { ...RUN, ends } }), words);
  }
  const silent = { ...RUN, "paper ends": { "back-to-front": null } };
  assert.ok(!verdict({ ...VIEW, run: silent }).includes("the paper"));
});

Deno.test("layers stand in equal steps, larger r higher, all values inside", () => {
  const { x, y } = scales(RUN), steps = [1, 2, 3].map(x);
  assert.ok(Math.abs(steps[1] - steps[0] - (steps[2] - steps[1])) < 1e-9);
  assert.ok(y(0.875) < y(0.125) && y(0.875) > 20 && y(0.125) < 176);
});

Deno.test("an undefined value breaks the line and leaves the band", () => {
  const scale = { x: (/** @type {number} */ k) => k, y: (/** @type {number} */ r) => r };
  assert.equal(lineOf([1, 2, null, 4], scale), "M1.0 1.0L2.0 2.0M4.0 4.0");
  assert.equal(bandOf({ low: [1, null], high: [3, null] }, scale), "1.0,3.0 1.0,1.0");
});

Deno.test("the address names what there is", () => {
  const data = { runs: [RUN], protocols: [{ key: "words" }], paths: [{ key: "single" }] };
  const model = modelOf({ data });
  for (const [key, value] of [["run", "a"], ["protocol", "words"], ["path", "single"], ["layer", 3]]) {
    assert.ok(accept(key, value, model));
  }
  for (
    const [key, value] of [["run", "b"], ["protocol", "single"], ["path", ""], ["layer", 0], ["layer", 4], [
      "layer",
      1.5,
    ]]
  ) assert.ok(!accept(key, value, model));
});
