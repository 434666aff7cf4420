"""Numbers of the sentences on a model of images in chapter 8, by name for `findings.finding`. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lrp_companion.analysis.finding_records import Records
from lrp_companion.analysis.vision import (
    FAILED,
    MET,
    OPEN,
    PLAIN,
    READINGS,
    column,
    difference,
    vision_outcomes,
)
from lrp_companion.metrics import bootstrap_mean

Value = Callable[[Records], Any]
RECORDS, TRAININGS = "vit", "training/vit"
METHODS = ("attnlrp", "cp-lrp", "mask-gradient", "mask-gradient:groups=8", "gradient-x-input", "rollout")


def vision_catalogue() -> dict[str, Value]:
    """What the section on images can ask for, by name."""
    out: dict[str, Value] = {
        "vit, images": lambda kept: int(vision_of(kept)["config"]["images"]),
        "vit, layers": lambda kept: int(vision_of(kept)["config"]["layers"]),
        "vit, tested": lambda kept: int(_tested(kept)["n"]),
        "vit, right": lambda kept: round(_tested(kept)["accuracy"] * _tested(kept)["n"]),
        "vit, PA-LRP minus AttnLRP, patches": lambda kept: difference(
            vision_of(kept), "attnlrp", "attnlrp", "patches + positions", PLAIN
        ),
        "vit, last layer bypassed minus AttnLRP, patches": lambda kept: difference(
            vision_of(kept), f"lrp:bypass={vision_of(kept)['config']['layers']}", "attnlrp", PLAIN
        ),
        "vit, predictions": lambda kept: len(vision_outcomes(vision_of(kept))),
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


def vision_of(kept: Records) -> Mapping[str, Any]:
    """The record of the model of images.

    Raises
    ------
    MissingRecord : there is none.
    """
    return kept.sheets(RECORDS)[0]


def _tested(kept: Records) -> Mapping[str, Any]:
    return kept.sheets(TRAININGS)[0]["mnist_test"]


def _gap(a: str, b: str, reading: str) -> Value:
    return lambda kept: difference(vision_of(kept), a, b, reading)


def _mean(method: str, reading: str) -> Value:
    return lambda kept: bootstrap_mean(column(vision_of(kept), method, reading))


def _outcomes(outcome: str) -> Value:
    return lambda kept: [row["outcome"] for row in vision_outcomes(vision_of(kept))].count(outcome)
