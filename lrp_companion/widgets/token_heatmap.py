"""Rows of coloured tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from lrp_companion.attribution import Attribution
from lrp_companion.completion import Completion
from lrp_companion.show.tokens import KEY, token_heatmap
from lrp_companion.terminal import quoted, visible
from lrp_companion.widgets.base import Widget


class TokenHeatmap(Widget, front="token_heatmap"):
    """One or more explanations as rows of coloured tokens, with each value on hover, on focus and in print.

    Parameters
    ----------
    attributions, titles, loo : as for `token_heatmap`, which shows the same without a script. Of a
        `Completion` one row is shown: of the token that is chosen, or of all.
    address : the widget's name in the page.

    Attributes
    ----------
    rows : one dict per row: `title`, `tokens`, `special`, `scores`. Set it from Python and the rows repaint.
    chosen : of a completion the row that is shown: 0 is the sum.

    >>> TokenHeatmap(Attribution(("[CLS]", "fine"), [0.1, -0.25], 1, 2.5, [True, False], "loo"))
    TokenHeatmap(loo, target 1, logit 2.500)
    """

    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        attributions: Attribution | Sequence[Attribution],
        *,
        titles: Sequence[str] | None = None,
        loo: Attribution | None = None,
        address: str = "tokens",
    ) -> None:
        self._shown = token_heatmap(attributions, titles=titles, loo=loo)
        rows = list(map(row_of, self._shown.rows, self._shown.titles))
        names = []
        if isinstance(attributions, Completion):
            names = ["all", *(visible(quoted(token)) for token in attributions.tokens)]
        data = {"key": KEY, "answer": names}
        super().__init__(rows=rows, data=data, address=address)

    def linked(self) -> tuple[str, ...]:
        """Return the choice of a token, where there is one."""
        return ("chosen",) if self.data["answer"] else ()

    def fallback(self) -> str:
        """Return the same rows without a script."""
        return self._shown.html()

    def summary(self) -> str:
        """Return the rows' titles."""
        return "; ".join(row["title"] for row in self.rows)


def row_of(record: Attribution, title: str) -> dict[str, Any]:
    """Return one row of tokens as plain JSON, with control characters spelled out."""
    return {
        "title": visible(title),
        "tokens": [visible(token) for token in record.pieces],
        "special": record.special.tolist(),
        "scores": record.scores.tolist(),
    }
