"""The paper's tables, for comparison, never used as results; and its claims as rows: which effects test each,
and the side on which the paper's effects lie.

An effect is named by its formula: sets of layers, methods or pairs of maps, one minus another.

For digits, the paper's two orders are named here by their products: section 4.3, to which Table 1 and the
claims belong, calls Q(KᵀV) left, section 3.1 and the columns of a run (QKᵀ)V.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from lrp_companion.registry import label_of
from lrp_companion.schema import NONE

DATA = {"sst2": "SST", "imdb": "IMDB"}
FINGERPRINTS = {"sst2": "5a59d3b0e50a", "imdb": "2856d583b652", "mnist": "051f70252e28"}
"""Fingerprints of the splits that the paper measures on: SST-2 validation, IMDB test, MNIST test."""


def on_paper_data(config: Mapping[str, Any]) -> bool:
    """Whether a run's data are the paper's, by their fingerprint and not by a file's name."""
    return config["task"] in FINGERPRINTS and config["data"] == FINGERPRINTS[config["task"]]


def paper_table(name: str) -> list[dict[str, Any]]:
    """Rows of the paper's Table 1, 2 or A3 as printed (You et al. 2025, arXiv 2510.18810).

    >>> paper_table("table1")[2]["left_vs_right"]
    0.7865
    """
    file = resources.files("lrp_companion").joinpath("embedded/paper_tables.json")
    return json.loads(file.read_text(encoding="utf-8"))[name]


def paper_paths(dataset: str, *, column: str = "loo_r") -> dict[str, list[float]]:
    """A column of the paper's Table A3 along its three paths ("SST" or "IMDB"), each in its order.

    >>> paper_paths("SST")["back-to-front"][:3]
    [0.22, 0.26, 0.38]
    """
    out: dict[str, list[float]] = {}
    for row in paper_table("tableA3"):
        if row["dataset"] == dataset:
            out.setdefault(row["path"].replace("_", "-"), []).append(row[column])
    return out


Weights = dict[Any, float]
"""Of each explanation (a method, a set of bypassed layers, or explainer and pair of maps) in an effect."""


@dataclass(frozen=True)
class Spec:
    """How a claim is tested: the effects in a column of runs of a task, and between which limits they are.

    A `reading` is of a table: the paper's text does not claim it.
    """

    where: str
    says: str
    task: str
    column: str
    effects: tuple[str, ...]
    low: float = 0.0
    high: float = math.inf
    reading: bool = False


SINGLE = "middle and last third - first third"
SLOPE = "last third - first third, straight line"
FRONT = "(all - first third) / 2 - (first third - none)"


def weights(effect: str, layers: int) -> Weights:
    """The sum of explanations that an effect is; none if a model has too few layers.

    >>> weights("last third - first third", 6) == {frozenset({5, 6}): 1.0, frozenset({1, 2}): -1.0}
    True
    """
    parts, every = thirds(layers), frozenset(range(1, layers + 1))
    first, later = parts["first third"], parts["middle and later thirds"]
    singles = [frozenset([layer]) for layer in range(1, layers + 1)]
    if effect == FRONT:  # mean rise in the middle and the last third minus the rise in the first one
        return _total((0.5, every), (-1.5, first), (1.0, NONE))
    if effect == SINGLE:  # what layers gain alone, a third of them together
        each = [(len(first) / len(later) if one <= later else -1.0, one) for one in singles if layers > 1]
        return _total(*each)
    if effect == SLOPE:  # the same on the straight line over all layers
        depth = [layer - (layers + 1) / 2 for layer in range(1, layers + 1)]
        step = (layers - len(first)) * len(first) / (sum(x * x for x in depth) or 1)
        return _total(*((step * x, one) for one, x in zip(singles, depth, strict=True) if layers > 1))
    if effect == "AttnLRP, Q(KᵀV) - (QKᵀ)V":
        return _total((1.0, ("AttnLRP", "right-LOO")), (-1.0, ("AttnLRP", "left-LOO")))
    named: dict[str, Any] = {label_of(name): name for name in RISING} | parts
    named |= {"all layers": every, "first half": every - _last(layers), "later half": _last(layers)}
    for name in ("LOO", "IG", "AttnLRP"):
        named[f"{name}, left with right"] = name, "left-right"
        named[f"{name}, Q(KᵀV) with LOO"] = name, "right-LOO"
        named[f"{name}, (QKᵀ)V with LOO"] = name, "left-LOO"
    plus, *minus = effect.split(" - ")
    return _total((1.0, named[plus]), *((-1.0, named[name]) for name in minus))


def _total(*terms: tuple[float, Any]) -> Weights:
    out: Weights = {}
    for weight, explanation in terms:  # in a model of one layer several sets are the same
        out[explanation] = out.get(explanation, 0.0) + weight
    return out


