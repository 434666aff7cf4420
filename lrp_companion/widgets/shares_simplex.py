"""The simplex of shares: any division of relevance among queries, keys and values, compared with LOO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.metrics import agreement
from lrp_companion.schema import Protocol
from lrp_companion.widgets.base import Widget, packed
from lrp_companion.widgets.still import bars

POINTS: dict[str, tuple[float, float, float]] = {
    "left": (0.25, 0.25, 0.5),
    "right": (0.5, 0.25, 0.25),
    "flat": (1 / 3, 1 / 3, 1 / 3),
    "CP": (0.0, 0.0, 1.0),
}
"""Shares of queries, keys and values: of the two groupings, equal ones, and those of CP-LRP."""

FACTORS = ("query", "key", "value")


class SharesSimplex(Widget, front="shares_simplex"):
    """A triangle of shares, and the map of one digit at the chosen point: agreement with LOO and distance to
    both graphs.

    Relevance of linear attention is linear in the shares: R = a_Q R_Q + a_K R_K + a_V R_V. The page holds the
    three maps and computes every mixture from them.

    Parameters
    ----------
    digits : records as `share_digits` returns them: `image` (side, side) in [0, 1], `label`, `predicted`,
        `logit`, `maps` ("query", "key", "value": side * side numbers each), `loo` (side * side numbers).
    address : the widget's name in the page.

    Attributes
    ----------
    shares : the fractions of relevance that Q, K and V receive: three numbers of at least 0 with the sum 1.
        Starts at the left graph.
    digit : place in `digits`.
    map : "raw", or "sum-to-one" to divide maps by their sum before they are shown and compared.

    >>> digit = {"image": [[0.5, 1.0], [0, 0]], "label": 1, "predicted": 1, "logit": 2.0, "loo": [1, 2, 0, 0]}
    >>> maps = {"query": [1, 1, 0, 0], "key": [2, 0, 0, 0], "value": [0, 2, 0, 0]}
    >>> SharesSimplex([{**digit, "maps": maps}])
    SharesSimplex(1 digit, shares 0.25, 0.25, 0.50)
    """

    shares = traitlets.List(traitlets.Float(min=0), minlen=3, maxlen=3).tag(sync=True)
    digit = traitlets.Int(0).tag(sync=True)
    map = traitlets.Enum(("raw", "sum-to-one"), "raw").tag(sync=True)
    links = ("shares", "digit", "map")

    def __init__(self, digits: Sequence[Mapping[str, Any]], *, address: str = "shares") -> None:
        self._digits = [_plain(digit) for digit in digits]
        digit_data = [{key: digit[key] for key in ("label", "predicted", "logit")} for digit in self._digits]
        arrays = {
            key: packed([digit[key] for digit in self._digits], "float32")
            for key in ("image", *FACTORS, "loo")
        }
        points = {name: list(point) for name, point in POINTS.items()}
        data = {"side": len(self._digits[0]["image"]), "points": points, "digits": digit_data, **arrays}
        super().__init__(shares=list(POINTS["left"]), data=data, address=address)

    def scores(self, shares: Sequence[float] | None = None, *, digit: int | None = None) -> np.ndarray:
        """Return the raw map of a digit at some shares, (side * side,); by default that in view."""
        record = self._digits[self.digit if digit is None else digit]
        maps = np.stack([record[name] for name in FACTORS])
        return np.asarray(self.shares if shares is None else shares) @ maps

    def fallback(self) -> str:
        """Return a picture of r with LOO at the marked shares, of the digit in view."""
        protocol, digit = Protocol(tokens="all", map=self.map), self._digits[self.digit]
        none = np.zeros(len(digit["loo"]), dtype=bool)
        r = [agreement(self.scores(point), digit["loo"], none, protocol) for point in POINTS.values()]
        caption = f"Digit {digit['label']}: r with LOO at some shares of queries, keys and values"
        return bars({f"{self.map} map": r}, [*POINTS], caption, scale=1)

    def summary(self) -> str:
        """Return how many digits there are, and the shares."""
        count = len(self._digits)
        return f"{count} digit{'' if count == 1 else 's'}, shares {_shares_text(self.shares)}"


def _shares_text(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.2f}" for share in shares)


def _plain(digit: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its maps and the rest on one level."""
    arrays = {name: np.asarray(values) for name, values in {**digit["maps"], "loo": digit["loo"]}.items()}
    image = np.asarray(digit["image"])
    return {**{key: digit[key] for key in ("label", "predicted", "logit")}, "image": image, **arrays}
