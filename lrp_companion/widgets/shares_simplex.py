"""The simplex of shares: any division of relevance among queries, keys and values, compared with LOO."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.arrays import real_array
from lrp_companion.checks import InputError
from lrp_companion.metrics import agreement, invariance_gap
from lrp_companion.schema import Protocol
from lrp_companion.widgets.base import Widget, check_address, packed

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

    shares = traitlets.List(traitlets.Float()).tag(sync=True)
    digit = traitlets.Int(0).tag(sync=True)
    map = traitlets.Enum(("raw", "sum-to-one"), "raw").tag(sync=True)
    links = ("shares", "digit", "map")

    def __init__(self, digits: Sequence[Mapping[str, Any]], *, address: str = "shares") -> None:
        self._digits = [_checked(digit, place) for place, digit in enumerate(digits)]
        sizes = {digit["image"].shape for digit in self._digits}
        if len(sizes) != 1:
            raise InputError(
                "SharesSimplex",
                got=f"images of {len(sizes)} sizes",
                expected="digits of one size",
                hint="use share_digits",
            )
        digit_data = [{key: digit[key] for key in ("label", "predicted", "logit")} for digit in self._digits]
        arrays = {
            key: packed([digit[key] for digit in self._digits], "float32")
            for key in ("image", *FACTORS, "loo")
        }
        points = {name: list(point) for name, point in POINTS.items()}
        data = {"side": next(iter(sizes))[0], "points": points, "digits": digit_data, **arrays}
        address = check_address("SharesSimplex", address)
        super().__init__(shares=list(POINTS["left"]), data=data, address=address)

    @traitlets.validate("shares")
    def _three_shares(self, proposal: Any) -> list[float]:
        shares: list[float] = proposal["value"]
        if len(shares) != 3 or not all(share >= 0 for share in shares) or abs(sum(shares) - 1) > 1e-9:
            raise traitlets.TraitError(
                f"shares: got {shares}; expected three numbers of at least 0 with the sum 1, for Q, K and V"
            )
        return shares

    @traitlets.validate("digit")
    def _known_digit(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < len(self._digits):
            raise traitlets.TraitError(
                f"digit: got {proposal['value']}; expected a place from 0 to {len(self._digits) - 1}"
            )
        return int(proposal["value"])

    def scores(self, shares: Sequence[float] | None = None, *, digit: int | None = None) -> np.ndarray:
        """Return the raw map of a digit at some shares, (side * side,); by default that in view."""
        record = self._digits[self.digit if digit is None else digit]
        maps = np.stack([record[name] for name in FACTORS])
        return np.asarray(self.shares if shares is None else shares) @ maps

    def fallback(self) -> str:
        """Return r with LOO and the distance of the two graphs' maps as a table, a row per digit."""
        points = dict(POINTS)
        if tuple(self.shares) not in points.values():
            points["here"] = self.shares[0], self.shares[1], self.shares[2]
        heads = ("", *points, "left to right")
        head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in heads)
        body = "".join(
            f'<tr><th scope="row">digit {digit["label"]}, predicted {digit["predicted"]}</th>'
            f"<td>{'</td><td>'.join(self._cells(place, list(points.values())))}</td></tr>"
            for place, digit in enumerate(self._digits)
        )
        named = "; ".join(f"{name} ({_shares_text(point)})" for name, point in points.items())
        caption = (
            f"r with LOO ({self.map} maps) at some shares of queries, keys and values: {named}; "
            "then the distance of raw maps"
        )
        return (
            f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def _cells(self, digit: int, points: Sequence[Sequence[float]]) -> list[str]:
        """One digit's r with LOO at some shares, and the distance of the maps at the first two."""
        protocol, loo = Protocol(tokens="all", map=self.map), self._digits[digit]["loo"]
        maps = [self.scores(point, digit=digit) for point in points]
        r = [agreement(scores, loo, np.zeros(len(scores), dtype=bool), protocol) for scores in maps]
        return [f"{value:.3f}" for value in (*r, invariance_gap(maps[0], maps[1]).relative)]

    def summary(self) -> str:
        """Return how many digits there are, and the shares."""
        count = len(self._digits)
        return f"{count} digit{'' if count == 1 else 's'}, shares {_shares_text(self.shares)}"


def _shares_text(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.2f}" for share in shares)


def _checked(digit: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return a record with its maps and the rest on one level, all arrays finite and of one size."""
    try:
        image = real_array("SharesSimplex", "image", digit["image"])
        maps = {name: real_array("SharesSimplex", name, digit["maps"][name]) for name in FACTORS}
        maps["loo"] = real_array("SharesSimplex", "loo", digit["loo"])
        rest: dict[str, Any] = {
            "label": int(digit["label"]),
            "predicted": int(digit["predicted"]),
            "logit": float(digit["logit"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            "SharesSimplex",
            got=f"digit {place}: {error!r}",
            expected="image, label, predicted, logit, maps with query, key and value, and loo",
            hint="use share_digits",
        ) from error
    square = image.ndim == 2 and image.shape[0] == image.shape[1] > 1
    grey = bool(((image >= 0) & (image <= 1)).all())
    finite = all(np.isfinite(numbers).all() for numbers in (*maps.values(), rest["logit"]))
    fits = all(scores.shape == (image.size,) for scores in maps.values())
    if not (square and grey and finite and fits):
        shapes = ", ".join(f"{name} {scores.shape}" for name, scores in maps.items())
        raise InputError(
            "SharesSimplex",
            got=f"digit {place}: image {image.shape}, {shapes}",
            expected="a square image in [0, 1], and one finite number per pixel in each map",
            hint="use share_digits",
        )
    return {"image": image, **maps, **rest}
