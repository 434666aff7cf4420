"""Widgets of the toys: products, one softmax step and one head, shares of three factors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.metrics import agreement
from lrp_companion.registry import label_of
from lrp_companion.schema import Protocol
from lrp_companion.toys import Product, SoftmaxStep, flat, leaves_of, parse, write
from lrp_companion.widgets.base import Widget, bars, packed


class ProductTree(Widget, front="product_tree"):
    """A product whose grouping is changed by a press; relevance follows the tree (the uniform rule, the
    paper's Eq. 3).

    Parameters
    ----------
    values : two to five numbers, at most 1e60 in size: the fifth power of that is still a finite float.
    grouping : which of them are multiplied first, in the notation of `toys.parse`, the factors in order.
    address : the widget's name in the page.

    Attributes
    ----------
    values, grouping : what the reader sees and changes. If the number of values changes, the grouping becomes
        one flat product.

    >>> tree = ProductTree((2, 3, 4), "x1 (x2 x3)")
    >>> tree.values = [2, 3, 4, 5]
    >>> tree
    ProductTree(x1 x2 x3 x4 = 120)
    """

    links = ("values", "grouping")
    values = traitlets.List(traitlets.Float(min=-1e60, max=1e60), minlen=2, maxlen=5).tag(sync=True)
    grouping = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, values: Sequence[float] = (2, 3, 4), grouping: str = "(x1 x2) x3", *, address: str = "product"
    ) -> None:
        super().__init__(values=list(values), grouping=grouping, address=address)

    @traitlets.validate("grouping")
    def _check_grouping(self, proposal: Any) -> str:
        tree, count = parse(proposal["value"]), len(self.values)
        if leaves_of(tree) != tuple(range(count)):
            got = f"got grouping {proposal['value']!r}"
            raise traitlets.TraitError(f"{got}; expected the factors x1 to x{count}, in order")
        return write(tree)

    @traitlets.observe("values")
    def _regroup(self, change: Any) -> None:
        if self.grouping and len(leaves_of(parse(self.grouping))) != len(self.values):
            self.grouping = write(flat(len(self.values)))

    def _product(self) -> Product:
        return Product(self.values, self.grouping)

    def fallback(self) -> str:
        """Return a picture of the three attributions."""
        product, n = self._product(), len(self.values)
        maps = product.relevance(), product.integrated_gradients(), product.loo()
        rows = dict(zip(("LRP", "IG from zero", "LOO"), maps, strict=True))
        names = [f"x{k + 1} = {value:.4g}" for k, value in enumerate(self.values)]
        caption = (
            f"{self.grouping} = {product.value:.4g}: relevance by the uniform rule, "
            f"integrated gradients and LOO of the same {n} factors"
        )
        return bars(rows, names, caption)

    def summary(self) -> str:
        """Return the grouping and the product."""
        return f"{self.grouping} = {self._product().value:.4g}"


STEPS = 5  # forward, split, softmax, keys and query, side by side
LIMIT = 20.0


class HeadStepper(Widget, front="head_stepper"):
    """One query reads three tokens, `z = q k`, `a = softmax(z)`, `o = sum a v`, and relevance goes back.

    AttnLRP goes through all parts by Eq. (3) to (5) with epsilon 0, CP-LRP to the values only, by Eq. (1).

    Attributes
    ----------
    step : 0 forward, 1 the product split, 2 the softmax, 3 keys and query, 4 side by side with LOO.
    rules : "attnlrp" or "cp-lrp".
    q, k, v : the query, three keys and three values, from -20 to 20; the query is the first token's.

    >>> HeadStepper()
    HeadStepper([CLS], slow, charming)
    """

    links = ("rules", "step", "q", "k", "v")
    rules = traitlets.Enum(("attnlrp", "cp-lrp"), "attnlrp").tag(sync=True)
    step = traitlets.Int(0, min=0, max=STEPS - 1).tag(sync=True)
    q = traitlets.Float(math.log(2), min=-LIMIT, max=LIMIT).tag(sync=True)
    k = traitlets.List(traitlets.Float(min=-LIMIT, max=LIMIT), [1.0, 1.0, 2.0], 3, 3).tag(sync=True)
    v = traitlets.List(traitlets.Float(min=-LIMIT, max=LIMIT), [2.0, -6.0, 8.0], 3, 3).tag(sync=True)

    def __init__(self, **state: Any) -> None:
        data = {"tokens": ["[CLS]", "slow", "charming"], "limit": LIMIT, "steps": STEPS}
        super().__init__(**{"data": data, "address": "head", **state})

    def relevance(self) -> dict[str, list[float]]:
        """Relevance of every part under AttnLRP, by name, and the three maps, as the page computes them."""
        step = SoftmaxStep(self.q * np.array(self.k), np.array(self.v))
        at_key = step.logit_relevance() / 2
        maps = step.value_relevance() + at_key
        maps[0] += at_key.sum()  # the query is the first token's
        return {
            "scores": step.logits.tolist(),
            "weights": step.attention.tolist(),
            "output": [step.output],
            "at value": step.value_relevance().tolist(),
            "at score": step.logit_relevance().tolist(),
            "at key": at_key.tolist(),
            "at query": [float(at_key.sum())],
            "attnlrp": maps.tolist(),
            "cp-lrp": step.cp_lrp().tolist(),
            "loo": step.loo().tolist(),
        }

    def fallback(self) -> str:
        """Return a picture of the three maps."""
        parts = self.relevance()
        rows = {label_of(name): parts[name] for name in ("attnlrp", "cp-lrp", "loo")}
        return bars(rows, self.data["tokens"], f"One head, output {parts['output'][0]:.4g}")

    def summary(self) -> str:
        """Return the tokens."""
        return ", ".join(self.data["tokens"])


LIMITS = {"logits": 8.0, "values": 2.0}


class SoftmaxLab(Widget, front="softmax_lab"):
    """Logits and values on sliders: attention, AttnLRP, CP-LRP, and the change when a token is removed.

    `o = sum_i A_i v_i` with `A = softmax(z)`; the quantities are those of `toys.SoftmaxStep`.

    Attributes
    ----------
    logits, values : 3 to 6 numbers each, logits z within 8 of zero, values v within 2; while their lengths
        differ, the shorter one counts.

    >>> SoftmaxLab(logits=[1, 0, 0], values=[2, 1, -1])
    SoftmaxLab(3 tokens)
    """

    links = ("logits", "values")
    logits = traitlets.List(traitlets.Float(min=-8, max=8), [2.0, 1, 0, 0], 3, 6).tag(sync=True)
    values = traitlets.List(traitlets.Float(min=-2, max=2), [1, -0.5, 0.5, 0.25], 3, 6).tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(**{"data": {"limits": LIMITS}, "address": "softmax", **state})

    def fallback(self) -> str:
        """Return a picture of the state at start."""
        # Set one after another, they may differ in length: the shorter counts, as in the view.
        n = min(len(self.logits), len(self.values))
        step = SoftmaxStep(np.array(self.logits[:n]), np.array(self.values[:n]))
        quantities = {
            "logit z": step.logits,
            "value v": step.values,
            "attention A": step.attention,
            "LOO": step.loo(),
            "AttnLRP": step.attnlrp(),
            "CP-LRP": step.cp_lrp(),
        }
        columns = [f"token {i + 1}" for i in range(n)]
        return bars(quantities, columns, f"One query; output o = {step.output:.3f}")

    def summary(self) -> str:
        """Return how many tokens there are."""
        return f"{len(self.logits)} tokens"


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
