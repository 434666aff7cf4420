"""The protocol audit as boards of the widget `ProtocolSwitchboard`: cells as packed 16-bit integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.paper.digit_variants import MAPS_COMPARED, VARIANT_LABELS, digit_grid, digit_nearest
from lrp_companion.paper.digit_variants import paper_values as digit_paper_values
from lrp_companion.paper.protocol_grid import (
    AXIS_LABELS,
    AXIS_OPTIONS,
    PROTOCOL_AXES,
    Grid,
    Row,
    grid,
    paper_values,
    presets,
)
from lrp_companion.registry import label_of
from lrp_companion.runs.load import MnistGridRun, TextRun
from lrp_companion.schema import Protocol
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
    compared = [run for run in runs if isinstance(run, TextRun) and {a, b} <= set(run.methods)]
    if not compared:
        hint = "make one with lrp-companion run sst2"
        raise InputError("switchboard", got="no runs on reviews", expected=f"one with {a} and {b}", hint=hint)
    grids = [grid(run, a=a, b=b) for run in compared]
    axes = [
        {
            "key": name,
            "label": AXIS_LABELS[name][0],
            "options": [{"key": key, "label": AXIS_LABELS[name][1][key]} for key in AXIS_OPTIONS[name]],
        }
        for name in PROTOCOL_AXES
    ]
    marked = [
        {"label": f"{label} ({cells.title})", "state": _state(cells, protocol)}
        for label, cells, protocol in presets(grids)
    ]
    board = {
        "key": "text", "label": "Reviews", "a": label_of(a), "b": label_of(b), "axes": axes,
        "runs": [_packed_run(cells) for cells in grids], "start": marked[0]["state"], "presets": marked,
    }  # fmt: skip
    return {"boards": [board, *[digit_board(run) for run in runs if isinstance(run, MnistGridRun)][:1]]}


def _state(cells: Grid, protocol: Protocol) -> dict[str, str]:
    return {"run": cells.run, **{name: getattr(protocol, name) for name in PROTOCOL_AXES}}


def _packed_run(run: Grid) -> dict[str, Any]:
    """One run's cells over all options of every axis, undefined where the run lacks an option."""
    shape = tuple(map(len, AXIS_OPTIONS.values()))
    cells, missing = np.full((*shape, 9), UNDEFINED), np.full(shape, run.n)
    places = [[AXIS_OPTIONS[name].index(option) for option in run.axes[name]] for name in PROTOCOL_AXES]
    block = np.ix_(*places)
    cells[block] = _steps(run.values[..., [1, 0, 2], :].reshape(*run.shape, 9))  # b, a, a - b
    missing[block] = run.n - run.defined[..., 2]
    return {
        "key": run.run, "label": run.title, "n": run.n, "paper": paper_values(run.task, run.a, run.b),
        "cells": packed(cells, "int16"), "undefined": packed(missing, "uint16"),
    }  # fmt: skip


def digit_board(run: MnistGridRun) -> Row:
    """The variants of the digit nets as a board: AttnLRP's agreement with LOO from the left and the right."""
    choices: Mapping[str, Sequence[Any]] = {**run.manifest["config"]["choices"], "map": MAPS_COMPARED}
    axes = [
        {
            "key": name,
            "label": VARIANT_LABELS[name][0],
            "options": [
                {"key": _key(option), "label": VARIANT_LABELS[name][1][option]} for option in options
            ],
        }
        for name, options in choices.items()
    ]
    start = {"run": run.name, **{name: _key(options[0]) for name, options in choices.items()}}
    nearest = digit_nearest(run)["nearest"]
    state = {"run": run.name, **{name: _key(nearest[name]) for name in choices}}
    return {
        "key": "digits", "label": "Digits", "a": "AttnLRP (left)", "b": "AttnLRP (right)", "axes": axes,
        "runs": [_packed_digit_run(run)],
        "start": start,
        "presets": [
            {"label": "the plainest net", "state": start},
            {"label": "nearest to the paper's Table 1", "state": state},
        ],
    }  # fmt: skip


def _packed_digit_run(run: MnistGridRun) -> Row:
    rows, printed = digit_grid(run), digit_paper_values()
    left, right = "AttnLRP, left with LOO", "AttnLRP, right with LOO"
    cells = np.hstack([_limits(row[name] for row in rows) for name in (right, left, "difference")])
    return {
        "key": run.name, "label": f"{len(run.seeds)} nets a variant", "n": run.n,
        "paper": {"a": printed[left], "b": printed[right]},
        "cells": packed(_steps(cells), "int16"),
        "undefined": packed([row["difference"].undefined for row in rows], "uint16"),
    }  # fmt: skip


def _limits(intervals: Iterable[Interval]) -> np.ndarray:
    """Mean, lower and upper limit of n intervals, (n, 3)."""
    return np.array([(interval.mean, interval.low, interval.high) for interval in intervals])


def _key(option: Any) -> str:
    return {True: "yes", False: "no"}[option] if isinstance(option, bool) else str(option)


def _steps(values: np.ndarray) -> np.ndarray:
    """Values in steps of 1 / SCALE: the closest step with the same two decimals as the value."""
    steps = np.where(np.isnan(values), UNDEFINED, np.round(values * SCALE))
    for place in zip(*np.nonzero(steps % 100 == 50), strict=True):
        near = (steps[place], steps[place] - 1, steps[place] + 1)
        steps[place] = next(step for step in near if f"{step / SCALE:.2f}" == f"{values[place]:.2f}")
    return steps
