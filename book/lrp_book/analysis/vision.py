"""What records of `records.vision_record` say of models of images: r with LOO, and outcomes. No torch.

Several records are of trainings of one model that explain the same images.

The prediction is in `results/predictions/2026-11-24-vit.md`; `vision_outcomes` judges it by the rule that is
written there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.metrics.paired import mean_over

Row = dict[str, Any]
Trainings = Sequence[Mapping[str, Any]]
READINGS: Mapping[str, tuple[str, str]] = {
    "patches": ("word", "patches"),
    "patches + positions": ("word+position", "patches"),
    "all tokens": ("word", "all"),
    "all tokens + positions": ("word+position", "all"),
}
"""Ways to read a map, as site and tokens: with [CLS] or without, with relevance at positions or without."""
MET, FAILED, OPEN = "met", "failed", "open"


def column(record: Mapping[str, Any], method: str, reading: str) -> np.ndarray:
    """r with LOO of each image, (n,), NaN where undefined.

    Parameters
    ----------
    method : "attnlrp", "cp-lrp", "lrp:bypass=4" with layers joined by "+", or a method of the record; one
        without relevance at positions has a single map.

    Raises
    ------
    InputError : a method or reading that the record lacks.
    """
    layers = range(1, record["config"]["layers"] + 1)
    bypass = {"attnlrp": [], "cp-lrp": list(layers)}.get(method)
    if method.startswith("lrp:bypass="):
        bypass = [int(layer) for layer in method.partition("=")[2].split("+")]
    site, tokens = READINGS.get(reading, (None, None))
    named = "lrp" if bypass is not None else method
    matching = [
        row
        for row in record["rows"]
        if (row["method"], row["tokens"], list(row["bypass"] or [])) == (named, tokens, bypass or [])
    ]
    if not matching:
        known = ", ".join(dict.fromkeys(row["method"] for row in record["rows"]))
        got, expected = f"{method!r} at {reading!r}", f"one of {known} at one of {', '.join(READINGS)}"
        raise InputError("vision", got=got, expected=expected, hint="see lrp_book.records.vision_record")
    at_site = [row for row in matching if row["site"] == site] or matching
    return np.array([np.nan if r is None else r for r in at_site[0]["r"]], dtype=np.float64)


def mean_r(records: Trainings, method: str, reading: str) -> Interval:
    """Mean r over images and, with several records, over trainings."""
    return mean_over({k: column(record, method, reading) for k, record in enumerate(records)})


def vision_rows(records: Trainings) -> list[Row]:
    """Mean r by reading: AttnLRP, CP-LRP, the mask gradient and other methods, and CP-LRP minus AttnLRP.

    Returns
    -------
    list
        Rows `reading`, a method each as an `Interval`, and `d`, paired.
    """
    others = [row["method"] for row in records[0]["rows"] if row["bypass"] is None]
    methods = ["attnlrp", "cp-lrp", *dict.fromkeys(others)]
    return [
        {
            "reading": reading,
            **{method: mean_r(records, method, reading) for method in methods},
            "d": difference(records, "cp-lrp", "attnlrp", reading),
        }
        for reading in READINGS
    ]


def difference(records: Trainings, a: str, b: str, reading: str, other: str | None = None) -> Interval:
    """Mean of r of a minus r of b, paired by image; b is read as a is, or as `other`."""
    return mean_over(
        {
            k: column(record, a, reading) - column(record, b, other or reading)
            for k, record in enumerate(records)
        }
    )


def path_rows(records: Trainings) -> list[Row]:
    """Mean r while layers are bypassed from the last to the first: a row per number of them, by reading."""
    layers = records[0]["config"]["layers"]
    rows = []
    for count in range(layers + 1):
        bypass = "+".join(str(layer) for layer in range(layers - count + 1, layers + 1))
        method = f"lrp:bypass={bypass}" if count else "attnlrp"
        means = {reading: mean_r(records, method, reading) for reading in READINGS}
        rows.append({"bypassed": count, **means})
    return rows


@dataclass(frozen=True)
class Point:
    """One point of the prediction: differences (a, b, reading, reading of b) with the sign that each has."""

    number: int
    says: str
    differences: tuple[tuple[int, str, str, str, str], ...]


PLAIN, COUNTED = "patches", "all tokens + positions"
POINTS = (
    Point(1, "CP-LRP is ahead with [CLS] and positions", ((1, "cp-lrp", "attnlrp", COUNTED, COUNTED),)),
    Point(2, "The readings have two signs", (
        (-1, "cp-lrp", "attnlrp", PLAIN, PLAIN), (1, "cp-lrp", "attnlrp", COUNTED, COUNTED))),
    Point(3, "The mask gradient is ahead at the patches", (
        (1, "mask-gradient", "attnlrp", PLAIN, PLAIN), (1, "mask-gradient", "cp-lrp", PLAIN, PLAIN))),
    Point(4, "Positions bring AttnLRP nearer to LOO", (
        (1, "attnlrp", "attnlrp", "patches + positions", PLAIN),)),
    Point(5, "Bypassing the last layer alone helps", ((1, "lrp:bypass=4", "attnlrp", PLAIN, PLAIN),)),
)  # fmt: skip
"""The prediction, point by point."""


def vision_outcomes(record: Mapping[str, Any]) -> list[Row]:
    """What became of each point in one training.

    A point is met if every interval lies on its side of 0, failed if one lies on the other, else open.

    Returns
    -------
    list
        Rows `point`, `says`, `outcome`, and `figures`, the differences as intervals.
    """
    rows = []
    for point in POINTS:
        figures: Sequence[Interval] = [
            difference([record], a, b, reading, other) for _, a, b, reading, other in point.differences
        ]
        signs = [sign for sign, *_ in point.differences]
        sides = [
            (sign * f.low, sign * f.high) if sign > 0 else (-f.high, -f.low)
            for sign, f in zip(signs, figures, strict=True)
        ]
        outcome = MET if all(low > 0 for low, _ in sides) else OPEN
        outcome = FAILED if any(high < 0 for _, high in sides) else outcome
        rows.append(
            {"point": point.number, "says": point.says, "outcome": outcome, "figures": tuple(figures)}
        )
    return rows
