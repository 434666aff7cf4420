"""The grid over all choices: every cell's effect with its interval, and what moves it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrp_companion.analysis.paper import paper_table
from lrp_companion.analysis.paper_tables import DATA
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import interval_of, limits, resampled, side_of_zero
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import (
    DEFAULT_PROTOCOL,
    MAP_CHOICES,
    REMOVALS,
    SITES,
    STATISTICS,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    InputError,
    Protocol,
    choose,
)

Row = dict[str, Any]
PROTOCOL_AXES = ("site", "tokens", "map", "removal", "target", "statistic")
"""The axes of a grid, in this order; they are the fields of `Protocol`."""
AXIS_OPTIONS: dict[str, tuple[str, ...]] = {
    "site": SITES, "tokens": TOKEN_CHOICES, "map": MAP_CHOICES, "removal": REMOVALS, "target": TARGET_CHOICES,
    "statistic": STATISTICS,
}  # fmt: skip
AXIS_LABELS = {
    "site": (
        "relevance read at",
        {"word": "words", "word+position": "words + positions", "embedding": "whole embedding"},
    ),
    "tokens": ("tokens that count", {"no-special": "without [CLS], [SEP]", "all": "all"}),
    "map": ("map", {"raw": "raw", "sum-to-one": "sum to one", "absolute-sum": "absolute sum"}),
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
NAMES = {
    "attnlrp": "AttnLRP",
    "cp-lrp": "CP-LRP",
    "ig": "IG",
    "loo": "LOO",
    "rollout": "rollout",
    "gradient-x-input": "gradient x input",
}
DATA_NAMES = {"sst2": "SST-2", "imdb": "IMDB"}
DISTINCT = MAP_CHOICES[:2]  # the third has the r of the first


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
    draws : shape (10000, *axes without "absolute-sum"): the mean difference in each draw.
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
    def distinct(self) -> dict[str, tuple[str, ...]]:
        """The axes without the map that repeats another."""
        return {**self.axes, "map": tuple(option for option in self.axes["map"] if option in DISTINCT)}

    @property
    def effects(self) -> np.ndarray:
        """Mean differences of the distinct cells, shape of `distinct`."""
        return self.values[:, :, : len(self.distinct["map"]), ..., 2, 0]

    def cell(self, protocol: Protocol = DEFAULT_PROTOCOL) -> dict[str, Interval]:
        """The intervals "a", "b" and "difference" of one cell."""
        return self._at(self.where(protocol))

    def where(self, protocol: Protocol) -> tuple[int, ...]:
        """Where a protocol's cell stands.

        Raises
        ------
        InputError : the run was not made with this removal.
        """
        for name, options in self.axes.items():
            choose("Grid", name, getattr(protocol, name), options)
        return tuple(options.index(getattr(protocol, name)) for name, options in self.axes.items())

    def protocol(self, where: Sequence[int]) -> Protocol:
        """The protocol of the cell at a place."""
        return Protocol(
            **{name: options[k] for (name, options), k in zip(self.axes.items(), where, strict=True)}
        )

    def _at(self, where: tuple[int, ...]) -> dict[str, Interval]:
        return {
            part: Interval(float(mean), float(low), float(high), int(n), self.n - int(n))
            for part, (mean, low, high), n in zip(
                ESTIMATES, self.values[where], self.defined[where], strict=True
            )
        }

    def curve(self) -> list[Row]:
        """The specification curve: one row per distinct cell, sorted by effect; a cell without one is not in
        it.

        Returns
        -------
        list
            Rows with `rank` (from 1, smallest effect first), every choice, `a`, `b`, `difference`, and `side`
            ("above", "below", "across": where the whole interval lies from 0).
        """
        cells = [where for where in np.ndindex(*self.effects.shape) if not np.isnan(self.effects[where])]
        cells.sort(key=lambda where: (self.effects[where], where))
        out = []
        for rank, where in enumerate(cells, 1):
            own = self._at(where)
            named = {name: self.axes[name][k] for name, k in zip(PROTOCOL_AXES, where, strict=True)}
            out.append({"rank": rank, **named, **own, "side": side_of_zero(own["difference"])})
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
    memory = run.__dict__.setdefault("_grids", {})
    if (a, b) not in memory:
        memory[a, b] = _grid(run, a, b)
    return memory[a, b]


def _grid(run: TextRun, a: str, b: str) -> Grid:
    axes = axes_of(run)
    distinct = {**axes, "map": DISTINCT}
    shape = tuple(map(len, distinct.values()))
    r = [np.stack([run.r(method, protocol) for protocol in protocols_of(distinct)], 1) for method in (a, b)]
    values, defined, draws = [], [], np.empty(0)
    for column in (*r, r[0] - r[1]):
        mean, draws, count = resampled(column)
        values.append(np.stack([mean, *limits(draws)], -1))
        defined.append(count)
    whole_values, whole_defined = (
        np.stack(values, -2).reshape(*shape, 3, 3),
        np.stack(defined, -1).reshape(*shape, 3),
    )
    again = [DISTINCT.index("raw" if option == "absolute-sum" else option) for option in axes["map"]]
    return Grid(
        run.name, title(run), run.task, run.n, a, b, axes,
        whole_values[:, :, again], whole_defined[:, :, again], draws.reshape(-1, *shape),
    )  # fmt: skip


def title(run: TextRun) -> str:
    """Data and depth of a run in words, as in "SST-2, 12 layers"."""
    return f"{DATA_NAMES.get(run.task, run.task)}, {run.layers} layers"


def axes_of(run: TextRun) -> dict[str, tuple[str, ...]]:
    """Choice to the options that a run was made with."""
    made = {
        "removal": run.manifest["axes"]["removal"],
        "target": run.manifest["config"].get("targets", AXIS_OPTIONS["target"]),
    }
    return {name: tuple(made.get(name, options)) for name, options in AXIS_OPTIONS.items()}


def protocols_of(axes: Mapping[str, Sequence[str]]) -> Iterator[Protocol]:
    return (Protocol(**dict(zip(axes, own, strict=True))) for own in itertools.product(*axes.values()))


def needs_text(operation: str, run: Any) -> None:
    if not isinstance(run, TextRun):
        got = f"{getattr(run, 'name', run)!r}, no run on reviews"
        raise InputError(operation, got=got, expected="a run of sst2 or imdb", hint="read one with load_run")


def with_choices(protocol: Protocol, **changed: str) -> Protocol:
    return Protocol(**{**{name: getattr(protocol, name) for name in PROTOCOL_AXES}, **changed})


def counts(found: Grid, **fixed: str) -> Row:
    """How many distinct cells have their whole interval above 0, below 0, or across it.

    Parameters
    ----------
    fixed : options that are held, such as `tokens="all"`; all cells by default.

    Returns
    -------
    dict
        `cells`, `above`, `below`, `across`, `undefined`; `smallest` and `largest` effect as intervals.
    """
    for name, option in fixed.items():
        choose("counts", "choice", name, PROTOCOL_AXES)
        choose("counts", name, option, found.distinct[name])
    rows = [row for row in found.curve() if all(row[name] == option for name, option in fixed.items())]
    total = math.prod(1 if name in fixed else len(options) for name, options in found.distinct.items())
    sides = [row["side"] for row in rows]
    out: Row = {"cells": total, **{side: sides.count(side) for side in ("above", "below", "across")}}
    out["undefined"] = total - sum(out[side] for side in ("above", "below", "across"))
    return {
        **out,
        "smallest": rows[0]["difference"] if rows else None,
        "largest": rows[-1]["difference"] if rows else None,
    }


def variance_shares(values: np.ndarray, names: Sequence[str], *, order: int = 2) -> list[Row]:
    r"""Split the variance of a full table into main effects and interactions (analysis of variance, one value
    per cell).

    With $\bar y_S$ the mean over all axes outside S, the effect of a set S of axes is
    $e_S = \bar y_S - \sum_{U \subset S} e_U$ and its sum of squares is that of $e_S$ over all cells. The
    table is balanced, so the sums of squares of all sets add up to the total (Montgomery 2017, chapter 5).

    Parameters
    ----------
    values : the table, one axis per choice, without NaN.
    names : of the axes.
    order : size of the largest sets; the rest is one row, "more together".

    Returns
    -------
    list
        Rows `choices` (tuple of names), `squares`, `share` (of the total; NaN if there is none), largest
        first within an order.

    >>> [(row["choices"], round(row["share"], 3)) for row in variance_shares(np.array([[0.0, 1.0], [2.0, 3.0]]), ["x", "y"])]
    [(('x',), 0.8), (('y',), 0.2), (('x', 'y'), 0.0)]
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != len(names) or not table.size or np.isnan(table).any():
        got = f"a table of shape {table.shape} with {int(np.isnan(table).sum())} undefined cells"
        expected = f"one axis for each of {', '.join(names)}, every cell defined"
        raise InputError(
            "variance_shares", got=got, expected=expected, hint="leave options out whose cells are undefined"
        )
    total = float(((table - table.mean()) ** 2).sum())
    effects: dict[tuple[int, ...], np.ndarray] = {(): table.mean(keepdims=True)}
    rows: list[Row] = []
    for size in range(1, order + 1):
        own_rows = []
        for own in itertools.combinations([k for k in range(table.ndim) if table.shape[k] > 1], size):
            others = tuple(k for k in range(table.ndim) if k not in own)
            lower = [effects[sub] for small in range(size) for sub in itertools.combinations(own, small)]
            effects[own] = table.mean(axis=others, keepdims=True) - sum(lower)
            squares = float((effects[own] ** 2).sum()) * table.size / effects[own].size
            share = squares / total if total else float("nan")
            own_rows.append({"choices": tuple(names[k] for k in own), "squares": squares, "share": share})
        rows += sorted(own_rows, key=lambda row: -row["squares"])
    rest = max(0.0, total - sum(row["squares"] for row in rows))
    if order < sum(length > 1 for length in table.shape):
        rows.append(
            {"choices": ("more together",), "squares": rest, "share": rest / total if total else float("nan")}
        )
    return rows


