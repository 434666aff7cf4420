"""The three paths of bypassed layers of several runs next to the paper's, layer by layer. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lrp_companion.checks import InputError
from lrp_companion.masks import NONE, path_masks
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import side_of_zero
from lrp_companion.paper.protocol_grid import title
from lrp_companion.paper.tables import figure2, table2
from lrp_companion.registry import label_of
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, Protocol

KEYS = dict(zip(("words", "positions", "sums"), PROTOCOLS, strict=True))
"""A short key of each protocol, for addresses."""
LABELS = {"front-to-back": "front to back", "back-to-front": "back to front", "single": "single layer"}
Row = dict[str, Any]


def depth_paths(runs: Iterable[Any]) -> Row:
    r"""Mean r with LOO along each path under each protocol, for the widget `LayerPaths`.

    On the paths from either end, layers 1 to k or k to L are bypassed; on the single one layer k is. What is
    compared at the *ends* is $\bar r(\{1..L\}) - \bar r(\varnothing)$, CP-LRP minus AttnLRP, on the first two
    and $\bar r(\{L\}) - \bar r(\{1\})$ on the single one, paired over examples; its side is that of its
    whole interval (`side_of_zero`).

    Parameters
    ----------
    runs : those on reviews with masks are used.

    Returns
    -------
    dict
        `protocols` and `paths` as rows `key` and `label`; `runs`, each with `key`, `label`, `n`, `layers`,
        `cells[protocol][path]` (`mean`, `low`, `high`, a number per layer k = 1..L), `levels[protocol]` (the
        means of AttnLRP and CP-LRP), `ends[protocol][path]` (`mean`, `low`, `high`, `side`), `paper[path]`
        (the paper's Table A3 by layer, None for another depth or other data) and `paper ends[path]`.

    Raises
    ------
    InputError : no run with masks is left.

    >>> depth_paths(load_runs("results"))["runs"][0]["label"]  # doctest: +SKIP
    'SST-2, 12 layers'
    """
    masked = [run for run in runs if isinstance(run, TextRun) and run.masks]
    if not masked:
        hint = "make one with lrp-companion run sst2 --masks paths"
        raise InputError("depth_paths", got="no run with masks", expected="one or more", hint=hint)
    return {
        "protocols": [{"key": key, "label": label} for key, label in KEYS.items()],
        "paths": [{"key": key, "label": label} for key, label in LABELS.items()],
        "levels": [label_of("attnlrp"), label_of("cp-lrp")],
        "runs": [_run(run) for run in masked],
    }


def _run(run: TextRun) -> Row:
    curves = {key: figure2(run, protocol=PROTOCOLS[name]) for key, name in KEYS.items()}
    printed = next(iter(curves.values()))["paper"]
    by_layer = {path: list(_by_layer(path, values)) for path, values in (printed or {}).items()}
    return {
        "key": run.name,
        "label": title(run),
        "n": run.n,
        "layers": run.layers,
        "cells": {key: _cells(drawn["paths"]) for key, drawn in curves.items()},
        "levels": {
            key: [_number(level.mean) for level in drawn["levels"].values()] for key, drawn in curves.items()
        },
        "ends": {key: _ends(run, PROTOCOLS[name]) for key, name in KEYS.items()},
        "paper": by_layer or None,
        "paper ends": _paper_ends(run, by_layer),
    }


def _by_layer(path: str, steps: Sequence[Any]) -> Sequence[Any]:
    """The steps of a path in the order of layer k: the one from the back begins with the last layer."""
    return steps[::-1] if path == "back-to-front" else steps


def _cells(paths: dict[str, list[Interval]]) -> Row:
    return {
        path: {
            side: [_number(getattr(step, side)) for step in _by_layer(path, steps)]
            for side in ("mean", "low", "high")
        }
        for path, steps in paths.items()
    }


def ends_of(path: str, layers: int) -> tuple[frozenset[int], frozenset[int]]:
    """The two masks that are compared on a path, the second taken from the first.

    >>> [[sorted(mask) for mask in ends_of(path, 3)] for path in ("single", "front-to-back")]
    [[[3], [1]], [[1, 2, 3], []]]
    """
    steps = path_masks(layers)[path]
    return (steps[-1], steps[0]) if path == "single" else (steps[-1], NONE)


def _ends(run: TextRun, protocol: Protocol) -> Row:
    out = {}
    for path in LABELS:
        value = run.difference(*ends_of(path, run.layers), protocol)
        numbers = {side: _number(getattr(value, side)) for side in ("mean", "low", "high")}
        out[path] = {**numbers, "side": side_of_zero(value)}
    return out


def _paper_ends(run: TextRun, by_layer: dict[str, list[float]]) -> Row:
    """The paper's differences at the ends: of its Table 2, and of its Table A3 for the single layers."""
    rows = {row["method"]: row["r, paper"] for row in table2(run)}
    a, b = rows.get("cp-lrp"), rows.get("attnlrp")
    whole = None if a is None or b is None else round(a - b, 4)
    single = round(by_layer["single"][-1] - by_layer["single"][0], 4) if by_layer else None
    return {"front-to-back": whole, "back-to-front": whole, "single": single}


def _number(value: float) -> float | None:
    """Eight digits, more than is shown; None where it is undefined."""
    return None if np.isnan(value) else float(f"{value:.8g}")
