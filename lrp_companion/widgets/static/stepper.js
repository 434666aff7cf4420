// deno-lint-ignore-file no-unused-vars -- the widgets use what is declared here
// A step that plays, of the front ends that go through something in steps.

/**
 * A step from 0 to `last()` that goes forward by itself while it plays.
 * @template {{ step: number }} State
 * @param {Model<State>} model
 * @param {object} options
 * @param {() => number} options.last
 * @param {number} options.pause milliseconds between two steps
 * @returns {{ play: HTMLElement, slider: HTMLElement, count: HTMLElement, stop: () => void,
 *   here: () => number, jump: (step: number) => void, show: () => void }} `show` repaints slider and count
 */
function stepper(model, { last, pause }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let timer = 0;
  const here = () => Math.min(model.get("step"), last()); // the address may name a step of a longer text
  const go = (/** @type {number} */ step) => {
    put(model, /** @type {Partial<State>} */ ({ step: Math.max(0, Math.min(last(), step)) }));
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const start = () => {
    if (here() >= last()) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      go(here() + 1);
      if (here() >= last()) stop();
    }, still ? 1500 : pause);
  };
  const turn = () => (timer ? stop() : start());
  const play = h("button", { type: "button", class: "lrp-play", onclick: turn }, "Play");
  const jump = (/** @type {number} */ step) => {
    stop();
    go(step);
  };
  const slide = () => jump(Number(slider.value));
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step", oninput: slide });
  const count = h("span", { class: "lrp-readout" });
  const show = () => {
    slider.max = String(last());
    slider.value = String(here());
    slider.setAttribute("aria-valuetext", `${here()} of ${last()}`);
    count.textContent = `step ${here()} of ${last()}`;
  };
  return { play, slider, count, stop, here, jump, show };
}

/**
 * The grid of a picture: a line per row with its name left of it, and below the columns' names.
 * @param {{ left: number, right: number, bottom: number }} box
 * @param {[number, string][]} rows
 * @param {[number, string][]} columns
 * @returns {SVGElement[]}
 */
function gridOf({ left, right, bottom }, rows, columns) {
  const lines = rows.flatMap(([y, name]) => [
    svg("line", { x1: left, x2: right, y1: y, y2: y, class: "lrp-gridline" }),
    svg("text", { x: left - 5, y: y + 4, "text-anchor": "end" }, name),
  ]);
  const under = columns.map(([x, name]) => svg("text", { x, y: bottom + 16, "text-anchor": "middle" }, name));
  return [...lines, ...under];
}
