"""One token in a correlation: the tokens of a sentence as dots, with and without one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from lrp_companion.attribution import Attribution, differences
from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.metrics.faithfulness import CORRELATIONS
from lrp_companion.registry import label_of
from lrp_companion.show.tables import table
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget

STATISTICS = ("pearson", "spearman")


class OutlierScene(Widget, front="outlier_scene"):
    """The tokens of a sentence as dots, LOO across, relevance up, by two methods; the first can be left out.

    Parameters
    ----------
    maps : the same text explained by two methods.
    loo : LOO of that text, of the same target.
    means : the mean of the second method's r minus the first's over a data set, as `Interval`, with and
        without the first token, for "pearson" and "spearman". Optional.
    label : the name of the class that is explained.
    note : a line below, as that the sentence was picked.
    address : the widget's name in the page.

    Attributes
    ----------
    without : whether the first token is left out.
    ranked : whether both axes are ranks, and r is Spearman's.

    >>> OutlierScene([attnlrp, cp_lrp], loo)  # doctest: +SKIP
    OutlierScene(attnlrp, cp-lrp; 14 tokens; [CLS] can be left out)
    """

    links = ("without", "ranked")
    without = traitlets.Bool(False).tag(sync=True)
    ranked = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        maps: Sequence[Attribution],
        loo: Attribution,
        *,
        means: Mapping[str, Sequence[Interval]] | None = None,
        label: str = "",
        note: str = "",
        address: str = "outlier",
    ) -> None:
        apart = [difference for record in maps for difference in differences(record, loo)]
        if len(maps) != 2 or apart or len(loo.tokens) < 4:
            got = f"{len(maps)} maps of {len(loo.tokens)} tokens, unlike LOO: {', '.join(apart) or 'no'}"
            expected = "two maps and LOO of one text and target, of four tokens or more"
            raise InputError("OutlierScene", got=got, expected=expected, hint="explain the same text")
        self._maps, self._loo = list(maps), loo
        data: dict[str, Any] = {
            "tokens": [visible(token) for token in loo.pieces],
            "special": loo.special.tolist(),
            "label": visible(label or f"class {loo.target}"),
            "place": 0,
            "methods": [visible(label_of(record.method)) for record in maps],
            "scores": [record.scores.tolist() for record in maps],
            "loo": loo.scores.tolist(),
            "means": means and {kind: [[v.mean, v.low, v.high] for v in of] for kind, of in means.items()},
            "n": means[STATISTICS[0]][0].n if means else 0,
            "note": visible(note),
        }
        super().__init__(data=data, address=address)

    def r(self, *, without: bool, ranked: bool) -> list[float]:
        """Return r of each map with LOO as the widget shows it."""
        seen = slice(int(without), None)
        f = CORRELATIONS[STATISTICS[ranked]]
        return [f(record.scores[seen], self._loo.scores[seen]) for record in self._maps]

    def fallback(self) -> str:
        """Return r of both methods by statistic, with and without the token."""
        token, names = self.data["tokens"][0], self.data["methods"]
        rows = [
            {"r with LOO": "by rank (Spearman)" if ranked else "Pearson", "tokens": says}
            | dict(zip(names, self.r(without=without, ranked=ranked), strict=True))
            for ranked in (False, True)
            for without, says in ((False, "all"), (True, f"without {token}"))
        ]
        return table(rows, caption=f"One sentence with and without {token}")._repr_html_()

    def summary(self) -> str:
        """Return the methods, how many tokens there are, and which one can be left out."""
        tokens = self.data["tokens"]
        methods = ", ".join(record.method for record in self._maps)
        return f"{methods}; {len(tokens)} tokens; {tokens[0]} can be left out"