def anova(found: Grid) -> list[Row]:
    """How much of the variance of the effect over the distinct cells goes with each choice and with each pair
    of choices.

    The cells are means over the same examples; the same split for single examples is not made here.
    """
    return variance_shares(found.effects, PROTOCOL_AXES)


def choice_effects(found: Grid) -> list[Row]:
    """The mean effect over all distinct cells with an option, and how far it is from the mean over all cells.

    Returns
    -------
    list
        Rows `choice`, `option`, `mean` and `moves by` (both intervals, over examples), `cells`.
    """
    everything, drawn = found.effects.mean(), found.draws.reshape(len(found.draws), -1).mean(1)
    out = []
    for k, (name, options) in enumerate(found.distinct.items()):
        for j, option in enumerate(options):
            own, own_draws = (
                np.take(found.effects, j, k),
                np.take(found.draws, j, k + 1).reshape(len(found.draws), -1).mean(1),
            )
            out.append(
                {
                    "choice": name, "option": option, "mean": interval_of(own.mean(), own_draws, found.n),
                    "moves by": interval_of(own.mean() - everything, own_draws - drawn, found.n),
                    "cells": own.size,
                }
            )  # fmt: skip
    return out


def nearest_to_paper(grids: Sequence[Grid]) -> tuple[Grid, Protocol, float] | None:
    """The cell on SST whose two means are nearest to the paper's Table 2, and how far it is, sqrt(da**2 +
    db**2); None without a run.
    """
    best: tuple[Grid, Protocol, float] | None = None
    for found in grids:
        printed = paper_values(found.task, found.a, found.b)
        if found.task != "sst2" or printed is None:
            continue
        gap = np.hypot(found.values[..., 0, 0] - printed["a"], found.values[..., 1, 0] - printed["b"])
        if np.isnan(gap).all():
            continue
        where = np.unravel_index(int(np.nanargmin(gap)), gap.shape)
        if best is None or gap[where] < best[2]:
            best = found, found.protocol([int(k) for k in where]), float(gap[where])
    return best


