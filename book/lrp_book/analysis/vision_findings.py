"""Numbers of the sentences on a model of images in chapter 8, by name for `findings.finding`. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lrp_book.analysis.vision import FAILED, MET, OPEN, PLAIN, READINGS, difference, mean_r, vision_outcomes
from lrp_book.committed import Records

Value = Callable[[Records], Any]
RECORDS, TRAININGS = "vit", "training/vit"
METHODS = ("attnlrp", "cp-lrp", "mask-gradient", "mask-gradient:groups=8", "gradient-x-input", "rollout")


def vision_catalogue() -> dict[str, Value]:
    """What the section on images can ask for, by name."""
    out: dict[str, Value] = {
        "vit, trainings": lambda kept: len(vision_of(kept)),
        "vit, images": lambda kept: int(vision_of(kept)[0]["config"]["images"]),
        "vit, layers": lambda kept: int(vision_of(kept)[0]["config"]["layers"]),
        "vit, tested": lambda kept: _tested(kept)[0][1],
        "vit, least right": lambda kept: min(_tested(kept))[0],
        "vit, most right": lambda kept: max(_tested(kept))[0],
        "vit, PA-LRP minus AttnLRP, patches": lambda kept: difference(
            vision_of(kept), "attnlrp", "attnlrp", "patches + positions", PLAIN
        ),
        "vit, last layer bypassed minus AttnLRP, patches": lambda kept: difference(
            vision_of(kept), f"lrp:bypass={vision_of(kept)[0]['config']['layers']}", "attnlrp", PLAIN
        ),
        "vit, predictions": lambda kept: len(vision_outcomes(vision_of(kept)[0])),
    }
    for reading in READINGS:
        out[f"vit, CP-LRP minus AttnLRP, {reading}"] = _gap("cp-lrp", "attnlrp", reading)
        for method in METHODS:
            out[f"vit, {method}, {reading}"] = _mean(method, reading)
        for method in ("attnlrp", "cp-lrp"):
            out[f"vit, mask gradient minus {method}, {reading}"] = _gap("mask-gradient", method, reading)
    for outcome in (MET, FAILED, OPEN):
        out[f"vit, predictions {outcome}"] = _outcomes(outcome)
    return out


def vision_of(kept: Records) -> Sequence[Mapping[str, Any]]:
    """The records of the model of images, a training each; the first is the one that was predicted.

    Raises
    ------
    MissingRecord : there is none.
    """
    return kept.sheets(RECORDS)


def _tested(kept: Records) -> list[tuple[int, int]]:
    """Of each training the number of test images that it is right on, and of all."""
    tested = [sheet["mnist_test"] for sheet in kept.sheets(TRAININGS)]
    return [(round(one["accuracy"] * one["n"]), int(one["n"])) for one in tested]


def _gap(a: str, b: str, reading: str) -> Value:
    return lambda kept: difference(vision_of(kept), a, b, reading)


def _mean(method: str, reading: str) -> Value:
    return lambda kept: mean_r(vision_of(kept), method, reading)


def _outcomes(outcome: str) -> Value:
    return lambda kept: [row["outcome"] for row in vision_outcomes(vision_of(kept)[0])].count(outcome)
