"""What was predicted before a run was made, point by point, and what became of it. No torch.

The predictions stand in `results/predictions/`; a point is judged in every training of its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lrp_companion.checks import InputError
from lrp_companion.lab.load import TextRun
from lrp_companion.lab.paper.protocol_grid import needs_text
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import side_of_zero

Row = dict[str, Any]
MET, FAILED, MIXED, OPEN = "met", "failed", "mixed", "open"
BOTH_RULES = ("attnlrp", "cp-lrp")


@dataclass(frozen=True)
class Point:
    """A point of a prediction: its statement, its groups of trainings, and whether a training meets it.

    `figures` takes a run and returns the numbers that `holds` judges; `methods` and `masks` are what a run
    needs for it.
    """

    number: int
    says: str
    groups: tuple[str, ...]
    figures: Callable[[TextRun], dict[str, float]]
    holds: Callable[[Mapping[str, float]], bool]
    methods: tuple[str, ...] = BOTH_RULES
    masks: bool = False


def judged(points: Sequence[Point], groups: Mapping[str, Sequence[TextRun]]) -> list[Row]:
    """The outcome of each point in each of its groups: met in all trainings, failed in all, or mixed.

    Returns
    -------
    list
        Rows `point` (its number), `says`, `group`, `outcome`, `held` (trainings in which it holds), `of`,
        `figures`: the numbers of each training, by name.
    """
    rows = []
    for point in points:
        for name in point.groups:
            if name in groups:
                figures = [point.figures(_needed(run, point)) for run in groups[name]]
                held = sum(point.holds(values) for values in figures)
                row = {"point": point.number, "says": point.says, "group": name, "held": held}
                row |= {"outcome": outcome(held, len(figures)), "of": len(figures)}
                rows.append({**row, "figures": tuple(figures)})
    return rows


def outcome(held: int, of: int) -> str:
    """Of a point that holds in so many cases of so many: met in all, failed in all, or mixed."""
    return MET if held == of else MIXED if held else FAILED


def by_sides(values: Iterable[Interval], wanted: Iterable[str]) -> str:
    """Of intervals and the sides of 0 that were predicted: met if each lies on its side, failed if one lies
    on the other side, else open.

    >>> by_sides([Interval(0.2, 0.1, 0.3, 9), Interval(0.1, -0.1, 0.3, 9)], ["above", "above"])
    'open'
    """
    pairs = [(side_of_zero(value), side) for value, side in zip(values, wanted, strict=True)]
    if any(set(pair) == {"above", "below"} for pair in pairs):
        return FAILED
    return MET if all(came == side for came, side in pairs) else OPEN


def _needed(run: TextRun, point: Point) -> TextRun:
    """The run, if it has what the point needs."""
    needs_text("judged", run)
    if not set(point.methods) <= set(run.methods) or (point.masks and not run.masks):
        got = f"{run.name}, with {', '.join(run.methods)}"
        expected = f"{', '.join(sorted(point.methods))}, and masks on paths for layers"
        raise InputError("judged", got=got, expected=expected, hint=f"point {point.number} needs them")
    return run


def one_sign(values: Mapping[str, float]) -> bool:
    """Whether all numbers lie on one side of 0.

    >>> one_sign({"words": -0.1, "all tokens": -0.2})
    True
    """
    return len({bool(value > 0) for value in values.values()}) == 1
