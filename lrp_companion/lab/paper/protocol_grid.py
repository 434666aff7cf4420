"""The grid over all choices: every cell's effect with its interval, and what moves the effect. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, choose
from lrp_companion.lab.base_run import points
from lrp_companion.lab.load import TextRun
from lrp_companion.lab.paper.published import DATA, paper_table
from lrp_companion.lab.paper.tables import dataset_of
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import interval_ends, resampled, side_of_zero
from lrp_companion.registry import label_of
from lrp_companion.schema import AXIS_OPTIONS, DEFAULT_PROTOCOL, MAP_CHOICES, Protocol

Row = dict[str, Any]
DISTINCT = MAP_CHOICES[:2]  # the third divides by a positive number: it has the r of the first
GRID_OPTIONS = {**AXIS_OPTIONS, "map": DISTINCT}
"""The axes of a grid, in this order, the fields of `Protocol`; and the options that can differ in r."""
PROTOCOL_AXES = tuple(GRID_OPTIONS)
AXIS_LABELS = {
    "site": (
        "relevance read at",
        {"word": "words", "word+position": "words + positions", "embedding": "whole embedding"},
    ),
    "tokens": ("tokens that count", {"no-special": "without [CLS], [SEP]", "all": "all"}),
    "map": ("map", {"raw": "raw", "sum-to-one": "sum to one"}),
    "removal": (
        "LOO removes by",
        {
            "attention-mask": "attention mask",
            "mask-token": "[MASK]",
            "pad-token": "[PAD]",
            "delete": "deleting",
        },
    ),
    "target": ("output", {"logit": "logit", "margin": "margin", "probability": "probability"}),
    "statistic": ("correlation", {"pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall"}),
}
"""Each choice and its options in words."""
ESTIMATES = ("a", "b", "difference")
DATA_NAMES = {"sst2": "SST-2", "imdb": "IMDB"}


@dataclass(frozen=True)
class Grid:
    """Mean r of two methods and their paired difference in every cell; made by `grid`.

    Attributes
    ----------
    run, title, task, n : the run's name, its data and depth in words, its task, its number of examples.
    a, b : the two methods.
    axes : choice to its options in this run, in the order of `PROTOCOL_AXES`.
    values : shape (*axes, 3, 3): for a, b and a - b the mean, the lower and the upper limit; NaN where
        undefined.
    defined : shape (*axes, 3): over how many examples each mean is.
    draws : shape (10000, *axes): the mean difference in each draw.
    """

    run: str
    title: str
    task: str
    n: int
    a: str
    b: str
    axes: Mapping[str, tuple[str, ...]]
    values: np.ndarray = field(repr=False)
    defined: np.ndarray = field(repr=False)
    draws: np.ndarray = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(options) for options in self.axes.values())

    @property
    def effects(self) -> np.ndarray:
        """Mean difference of every cell, shape of `axes`."""
        return self.values[..., 2, 0]

    @cached_property
    def protocols(self) -> list[Protocol]:
        """The protocol of each cell, in the order of `values`."""
        return list(protocols_of(self.axes))

    def cell(self, protocol: Protocol = DEFAULT_PROTOCOL) -> dict[str, Interval]:
        """The intervals "a", "b" and "difference" of one cell; those of raw maps for the map "absolute-sum".

        Raises
        ------
        InputError : the run was not made with this removal.
        """
        if protocol.map not in DISTINCT:
            protocol = replace(protocol, map="raw")
        for name, options in self.axes.items():
            choose("Grid", name, getattr(protocol, name), options)
        return self._at(self.protocols.index(protocol))

    def _at(self, place: int) -> dict[str, Interval]:
        """The intervals of the cell at a place of `protocols`."""
        values, defined = self.values.reshape(-1, 3, 3)[place], self.defined.reshape(-1, 3)[place]
        return {
            estimate: Interval(float(mean), float(low), float(high), int(n), self.n - int(n))
            for estimate, (mean, low, high), n in zip(ESTIMATES, values, defined, strict=True)
        }

    def curve(self) -> list[Row]:
        """The specification curve: one row per cell that has an effect, sorted by it.

        Returns
        -------
        list
            Rows with `rank` (from 1, smallest effect first), every choice, `a`, `b`, `difference`, and `side`
            ("above", "below", "across": where the whole interval lies from 0).
        """
        effects = self.effects.ravel()
        known = np.flatnonzero(~np.isnan(effects))
        out = []
        for rank, k in enumerate(sorted(known.tolist(), key=lambda k: effects[k]), 1):
            cell = self._at(k)
            side = side_of_zero(cell["difference"])
            out.append({"rank": rank, **vars(self.protocols[k]), **cell, "side": side})
        return out


def grid(run: TextRun, *, a: str = "cp-lrp", b: str = "attnlrp") -> Grid:
    """Mean r of two methods and their paired difference, with intervals, in every cell of the grid.

    Parameters
    ----------
    run : a run on reviews. Removals and outputs that it was not made with are not in its grid.
    a, b : methods of the run; the effect is `a - b`.

    Raises
    ------
    InputError : no run on reviews, or it lacks a method.

    >>> str(grid(load_run("results/sst2-companion")).cell()["difference"])  # doctest: +SKIP
    """
    needs_text("grid", run)
    for method in (a, b):
        choose("grid", "method", method, run.methods)
    return run.once(("grid", a, b), lambda: _grid(run, a, b))


def _grid(run: TextRun, a: str, b: str) -> Grid:
    axes = {**run.options, "map": DISTINCT}
    shape = tuple(map(len, axes.values()))
    r = [np.stack([run.r(method, protocol) for protocol in protocols_of(axes)], 1) for method in (a, b)]
    values, defined, draws = [], [], np.empty(0)
    for column in (*r, r[0] - r[1]):
        mean, draws, count = resampled(column)
        values.append(np.stack([mean, *interval_ends(draws)], -1))
        defined.append(count)
    table = np.stack(values, -2).reshape(*shape, 3, 3)
    counted = np.stack(defined, -1).reshape(*shape, 3)
    differences = draws.reshape(-1, *shape)
    task = run.task if dataset_of(run) else ""
    return Grid(run.name, title(run), task, run.n, a, b, axes, table, counted, differences)


def title(run: TextRun) -> str:
    """Data and depth of a run in words, as in "SST-2, 12 layers"."""
    return f"{DATA_NAMES.get(run.task, run.data_name)}, {run.layers} layers"


def protocols_of(axes: Mapping[str, Sequence[str]]) -> Iterator[Protocol]:
    """Every combination of the options, the last choice varying fastest."""
    return (Protocol(**point) for point in points(axes))


def needs_text(operation: str, run: Any) -> None:
    if not isinstance(run, TextRun):
        got = f"{getattr(run, 'name', run)!r}, no run on reviews"
        raise InputError(operation, got=got, expected="a run on texts", hint="read one with load_run")


def counts(grid: Grid, **fixed: str) -> Row:
    """How many cells have their whole interval above 0, below 0, or across it.

    Parameters
    ----------
    fixed : options to keep to, such as `tokens="all"`; all cells by default.

    Returns
    -------
    dict
        `cells`, `above`, `below`, `across`, `undefined`; `smallest` and `largest` effect as intervals.
    """
    for name, option in fixed.items():
        choose("counts", "choice", name, PROTOCOL_AXES)
        choose("counts", name, option, grid.axes[name])
    rows = [row for row in grid.curve() if fixed.items() <= row.items()]
    cells = math.prod(len(options) for name, options in grid.axes.items() if name not in fixed)
    by_side = [row["side"] for row in rows]
    out: Row = {"cells": cells, **{side: by_side.count(side) for side in ("above", "below", "across")}}
    out["undefined"] = cells - out["above"] - out["below"] - out["across"]
    out["smallest"] = rows[0]["difference"] if rows else None
    out["largest"] = rows[-1]["difference"] if rows else None
    return out


def nearest_to_paper(grids: Sequence[Grid]) -> tuple[Grid, Protocol, float] | None:
    """The cell on SST whose two means are closest to the paper's Table 2; None without a run on SST.

    The third value is the distance, sqrt(da**2 + db**2).
    """
    best: tuple[Grid, Protocol, float] | None = None
    for grid in grids:
        printed = paper_values(grid.task, grid.a, grid.b)
        if grid.task != "sst2" or printed is None:
            continue
        gap = np.hypot(grid.values[..., 0, 0] - printed["a"], grid.values[..., 1, 0] - printed["b"])
        if np.isnan(gap).all():
            continue
        if best is None or np.nanmin(gap) < best[2]:
            best = grid, grid.protocols[int(np.nanargmin(gap))], float(np.nanmin(gap))
    return best


def largest_flip(grid: Grid, protocol: Protocol = DEFAULT_PROTOCOL) -> Protocol | None:
    """The cell with the largest effect of the other sign than `protocol`'s, its whole interval on that side.

    None if there is none.
    """
    negative = grid.cell(protocol)["difference"].mean < 0
    mean, low, high = (grid.values[..., 2, k] for k in range(3))
    flipped = low > 0 if negative else high < 0
    size = np.where(flipped, np.abs(mean), -np.inf)
    if not np.isfinite(size).any():
        return None
    return grid.protocols[int(size.argmax())]


def presets(grids: Sequence[Grid]) -> list[tuple[str, Grid, Protocol]]:
    """Notable cells: the default on SST, the cell closest to the paper, the largest flip."""
    first = next((grid for grid in grids if grid.task == "sst2"), grids[0])
    out = [("words only (default)", first, DEFAULT_PROTOCOL)]
    if near := nearest_to_paper(grids):
        out.append(("nearest to the paper's SST numbers", *near[:2]))
    if flip := largest_flip(first):
        out.append(("largest flip", first, flip))
    return out


def paper_values(task: str, a: str, b: str) -> dict[str, float] | None:
    """The paper's r of both methods in Table 2, whose choices are not known; None where it has none."""
    dataset, names = DATA.get(task), (label_of(a), label_of(b))
    printed = {row["method"]: row["loo_r"] for row in paper_table("table2") if row["dataset"] == dataset}
    if not set(names) <= set(printed):
        return None
    return {"a": printed[names[0]], "b": printed[names[1]]}
