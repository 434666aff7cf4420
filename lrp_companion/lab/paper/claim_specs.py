"""The paper's claims, each as effects that a run can show and the side on which the paper's effects lie.

For digits, the paper's two orders are named here by their products, Q(KᵀV) and (QKᵀ)V. Section 4.3, to which
Table 1 belongs, calls the first left-associative and the second right-associative. Section 3.1 does the
opposite. The claims follow section 4.3 and the columns of a run section 3.1, so left in a run is right in
Table 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lrp_companion.masks import NONE
from lrp_companion.registry import label_of

Value = Callable[[Any], Any]  # a column of an explanation: one number per example, or the paper's one number
Measures = Mapping[str, Any]


@dataclass(frozen=True)
class Spec:
    """How a claim is tested.

    `effects` makes named effects from a column: per example of a run, or from the paper's numbers.
    """

    where: str
    says: str
    task: str
    column: str
    effects: Callable[[Value, int], Measures]
    low: float = 0.0
    high: float = math.inf
    reading: bool = False  # of a table: the paper's text does not claim it


EXACT, NEAR = 0.99995, 0.2  # 1.0000 to four decimals, as Table 1 prints; "near zero"


def _first(layers: int) -> frozenset[int]:
    return frozenset(range(1, layers // 2 + 1))


def _last(layers: int) -> frozenset[int]:
    return frozenset(range(layers // 2 + 1, layers + 1))


def _all(layers: int) -> frozenset[int]:
    return frozenset(range(1, layers + 1))


def _thirds(layers: int) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """The first third of the layers, the middle and later ones together, and the last third.

    >>> [sorted(part) for part in _thirds(6)]
    [[1, 2], [3, 4, 5, 6], [5, 6]]
    """
    third = max(1, round(layers / 3))
    first, last = frozenset(range(1, third + 1)), frozenset(range(layers - third + 1, layers + 1))
    return first, _all(layers) - first, last


def _order(names: Sequence[str]) -> Callable[[Value, int], Measures]:
    """Each method minus the one before."""
    return lambda v, _: {f"{label_of(b)} - {label_of(a)}": v(b) - v(a) for a, b in pairwise(names)}


def _above(names: Sequence[str], others: Sequence[str]) -> Callable[[Value, int], Measures]:
    """Each of `names` minus each of `others`."""
    return lambda v, _: {f"{label_of(a)} - {label_of(b)}": v(a) - v(b) for a in names for b in others}


PRODUCTS = {"left-LOO": "Q(KᵀV)", "right-LOO": "(QKᵀ)V"}
"""Pair of maps as Table 1 names it, and the product of that side in section 4.3."""
COLUMNS = {"left-LOO": "right-LOO", "right-LOO": "left-LOO", "left-right": "left-right"}
"""Pair of maps as Table 1 names it, and the column of a run that has it."""


def _with_loo(explainer: str) -> Callable[[Value, int], Measures]:
    """Agreement of an explainer's maps with LOO, for both graphs of the product."""
    return lambda v, _: {
        f"{explainer}, {product} with LOO": v((explainer, pair)) for pair, product in PRODUCTS.items()
    }


def _singles(v: Value, layers: int) -> Measures:
    """What layers gain alone, a third of them together: the middle and last third (their mean) minus the
    first one; and the last minus the first one on the straight line over all layers.
    """
    if layers < 2:
        return {}
    by_layer = [v(frozenset([layer])) for layer in range(1, layers + 1)]
    first, later, last = _thirds(layers)
    means = [sum(by_layer[layer - 1] for layer in part) / len(part) for part in (later, first)]
    depth = [layer - (layers + 1) / 2 for layer in range(1, layers + 1)]
    slope = sum(x * y for x, y in zip(depth, by_layer, strict=True)) / sum(x * x for x in depth)
    return {
        "middle and last third - first third": (means[0] - means[1]) * len(first),
        "last third - first third, straight line": slope * (min(last) - 1) * len(first),
    }


def _front_to_back(v: Value, layers: int) -> Measures:
    """Mean rise in the middle and the last third minus the rise in the first one."""
    first = v(_thirds(layers)[0])
    return {"(all - first third) / 2 - (first third - none)": (v(_all(layers)) - first) / 2 - first + v(NONE)}


