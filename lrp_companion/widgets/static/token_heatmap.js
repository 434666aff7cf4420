// Rows of coloured tokens.
function render({ model, el }) {
  const stop = follow(model, ["rows"], () => {
    el.replaceChildren(
      ...model.get("rows").flatMap(({ title, tokens, special, scores }) => {
        const row = tokenRow(tokens, special, title);
        row.paint(scores);
        return [h("p", { class: "lrp-title" }, title), row.node];
      }),
      h("p", { class: "lrp-quiet" }, model.get("data").key),
    );
  });
  return stop;
}

export default front({ render });
