// deno-lint-ignore-file no-unused-vars -- the widgets use what is declared here
// Pointing at a chart that is read along one axis, by mouse or finger.

/**
 * Tell where a chart is pressed or drawn across. A finger counts once it goes across or is lifted as a tap:
 * a stroke up or down scrolls the page, and nothing else.
 * @param {Element} node
 * @param {(event: PointerEvent) => void} point
 * @param {boolean} [hover] whether a mouse points without a press, too
 * @returns {void}
 */
function followPointer(node, point, hover = false) {
  /** @type {PointerEvent | null} */
  let first = null;
  let free = false;
  const on = (/** @type {string} */ kind, /** @type {(event: PointerEvent) => void} */ call) =>
    node.addEventListener(kind, (event) => call(/** @type {PointerEvent} */ (event)));
  on("pointerdown", (event) => {
    if (event.button !== 0) return;
    node.setPointerCapture(event.pointerId);
    [first, free] = [event, event.pointerType !== "touch"];
    if (free) point(event);
  });
  on("pointermove", (event) => {
    if (first) {
      free ||= Math.abs(event.clientX - first.clientX) > Math.abs(event.clientY - first.clientY);
      if (free) point(event);
    } else if (hover && event.pointerType !== "touch") point(event);
  });
  on("pointerup", (event) => {
    if (first && !free) point(event);
    first = null;
  });
  on("pointercancel", () => {
    first = null;
  });
}
