// Rows of coloured tokens.

/**
 * @typedef {Tokens & { title: string, scores: number[] }} Row
 * @typedef {{ rows: Row[], data: { key: string } }} State
 */

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  return follow(model, ["rows"], () => {
    const rows = model.get("rows").flatMap(({ title, tokens, special, scores }) => {
      const row = tokenRow(tokens, special, title);
      row.paint(scores);
      return [h("p", { class: "lrp-title" }, title), row.node];
    });
    el.replaceChildren(...rows, h("p", { class: "lrp-quiet" }, model.get("data").key));
  });
}

export default front({ render });