def thirds(layers: int) -> dict[str, frozenset[int]]:
    """The first third of the layers, the middle and later ones together, and the last third."""
    third = max(1, round(layers / 3))
    return {
        "first third": frozenset(range(1, third + 1)),
        "middle and later thirds": frozenset(range(third + 1, layers + 1)),
        "last third": frozenset(range(layers - third + 1, layers + 1)),
    }


def _last(layers: int) -> frozenset[int]:
    return frozenset(range(layers // 2 + 1, layers + 1))


def _both(explainer: str) -> tuple[str, ...]:
    """Agreement of an explainer's maps with LOO, for both graphs of the product."""
    return (f"{explainer}, Q(KᵀV) with LOO", f"{explainer}, (QKᵀ)V with LOO")


EXACT, NEAR = 0.99995, 0.2  # 1.0000 to four decimals, as Table 1 prints; "near zero"
RISING = ("ig", "rollout", "attnlrp", "cp-lrp")
RISES = ("rollout - IG", "AttnLRP - rollout", "CP-LRP - AttnLRP")
LARGER = ("AttnLRP - IG", "AttnLRP - rollout", "CP-LRP - IG", "CP-LRP - rollout")
RQ1, RQ2, RQ3 = "4.3, RQ1; Table 1", "4.3, RQ2; Table 2", "4.3, RQ3; Figure 2, Table A3"
INF, FIGURE = math.inf, "Figure 2, Table A3"
SPECS = (
    Spec("abstract; 4.3, RQ1; Table 1", "AttnLRP's maps depend on how the product is grouped: r below 1",
         "mnist", "r", ("AttnLRP, left with right",), -INF, EXACT),
    Spec(RQ1, "maps of LOO and of IG do not depend on the grouping: r is 1",
         "mnist", "r", ("LOO, left with right", "IG, left with right"), EXACT),
    Spec(RQ1, "AttnLRP has next to no correlation with LOO, from the left and from the right",
         "mnist", "r", _both("AttnLRP"), -NEAR, NEAR),
    Spec(RQ1, "AttnLRP agrees better with LOO from the left, Q(KᵀV), than from the right, (QKᵀ)V",
         "mnist", "r", ("AttnLRP, Q(KᵀV) - (QKᵀ)V",), reading=True),
    Spec(RQ1, "IG is correlated negatively with LOO", "mnist", "r", _both("IG"), -INF, 0),
    *(Spec("abstract; 4.3, RQ2; Table 2", f"on {data}, CP-LRP agrees better with LOO than AttnLRP",
           task, "r", ("CP-LRP - AttnLRP",)) for task, data in DATA.items()),
    *(Spec(RQ2, f"on {data}, r rises from IG over rollout and AttnLRP to CP-LRP",
           task, "r", RISES, reading=True) for task, data in DATA.items()),
    *(Spec("4.3, RQ1; Table 2", f"on {data}, IG has next to no correlation with LOO",
           task, "r", ("IG",), -NEAR, NEAR) for task, data in DATA.items()),
    Spec("introduction; Table 2", "on SST, AttnLRP separates better than CP-LRP by curves (Δ)",
         "sst2", "delta", ("AttnLRP - CP-LRP",)),
    Spec("introduction; its Table 2 has the opposite",
         "on IMDB, AttnLRP separates better than CP-LRP by curves (its Table 2: the opposite)",
         "imdb", "delta", ("AttnLRP - CP-LRP",)),
    *(Spec("Table 2", f"on {data}, both LRP variants have a larger Δ than IG and rollout",
           task, "delta", LARGER, reading=True) for task, data in DATA.items()),
    Spec(RQ3, "on SST, bypassing the middle and later layers raises r above AttnLRP's",
         "sst2", "r", ("middle and later thirds - AttnLRP",)),
    Spec("abstract; 4.3, RQ3; Table A3",
         "on SST, bypassing the last third raises r more than the first third",
         "sst2", "r", ("last third - first third",)),
    Spec("introduction; Table A3",
         "on SST, with the middle and later layers bypassed, bypassing the first third too lowers r",
         "sst2", "r", ("middle and later thirds - all layers",), reading=True),
    Spec(RQ3, "on SST, front to back: r rises more in the middle and the last third than in the first",
         "sst2", "r", (FRONT,)),
    Spec(RQ3, "on SST, single layers in the middle and later gain more r than those of the first third",
         "sst2", "r", (SINGLE, SLOPE)),
    *(Spec(FIGURE, f"on {data}, the same for Δ: single layers in the middle and later gain more",
           task, "delta", (SINGLE, SLOPE)) for task, data in DATA.items()),
    Spec(FIGURE, "on IMDB, bypassing either half of the layers raises r above AttnLRP's",
         "imdb", "r", ("later half - AttnLRP", "first half - AttnLRP"), reading=True),
)  # fmt: skip
