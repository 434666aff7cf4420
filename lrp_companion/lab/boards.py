"""The protocol audit as boards of the widget `ProtocolSwitchboard`: cells as packed 16-bit integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lrp_companion.checks import InputError
from lrp_companion.lab.load import MnistGridRun, TextRun
from lrp_companion.lab.paper.digit_variants import MAPS_COMPARED, VARIANT_LABELS, digit_grid, digit_nearest
from lrp_companion.lab.paper.digit_variants import paper_values as digit_paper_values
from lrp_companion.lab.paper.protocol_grid import (
    AXIS_LABELS,
    GRID_OPTIONS,
    PROTOCOL_AXES,
    Grid,
    Row,
    grid,
    paper_values,
    presets,
)
from lrp_companion.registry import label_of
from lrp_companion.widgets.base import packed
from lrp_companion.widgets.protocol_switchboard import SCALE, UNDEFINED


def switchboard(runs: Iterable[Any], *, a: str = "cp-lrp", b: str = "attnlrp") -> dict[str, Any]:
    """Every cell of every run for the widget `ProtocolSwitchboard`: a board of reviews, then one of digits.

    Numbers are 16-bit integers, the value times 10,000, packed as base64; -32768 where there is none. With
    two decimals they print like the value, so the widget shows the same numbers as a table.

    Parameters
    ----------
    runs : those on reviews with both methods are used, and the first one over variants of the digit nets.

    Raises
    ------
    InputError : no run on reviews is left.
    """
    runs = list(runs)
    grids = [grid(run, a=a, b=b) for run in runs if isinstance(run, TextRun) and {a, b} <= set(run.methods)]
    if not grids:
        hint = "make one with lrp-companion run sst2"
        raise InputError("switchboard", got="no runs on reviews", expected=f"one with {a} and {b}", hint=hint)
    axes = _axes(GRID_OPTIONS, AXIS_LABELS)
    axes[PROTOCOL_AXES.index("map")]["options"][0]["was"] = "absolute-sum"  # of the same r, in old links
    marked = [
        {"label": f"{label} ({cells.title})", "state": _state(cells.run, vars(protocol), GRID_OPTIONS)}
        for label, cells, protocol in presets(grids)
    ]
    board = {
        "key": "text",
        "label": "Reviews",
        "a": label_of(a),
        "b": label_of(b),
        "axes": axes,
        "runs": [_packed_run(cells) for cells in grids],
        "start": marked[0]["state"],
        "presets": marked,
    }
    return {"boards": [board, *[digit_board(run) for run in runs if isinstance(run, MnistGridRun)][:1]]}


def digit_board(run: MnistGridRun) -> Row:
    """The variants of the digit nets as a board: AttnLRP's agreement with LOO from the left and the right."""
    choices: Mapping[str, Sequence[Any]] = {**run.manifest["config"]["choices"], "map": MAPS_COMPARED}
    rows, printed = digit_grid(run), digit_paper_values()
    left, right = "AttnLRP, left with LOO", "AttnLRP, right with LOO"
    shown = [[row[name] for name in (right, left, "difference")] for row in rows]
    cells = np.array([[(one.mean, one.low, one.high) for one in three] for three in shown])
    packed_run = {
        "key": run.name,
        "label": f"{len(run.seeds)} nets a variant",
        "n": run.n,
        "paper": {"a": printed[left], "b": printed[right]},
        "cells": packed(_steps(cells.reshape(len(rows), 9)), "int16"),
        "undefined": packed([row["difference"].undefined for row in rows], "uint16"),
    }
    start = _state(run.name, {name: options[0] for name, options in choices.items()}, choices)
    nearest = _state(run.name, digit_nearest(run)["nearest"], choices)
    marked = {"the plainest net": start, "nearest to the paper's Table 1": nearest}
    return {
        "key": "digits",
        "label": "Digits",
        "a": "AttnLRP, (QKᵀ)V",
        "b": "AttnLRP, Q(KᵀV)",
        "axes": _axes(choices, VARIANT_LABELS),
        "runs": [packed_run],
        "start": start,
        "presets": [{"label": label, "state": state} for label, state in marked.items()],
    }


def _axes(choices: Mapping[str, Sequence[Any]], labels: Mapping[str, Any]) -> list[Row]:
    return [
        {
            "key": name,
            "label": labels[name][0],
            "options": [{"key": _key(option), "label": labels[name][1][option]} for option in options],
        }
        for name, options in choices.items()
    ]


def _state(run: str, options: Mapping[str, Any], choices: Iterable[str]) -> dict[str, str]:
    return {"run": run, **{name: _key(options[name]) for name in choices}}


def _key(option: Any) -> str:
    return {True: "yes", False: "no"}[option] if isinstance(option, bool) else str(option)


def _packed_run(cells: Grid) -> Row:
    """One run's cells over all options of every axis, undefined where the run lacks an option."""
    shape = tuple(map(len, GRID_OPTIONS.values()))
    values, missing = np.full((*shape, 9), UNDEFINED), np.full(shape, cells.n)
    block = np.ix_(*([GRID_OPTIONS[name].index(o) for o in cells.axes[name]] for name in PROTOCOL_AXES))
    values[block] = _steps(cells.values[..., [1, 0, 2], :].reshape(*cells.shape, 9))  # b, a, a - b
    missing[block] = cells.n - cells.defined[..., 2]
    return {
        "key": cells.run,
        "label": cells.title,
        "n": cells.n,
        "paper": paper_values(cells.task, cells.a, cells.b),
        "cells": packed(values, "int16"),
        "undefined": packed(missing, "uint16"),
    }


def _steps(values: np.ndarray) -> np.ndarray:
    """Values in steps of 1 / SCALE: the closest step with the same two decimals as the value."""
    steps = np.where(np.isnan(values), UNDEFINED, np.round(values * SCALE))
    for place in zip(*np.nonzero(steps % 100 == 50), strict=True):
        near = (steps[place], steps[place] - 1, steps[place] + 1)
        steps[place] = next(step for step in near if f"{step / SCALE:.2f}" == f"{values[place]:.2f}")
    return steps
