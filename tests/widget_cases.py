"""Every widget with good arguments, from a tiny model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import lrp_companion as lrp
from lrp_companion.lab.anytime import anytime_maps
from lrp_companion.lab.digit_invariance import share_digits
from lrp_companion.lab.perturbation_paths import perturbation_paths
from lrp_companion.widgets import base

MARKUP = ("<img src=x onerror=alert(1)>", "</script>", "&amp;")
HOSTILE = ("[CLS]", *MARKUP, "\u05e9\u05dc", "\U0001f600", "[SEP]")
"""Tokens that a page must show as they are."""


def board() -> dict[str, Any]:
    """A board of two choices with two options each, as `boards.switchboard` makes them."""
    cells = np.arange(36).reshape(2, 2, 9)
    run = {"key": "one", "label": "run one", "n": 9, "paper": None}
    arrays = {"cells": base.packed(cells, "int16"), "undefined": base.packed(np.zeros((2, 2)), "uint16")}
    axes = [
        {"key": key, "label": key, "options": [{"key": option, "label": option} for option in "ab"]}
        for key in ("bias", "steps")
    ]
    start = {"run": "one", "bias": "a", "steps": "b"}
    named = {"key": "text", "label": "Text", "a": "CP-LRP", "b": "AttnLRP"}
    return {**named, "axes": axes, "runs": [{**run, **arrays}], "start": start, "presets": []}


def widget_arguments(clf: Any, *further: str) -> dict[str, dict[str, Any]]:
    """Good arguments of every widget, by its name; with further texts where one takes several."""
    texts, methods = ["a film", *further], ("loo", "attnlrp")
    records = {name: lrp.attribute(clf, texts, method=name) for name in methods}
    net = lrp.LinearAttention(tokens=16, dim=4, bias=True, seed=3, dtype=torch.float64)
    images = np.random.default_rng(0).random((2, 4, 4))
    lattices, loo = [lrp.layer_lattice(clf, text) for text in texts], records["loo"][0]
    ways: dict[str, Any] = {
        "attnlrp": {},
        "cp-lrp": {"bypass": [1, 2]},
        "key-cut": {"cut": ("key", "special")},
    }
    flows = [{name: lrp.layer_relevance(clf, text, **of) for name, of in ways.items()} for text in texts]
    model = {"name": "tiny", "labels": ["no", "yes"], "layers": 2, "folder": "m/", "fetched": 1, "memory": 1}
    return {
        "TokenHeatmap": {"attributions": [loo], "titles": ["one"], "loo": loo},
        "LayerToggles": {"lattice": lattices, "loo": records["loo"]},
        "OutlierScene": {"maps": [records["attnlrp"][0], records["attnlrp"][0]], "loo": loo},
        "LayerFlow": {"flows": flows, "labels": ["no", "yes"]},
        "PerturbationPlayer": {"paths": perturbation_paths(clf, texts, records)},
        "FrontierPlayer": {"texts": anytime_maps(clf, texts)},
        "SharesSimplex": {"digits": share_digits(net, images, [1, 2])},
        "ProtocolSwitchboard": {"data": {"boards": [board()]}},
        "HeadStepper": {"q": 1.0, "k": [1, 1, 2], "v": [2, -6, 8]},
        "ProductTree": {"values": [2, 3, 4], "grouping": "(x1 x2) x3"},
        "SoftmaxLab": {"logits": [1, 0, 0], "values": [2, 1, -1]},
        "SentenceBox": {"live": model},
        "LiveSentence": {"widget": lrp.widgets.LayerToggles(lattices[0], loo), "explain": len},
    }
