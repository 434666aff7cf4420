"""Two maps against LOO: the words of a sentence in colour, and its tokens as dots; marks can be left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.attribution import Attribution, differences
from lrp_companion.checks import InputError
from lrp_companion.metrics import agreement
from lrp_companion.registry import label_of
from lrp_companion.schema import Protocol, counted
from lrp_companion.show.tokens import token_heatmap
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import LEAST, Widget
from lrp_companion.widgets.still import dots


class OutlierScene(Widget, front="outlier_scene"):
    """A sentence in LOO's colours and two methods', and its tokens as dots, LOO across, relevance up.

    Marks such as `[CLS]` can be left out: their dots become rings, and all others stay where they are.

    Parameters
    ----------
    maps : the same text explained by two methods.
    loo : LOO of that text, of the same target.
    label : the name of the class that is explained.
    note : a line beside the buttons, as what to look at.
    margin : a smaller difference between the two r reads "level".
    address : the widget's name in the page.
    reduced : without the ranks, as a first look.

    Attributes
    ----------
    without : whether special tokens are left out.
    ranked : whether both axes are ranks, and r is Spearman's.

    >>> OutlierScene([attnlrp, cp_lrp], loo)  # doctest: +SKIP
    OutlierScene(attnlrp, cp-lrp; 14 tokens, 12 of them words)
    """

    links = ("without", "ranked")
    without = traitlets.Bool(False).tag(sync=True)
    ranked = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        maps: Sequence[Attribution],
        loo: Attribution,
        *,
        label: str = "",
        note: str = "",
        margin: float = 0.05,
        address: str = "outlier",
        reduced: bool = False,
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
            "methods": [visible(label_of(record.method)) for record in maps],
            "scores": [record.scores.tolist() for record in maps],
            "loo": loo.scores.tolist(),
            "margin": margin,
            "reduced": reduced,
            "note": visible(note),
        }
        super().__init__(data=data, address=address)

    def linked(self) -> tuple[str, ...]:
        """Return the traits that the address keeps: of a reduced widget, whether words alone count."""
        return ("without",) if self.data["reduced"] else self.links

    def r(self, *, without: bool, ranked: bool) -> list[float]:
        """Return r of each map with LOO as the widget shows it."""
        tokens, statistic = ("all", "no-special")[without], ("pearson", "spearman")[ranked]
        protocol, special = Protocol(tokens=tokens, statistic=statistic), self._loo.special
        if counted(special, tokens).sum() < LEAST:
            return [np.nan, np.nan]
        return [agreement(record.scores, self._loo.scores, special, protocol) for record in self._maps]

    def fallback(self) -> str:
        """Return the rows of tokens and the dots as they stand at first, with the same numbers."""
        r, names = self.r(without=self.without, ranked=self.ranked), self.data["methods"]
        titles = [f"{name}: r with LOO {value:.2f}" for name, value in zip(names, r, strict=True)]
        rows = token_heatmap([self._loo, *self._maps], titles=["LOO", *titles]).html()
        marks = [
            token * special for token, special in zip(self.data["tokens"], self.data["special"], strict=True)
        ]
        panels = dict(zip(titles, self.data["scores"], strict=True))
        return rows + dots(panels, self.data["loo"], marks, "Each dot a token; up: relevance")

    def summary(self) -> str:
        """Return the methods, and how many tokens and words there are."""
        methods, words = ", ".join(record.method for record in self._maps), int((~self._loo.special).sum())
        return f"{methods}; {len(self._loo.tokens)} tokens, {words} of them words"