def largest_flip(found: Grid, protocol: Protocol = DEFAULT_PROTOCOL) -> Protocol | None:
    """The cell with the largest effect of the other sign than `protocol`'s, its whole interval on that side;
    None if there is none.
    """
    sign = np.sign(found.cell(protocol)["difference"].mean)
    far = (
        found.values[..., 2, 1] if sign < 0 else -found.values[..., 2, 2]
    )  # above 0 where the whole interval is on the other side
    size = np.where(far > 0, np.abs(found.values[..., 2, 0]), -np.inf)
    if not np.isfinite(size).any():
        return None
    return found.protocol([int(k) for k in np.unravel_index(int(size.argmax()), size.shape)])


def presets(grids: Sequence[Grid]) -> list[tuple[str, Grid, Protocol]]:
    """Cells worth a look: our default in the first run on SST, the one nearest to the paper, and the largest
    flip of the default.
    """
    first = next((own for own in grids if own.task == "sst2"), grids[0])
    out = [("words only (default)", first, DEFAULT_PROTOCOL)]
    if near := nearest_to_paper(grids):
        out.append(("nearest to the paper's SST numbers", *near[:2]))
    if flip := largest_flip(first):
        out.append(("largest flip", first, flip))
    return out


def paper_values(task: str, a: str, b: str) -> dict[str, float] | None:
    """The paper's r of both methods in Table 2, whose choices are not known; None where it has none."""
    printed = {
        row["method"]: row["loo_r"] for row in paper_table("table2") if row["dataset"] == DATA.get(task)
    }
    return (
        {"a": printed[NAMES[a]], "b": printed[NAMES[b]]}
        if {NAMES.get(a), NAMES.get(b)} <= set(printed)
        else None
    )
