"""The audit as the boards of the widget `ProtocolSwitchboard`: every cell as a 16-bit integer, packed as
base64.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lrp_companion.analysis.digit_variants import MAPS_COMPARED, VARIANT_LABELS, digit_grid, digit_nearest
from lrp_companion.analysis.digit_variants import paper_values as digit_paper_values
from lrp_companion.analysis.protocol_grid import (
    AXIS_LABELS,
    AXIS_OPTIONS,
    NAMES,
    PROTOCOL_AXES,
    Grid,
    Row,
    grid,
    paper_values,
    presets,
)
from lrp_companion.runs.load import MnistGridRun, TextRun
from lrp_companion.schema import InputError, Protocol

UNDEFINED, SCALE = -32768, 10_000


def switchboard(runs: Iterable[Any], *, a: str = "cp-lrp", b: str = "attnlrp") -> dict[str, Any]:
    """Every cell of every run, as the widget `ProtocolSwitchboard` takes it: a board of reviews, then one of
    digits.

    Numbers are 16-bit integers, the value times 10,000, packed as base64; -32768 where there is none. With
    two decimals they print as the value does, so that the widget shows what a table shows.

    Parameters
    ----------
    runs : runs. Left out are those on reviews without both methods, and those on digits but for the first one
        over variants of the nets.

    Raises
    ------
    InputError : no run on reviews is left.
    """
    runs = list(runs)
    able = [run for run in runs if isinstance(run, TextRun) and {a, b} <= set(run.methods)]
    if not able:
        hint = "make one with lrp-companion run sst2"
        raise InputError("switchboard", got="no runs on reviews", expected=f"one with {a} and {b}", hint=hint)
    grids = [grid(run, a=a, b=b) for run in able]
    axes = [
        {
            "key": name,
            "label": AXIS_LABELS[name][0],
            "options": [{"key": key, "label": AXIS_LABELS[name][1][key]} for key in AXIS_OPTIONS[name]],
        }
        for name in PROTOCOL_AXES
    ]
    marked = [
        {"label": f"{label} ({own.title})", "state": _state(own, protocol)}
        for label, own, protocol in presets(grids)
    ]
    board = {
        "key": "text", "label": "Reviews", "a": NAMES.get(a, a), "b": NAMES.get(b, b), "axes": axes,
        "runs": [_packed_run(own) for own in grids], "start": marked[0]["state"], "presets": marked,
    }  # fmt: skip
    return {"boards": [board, *[digit_board(run) for run in runs if isinstance(run, MnistGridRun)][:1]]}


def _state(found: Grid, protocol: Protocol) -> dict[str, str]:
    return {"run": found.run, **{name: getattr(protocol, name) for name in PROTOCOL_AXES}}


def _packed_run(found: Grid) -> dict[str, Any]:
    """All options of every axis, also those that the run has not."""
    shape = tuple(map(len, AXIS_OPTIONS.values()))
    cells, missing = np.full((*shape, 9), UNDEFINED, dtype="<i2"), np.full(shape, found.n, dtype="<u2")
    own = np.ix_(
        *([AXIS_OPTIONS[name].index(option) for option in found.axes[name]] for name in PROTOCOL_AXES)
    )
    values = found.values[..., [1, 0, 2], :].reshape(*found.shape, 9)  # b, a, a - b
    cells[own] = _steps(values)
    missing[own] = found.n - found.defined[..., 2]
    return {
        "key": found.run, "label": found.title, "n": found.n,
        "paper": paper_values(found.task, found.a, found.b),
        "cells": _packed(cells, "<i2"), "undefined": _packed(missing, "<u2"),
    }  # fmt: skip


def digit_board(run: MnistGridRun) -> Row:
    """The variants as a board of the widget `ProtocolSwitchboard`: AttnLRP's agreement with LOO from the left
    and from the right.
    """
    rows, printed = digit_grid(run), digit_paper_values()
    choices: Mapping[str, Sequence[Any]] = {**run.manifest["config"]["choices"], "map": MAPS_COMPARED}
    right, left = "AttnLRP, right with LOO", "AttnLRP, left with LOO"
    cells = np.array(
        [
            [
                own
                for part in (row[right], row[left], row["difference"])
                for own in (part.mean, part.low, part.high)
            ]
            for row in rows
        ]
    )
    axes = [
        {
            "key": name,
            "label": VARIANT_LABELS[name][0],
            "options": [{"key": _key(own), "label": VARIANT_LABELS[name][1][own]} for own in options],
        }
        for name, options in choices.items()
    ]
    start = {"run": run.name, **{name: _key(options[0]) for name, options in choices.items()}}
    nearest = digit_nearest(run)["nearest"]
    return {
        "key": "digits", "label": "Digits", "a": "AttnLRP (left)", "b": "AttnLRP (right)", "axes": axes,
        "runs": [
            {
                "key": run.name, "label": f"{len(run.seeds)} nets a variant", "n": run.n,
                "paper": {"a": printed[left], "b": printed[right]},
                "cells": _packed(_steps(cells), "<i2"),
                "undefined": _packed(np.array([row["difference"].undefined for row in rows]), "<u2"),
            }
        ],
        "start": start,
        "presets": [
            {"label": "the plainest net", "state": start},
            {"label": "nearest to the paper's Table 1",
                "state": {"run": run.name, **{name: _key(nearest[name]) for name in choices}}},
        ],
    }  # fmt: skip


def _key(option: Any) -> str:
    return {True: "yes", False: "no"}[option] if isinstance(option, bool) else str(option)


def _steps(values: np.ndarray) -> np.ndarray:
    """Values in steps of 1 / SCALE: the nearest step, or its neighbour where only that prints as the value,
    with two decimals.
    """
    steps = np.where(np.isnan(values), UNDEFINED, np.round(values * SCALE))
    for place in zip(*np.nonzero(steps % 100 == 50), strict=True):
        near = (steps[place], steps[place] - 1, steps[place] + 1)
        steps[place] = next(step for step in near if f"{step / SCALE:.2f}" == f"{values[place]:.2f}")
    return steps


def _packed(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()
