// Rows of coloured tokens; of a completion the row of the token that is chosen.

/**
 * @typedef {Tokens & { title: string, scores: number[] }} Row
 * @typedef {{ rows: Row[], chosen: number, data: { key: string, answer: string[] } }} State
 */

/**
 * @param {"chosen"} _key
 * @param {number} value
 * @param {Model<State>} model
 * @returns {boolean}
 */
function accept(_key, value, model) {
  return isPlace(value, model.get("data").answer.length);
}

/**
 * @param {Place<State>} place
 * @returns {() => void}
 */
function render({ model, el }) {
  const { key, answer } = model.get("data"), rows = h("div"), line = liveLine();
  const names = Object.fromEntries(answer.map((name, place) => [String(place), name]));
  const pick = choice("Token of the answer", names, (value) => put(model, { chosen: Number(value) }));
  el.replaceChildren(
    ...(answer.length ? [pick.node] : []),
    rows,
    h("p", { class: "lrp-quiet" }, key),
    line.node,
  );
  return follow(model, ["rows", "chosen"], () => {
    const all = model.get("rows"), chosen = model.get("chosen");
    const drawn = (answer.length ? [all[chosen]] : all).flatMap(({ title, tokens, special, scores }) => {
      const row = tokenRow(tokens, special, title);
      row.paint(scores);
      return [h("p", { class: "lrp-title" }, title), row.node];
    });
    rows.replaceChildren(...drawn);
    pick.show(String(chosen));
    if (answer.length) line.say(all[chosen].title);
  });
}

export default front({ accept, render });