RISING = ("ig", "rollout", "attnlrp", "cp-lrp")
SPECS = (
    Spec(
        "abstract; 4.3, RQ1; Table 1",
        "AttnLRP's maps depend on how the product is grouped: r below 1",
        "mnist", "r",
        lambda v, _: {"AttnLRP, left with right": v(("AttnLRP", "left-right"))},
        low=-math.inf, high=EXACT,
    ),
    Spec(
        "4.3, RQ1; Table 1",
        "maps of LOO and of IG do not depend on the grouping: r is 1",
        "mnist", "r",
        lambda v, _: {f"{name}, left with right": v((name, "left-right")) for name in ("LOO", "IG")},
        low=EXACT,
    ),
    Spec(
        "4.3, RQ1; Table 1",
        "AttnLRP has next to no correlation with LOO, from the left and from the right",
        "mnist", "r",
        _with_loo("AttnLRP"), low=-NEAR, high=NEAR,
    ),
    Spec(
        "4.3, RQ1; Table 1",
        "AttnLRP agrees better with LOO from the left, Q(KᵀV), than from the right, (QKᵀ)V",
        "mnist", "r",
        lambda v, _: {
            "AttnLRP, Q(KᵀV) - (QKᵀ)V": v(("AttnLRP", "left-LOO")) - v(("AttnLRP", "right-LOO"))
        },
        reading=True,
    ),
    Spec(
        "4.3, RQ1; Table 1",
        "IG is correlated negatively with LOO",
        "mnist", "r",
        _with_loo("IG"), low=-math.inf, high=0,
    ),
    Spec(
        "abstract; 4.3, RQ2; Table 2",
        "on SST, CP-LRP agrees better with LOO than AttnLRP",
        "sst2", "r", _above(["cp-lrp"], ["attnlrp"]),
    ),
    Spec(
        "abstract; 4.3, RQ2; Table 2",
        "on IMDB, CP-LRP agrees better with LOO than AttnLRP",
        "imdb", "r", _above(["cp-lrp"], ["attnlrp"]),
    ),
    Spec(
        "4.3, RQ2; Table 2",
        "on SST, r rises from IG over rollout and AttnLRP to CP-LRP",
        "sst2", "r", _order(RISING),
        reading=True,
    ),
    Spec(
        "4.3, RQ2; Table 2",
        "on IMDB, r rises from IG over rollout and AttnLRP to CP-LRP",
        "imdb", "r", _order(RISING),
        reading=True,
    ),
    Spec(
        "4.3, RQ1; Table 2",
        "on SST, IG has next to no correlation with LOO",
        "sst2", "r", lambda v, _: {"IG": v("ig")}, low=-NEAR, high=NEAR,
    ),
    Spec(
        "4.3, RQ1; Table 2",
        "on IMDB, IG has next to no correlation with LOO",
        "imdb", "r", lambda v, _: {"IG": v("ig")}, low=-NEAR, high=NEAR,
    ),
    Spec(
        "introduction; Table 2",
        "on SST, AttnLRP separates better than CP-LRP by curves (Δ)",
        "sst2", "delta", _above(["attnlrp"], ["cp-lrp"]),
    ),
    Spec(
        "introduction; its Table 2 has the opposite",
        "on IMDB, AttnLRP separates better than CP-LRP by curves (Δ)",
        "imdb", "delta", _above(["attnlrp"], ["cp-lrp"]),
    ),
    Spec(
        "Table 2",
        "on SST, both LRP variants have a larger Δ than IG and rollout",
        "sst2", "delta", _above(RISING[2:], RISING[:2]),
        reading=True,
    ),
    Spec(
        "Table 2",
        "on IMDB, both LRP variants have a larger Δ than IG and rollout",
        "imdb", "delta", _above(RISING[2:], RISING[:2]),
        reading=True,
    ),
    Spec(
        "4.3, RQ3; Figure 2, Table A3",
        "on SST, bypassing the middle and later layers raises r above AttnLRP's",
        "sst2", "r",
        lambda v, n: {"middle and later thirds - AttnLRP": v(_thirds(n)[1]) - v(NONE)},
    ),
    Spec(
        "abstract; 4.3, RQ3; Table A3",
        "on SST, bypassing the last third raises r more than the first third",
        "sst2", "r",
        lambda v, n: {"last third - first third": v(_thirds(n)[2]) - v(_thirds(n)[0])},
    ),
    Spec(
        "introduction; Table A3",
        "on SST, with the middle and later layers bypassed, bypassing the first third too lowers r",
        "sst2", "r",
        lambda v, n: {"middle and later thirds - all layers": v(_thirds(n)[1]) - v(_all(n))},
        reading=True,
    ),
    Spec(
        "4.3, RQ3; Figure 2, Table A3",
        "on SST, front to back: r rises more in the middle and the last third than in the first",
        "sst2", "r", _front_to_back,
    ),
    Spec(
        "4.3, RQ3; Figure 2, Table A3",
        "on SST, single layers in the middle and later gain more r than those of the first third",
        "sst2", "r", _singles,
    ),
    Spec(
        "Figure 2, Table A3",
        "on SST, the same for Δ: single layers in the middle and later gain more",
        "sst2", "delta", _singles,
    ),
    Spec(
        "Figure 2, Table A3",
        "on IMDB, the same for Δ: single layers in the middle and later gain more",
        "imdb", "delta", _singles,
    ),
    Spec(
        "Figure 2, Table A3",
        "on IMDB, bypassing either half of the layers raises r above AttnLRP's",
        "imdb", "r",
        lambda v, n: {
            "later half - AttnLRP": v(_last(n)) - v(NONE), "first half - AttnLRP": v(_first(n)) - v(NONE),
        },
        reading=True,
    ),
)  # fmt: skip
