"""How far the difference between two methods depends on the choices that the paper leaves open. From records; no torch, no model.

The choices are where relevance is read (site), which tokens count, how a map is scaled, how LOO removes a token, which
output is explained (target), and which correlation is taken (statistic). A *cell* is one combination of them. In each
cell an *effect* is the mean over examples of the paired difference of r, `a - b`, CP-LRP minus AttnLRP by default.

All intervals are 95 % percentile bootstrap intervals over examples: 10,000 draws of n examples with replacement, the same draws for
every cell, so that cells can be subtracted and averaged draw by draw. A mean is over the examples where r is defined;
the others are counted. Dividing a map by sum |R| leaves r as it is, so "absolute-sum" repeats "raw"; whatever weighs
cells against each other (`Grid.curve`, `counts`, `anova`) leaves it out.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrp_companion.experiments.paper import paper_table
from lrp_companion.experiments.paths import mask_label, path_masks
from lrp_companion.experiments.records import OURS, Explanation, TextRun
from lrp_companion.experiments.report import DATA, NONE, READINGS, RESAMPLES, bootstrap_columns
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.faithfulness import ranks
from lrp_companion.metrics.statistics import BLOCK
from lrp_companion.schema import MAP_CHOICES, REMOVALS, SITES, STATISTICS, TARGET_CHOICES, TOKEN_CHOICES, InputError, Protocol, choose

Row = dict[str, Any]
CHOICES = ("site", "tokens", "map", "removal", "target", "statistic")
"""The axes of a grid, in this order; they are the fields of `Protocol`."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "site": SITES, "tokens": TOKEN_CHOICES, "map": MAP_CHOICES, "removal": REMOVALS, "target": TARGET_CHOICES, "statistic": STATISTICS,
}  # fmt: skip
LABELS = {
    "site": ("relevance read at", {"word": "words", "word+position": "words + positions", "embedding": "whole embedding"}),
    "tokens": ("tokens that count", {"no-special": "without [CLS], [SEP]", "all": "all"}),
    "map": ("map", {"raw": "raw", "sum-to-one": "sum to one", "absolute-sum": "absolute sum"}),
    "removal": (
        "LOO removes by",
        {"attention-mask": "attention mask", "mask-token": "[MASK]", "pad-token": "[PAD]", "delete": "deleting"},
    ),
    "target": ("output", {"logit": "logit", "margin": "margin", "probability": "probability"}),
    "statistic": ("correlation", {"pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall"}),
}
"""Each choice and its options in words."""
PARTS = ("a", "b", "difference")
NAMES = {"attnlrp": "AttnLRP", "cp-lrp": "CP-LRP", "ig": "IG", "loo": "LOO", "rollout": "rollout", "gradient-x-input": "gradient x input"}
DATA_NAMES = {"sst2": "SST-2", "imdb": "IMDB"}
DISTINCT = MAP_CHOICES[:2]  # the third has the r of the first
UNDEFINED, SCALE = -32768, 10_000  # of the switchboard's 16-bit numbers


# -- the grid ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Mean r of two methods and their paired difference in every cell; made by `grid`.

    Attributes
    ----------
    run, title, task, n : the run's name, its data and depth in words, its task, its number of examples.
    a, b : the two methods.
    axes : choice to its options in this run, in the order of `CHOICES`.
    values : shape (*axes, 3, 3): for a, b and a - b the mean, the lower and the upper limit; NaN where undefined.
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

    def cell(self, protocol: Protocol = OURS) -> dict[str, Interval]:
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
        return Protocol(**{name: options[k] for (name, options), k in zip(self.axes.items(), where, strict=True)})

    def _at(self, where: tuple[int, ...]) -> dict[str, Interval]:
        return {
            part: Interval(float(mean), float(low), float(high), int(n), self.n - int(n))
            for part, (mean, low, high), n in zip(PARTS, self.values[where], self.defined[where], strict=True)
        }

    def curve(self) -> list[Row]:
        """The specification curve: one row per distinct cell, sorted by effect; a cell without one is not in it.

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
            named = {name: self.axes[name][k] for name, k in zip(CHOICES, where, strict=True)}
            out.append({"rank": rank, **named, **own, "side": side_of_zero(own["difference"])})
        return out


def side_of_zero(value: Interval) -> str:
    """Whether the whole interval lies "above" or "below" 0, or it reaches "across"; "undefined" without an interval.

    >>> side_of_zero(Interval(0.2, 0.1, 0.3, 9)), side_of_zero(Interval(0.2, -0.1, 0.5, 9)), side_of_zero(Interval(0.2, np.nan, np.nan, 1))
    ('above', 'across', 'undefined')
    """
    if math.isnan(value.low):
        return "undefined"
    return "above" if value.low > 0 else "below" if value.high < 0 else "across"


def grid(run: TextRun, *, a: str = "cp-lrp", b: str = "attnlrp") -> Grid:
    """Mean r of two methods and their paired difference, with intervals, in every cell of the grid.

    Parameters
    ----------
    run : a run on reviews. Removals that it was not made with are not in its grid.
    a, b : methods of the run; the effect is `a - b`.

    Raises
    ------
    InputError : no run on reviews, or it lacks a method.

    >>> str(grid(load_run("results/sst2-companion")).cell()["difference"])  # doctest: +SKIP
    """
    _needs_text("grid", run)
    for method in (a, b):
        choose("grid", "method", method, run.methods)
    memory = run.__dict__.setdefault("_grids", {})
    if (a, b) not in memory:
        memory[a, b] = _grid(run, a, b)
    return memory[a, b]


def _grid(run: TextRun, a: str, b: str) -> Grid:
    axes = _axes(run)
    distinct = {**axes, "map": DISTINCT}
    shape = tuple(map(len, distinct.values()))
    r = [np.stack([run.r(method, protocol) for protocol in _protocols(distinct)], 1) for method in (a, b)]
    values, defined, draws = [], [], np.empty(0)
    for column in (*r, r[0] - r[1]):
        mean, draws, count = resampled(column)
        values.append(np.stack([mean, *_limits(draws)], -1))
        defined.append(count)
    whole_values, whole_defined = np.stack(values, -2).reshape(*shape, 3, 3), np.stack(defined, -1).reshape(*shape, 3)
    again = [DISTINCT.index("raw" if option == "absolute-sum" else option) for option in axes["map"]]
    return Grid(
        run.name, title(run), run.task, run.n, a, b, axes,
        whole_values[:, :, again], whole_defined[:, :, again], draws.reshape(-1, *shape),
    )  # fmt: skip


def title(run: TextRun) -> str:
    """Data and depth of a run in words, as in "SST-2, 12 layers"."""
    return f"{DATA_NAMES.get(run.task, run.task)}, {run.layers} layers"


def _axes(run: TextRun) -> dict[str, tuple[str, ...]]:
    return {name: tuple(run.manifest["axes"]["removal"]) if name == "removal" else options for name, options in OPTIONS.items()}


def _protocols(axes: Mapping[str, Sequence[str]]) -> Iterator[Protocol]:
    return (Protocol(**dict(zip(axes, own, strict=True))) for own in itertools.product(*axes.values()))


def _needs_text(operation: str, run: Any) -> None:
    if not isinstance(run, TextRun):
        got = f"{getattr(run, 'name', run)!r}, no run on reviews"
        raise InputError(operation, got=got, expected="a run of sst2 or imdb", hint="read one with load_run")


# -- draws -------------------------------------------------------------------------------------------------------------


def resampled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of columns and of 10,000 bootstrap draws of them; the draws are the same for all columns of one length.

    A draw takes n of the n rows with replacement and averages those that are defined. Without NaN the draws are those of
    `bootstrap_mean`.

    Parameters
    ----------
    values : shape (examples, columns); NaN where undefined.

    Returns
    -------
    tuple
        Means (columns,), means of the draws (10000, columns), defined examples (columns,). Draws of a column with fewer
        than two defined examples are NaN.

    >>> mean, draws, defined = resampled(np.array([[0.2], [0.4], [np.nan]]))
    >>> float(mean[0].round(6)), draws.shape, int(defined[0])
    (0.3, (10000, 1), 2)
    """
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 2 or not len(given):
        raise InputError("resampled", got=f"values of shape {given.shape}", expected="(examples, columns)", hint="pass a row per example")
    known = ~np.isnan(given)
    filled, defined = np.where(known, given, 0.0), known.sum(0)
    holes = defined < len(given)
    draws = np.empty((RESAMPLES, given.shape[1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        for rows, weights in _weights(len(given)):
            draws[rows] = weights @ filled
            draws[rows, ~holes] /= len(given)
            if holes.any():
                draws[rows, holes] /= weights @ known[:, holes].astype(np.float64)
        mean = filled.sum(0) / defined
    draws[:, defined < 2] = np.nan
    return mean, draws, defined


def _weights(n: int) -> Iterator[tuple[slice, np.ndarray]]:
    """How often each example is in each draw, some draws at a time; the draws of `bootstrap_mean`."""
    generator, step = np.random.default_rng(0), max(1, BLOCK // n)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        drawn = generator.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
        yield slice(start, start + rows), np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _limits(draws: np.ndarray) -> np.ndarray:
    """Limits of columns of draws; draws without a value (no defined example in them) are left out."""
    out = np.quantile(draws, [0.025, 0.975], axis=0)
    holes = np.isnan(out[0]) & ~np.isnan(draws).all(0)
    if holes.any():
        out[:, holes] = np.nanquantile(draws[:, holes], [0.025, 0.975], axis=0)
    return out


def _interval(value: float, draws: np.ndarray, n: int, undefined: int = 0) -> Interval:
    low, high = _limits(draws[:, None])[:, 0]
    return Interval(float(value), float(low), float(high), n, undefined)


# -- what the grid says ------------------------------------------------------------------------------------------------


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
        choose("counts", "choice", name, CHOICES)
        choose("counts", name, option, found.distinct[name])
    rows = [row for row in found.curve() if all(row[name] == option for name, option in fixed.items())]
    total = math.prod(1 if name in fixed else len(options) for name, options in found.distinct.items())
    sides = [row["side"] for row in rows]
    out: Row = {"cells": total, **{side: sides.count(side) for side in ("above", "below", "across")}}
    out["undefined"] = total - sum(out[side] for side in ("above", "below", "across"))
    return {**out, "smallest": rows[0]["difference"] if rows else None, "largest": rows[-1]["difference"] if rows else None}


def variance_shares(values: np.ndarray, names: Sequence[str], *, order: int = 2) -> list[Row]:
    r"""Split the variance of a full table into main effects and interactions (analysis of variance, one value per cell).

    With $\bar y_S$ the mean over all axes outside S, the effect of a set S of axes is
    $e_S = \bar y_S - \sum_{U \subset S} e_U$ and its sum of squares is that of $e_S$ over all cells. The table is
    balanced, so the sums of squares of all sets add up to the total (Montgomery 2017, chapter 5).

    Parameters
    ----------
    values : the table, one axis per choice, without NaN.
    names : of the axes.
    order : size of the largest sets; the rest is one row, "more together".

    Returns
    -------
    list
        Rows `choices` (tuple of names), `squares`, `share` (of the total; NaN if there is none), largest first within an order.

    >>> [(row["choices"], round(row["share"], 3)) for row in variance_shares(np.array([[0.0, 1.0], [2.0, 3.0]]), ["x", "y"])]
    [(('x',), 0.8), (('y',), 0.2), (('x', 'y'), 0.0)]
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != len(names) or not table.size or np.isnan(table).any():
        got = f"a table of shape {table.shape} with {int(np.isnan(table).sum())} undefined cells"
        expected = f"one axis for each of {', '.join(names)}, every cell defined"
        raise InputError("variance_shares", got=got, expected=expected, hint="leave options out whose cells are undefined")
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
        rows.append({"choices": ("more together",), "squares": rest, "share": rest / total if total else float("nan")})
    return rows


def anova(found: Grid) -> list[Row]:
    """How much of the variance of the effect over the distinct cells goes with each choice and with each pair of choices.

    The cells are means over the same examples; the same split for single examples is not made here.
    """
    return variance_shares(found.effects, CHOICES)


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
            own, own_draws = np.take(found.effects, j, k), np.take(found.draws, j, k + 1).reshape(len(found.draws), -1).mean(1)
            out.append(
                {
                    "choice": name, "option": option, "mean": _interval(own.mean(), own_draws, found.n),
                    "moves by": _interval(own.mean() - everything, own_draws - drawn, found.n), "cells": own.size,
                }
            )  # fmt: skip
    return out


def nearest_to_paper(grids: Sequence[Grid]) -> tuple[Grid, Protocol, float] | None:
    """The cell on SST whose two means are nearest to the paper's Table 2, and how far it is, sqrt(da**2 + db**2); None without a run."""
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


def largest_flip(found: Grid, protocol: Protocol = OURS) -> Protocol | None:
    """The cell with the largest effect of the other sign than `protocol`'s, its whole interval on that side; None if there is none."""
    sign = np.sign(found.cell(protocol)["difference"].mean)
    far = found.values[..., 2, 1] if sign < 0 else -found.values[..., 2, 2]  # above 0 where the whole interval is on the other side
    size = np.where(far > 0, np.abs(found.values[..., 2, 0]), -np.inf)
    if not np.isfinite(size).any():
        return None
    return found.protocol([int(k) for k in np.unravel_index(int(size.argmax()), size.shape)])


def presets(grids: Sequence[Grid]) -> list[tuple[str, Grid, Protocol]]:
    """Cells worth a look: our default in the first run on SST, the one nearest to the paper, and the largest flip of the default."""
    first = next((own for own in grids if own.task == "sst2"), grids[0])
    out = [("ours (default)", first, OURS)]
    if near := nearest_to_paper(grids):
        out.append(("nearest to the paper's SST numbers", *near[:2]))
    if flip := largest_flip(first):
        out.append(("largest flip", first, flip))
    return out


def paper_values(task: str, a: str, b: str) -> dict[str, float] | None:
    """The paper's r of both methods in Table 2, whose choices are not known; None where it has none."""
    printed = {row["method"]: row["loo_r"] for row in paper_table("table2") if row["dataset"] == DATA.get(task)}
    return {"a": printed[NAMES[a]], "b": printed[NAMES[b]]} if {NAMES.get(a), NAMES.get(b)} <= set(printed) else None


# -- why ---------------------------------------------------------------------------------------------------------------


def special_shares(run: TextRun, *, path: str = "back-to-front") -> list[Row]:
    """What stands on [CLS] and [SEP] as layers are bypassed, AttnLRP first.

    Shares are parts of sum |R| over all tokens for the logit.

    Returns
    -------
    list
        A row per step: `bypassed` (in words), `layers`, and as intervals over examples: `[CLS]`, `[SEP]` at the words;
        `[CLS], with positions`, `[SEP], with positions` at words + positions; `position of [CLS]`, `position of [SEP]`,
        the relevance of that position embedding, with its sign, in units of sum |R| at words + positions; `negative sum` and
        `negative sum, with positions`, the share of maps with a negative sum over all tokens.

    Raises
    ------
    InputError : the run has no masks.
    """
    choose("special_shares", "path", path, tuple(path_masks(run.layers)))
    _needs_masks("special_shares", run)
    columns: list[tuple[int, str, np.ndarray]] = []
    masks = [NONE, *path_masks(run.layers)[path]]
    for k, mask in enumerate(masks):
        for name, token in (("[CLS]", "first"), ("[SEP]", "last")):
            columns.append((k, name, run.share(mask, token=token)))
            columns.append((k, f"{name}, with positions", run.share(mask, token=token, site="word+position")))
            columns.append((k, f"position of {name}", run.parts(mask, token=token, site="word+position")[:, 1]))
        columns.append((k, "negative sum", run.negative_sum(mask)))
        columns.append((k, "negative sum, with positions", run.negative_sum(mask, site="word+position")))
    out: list[Row] = [{"bypassed": mask_label(mask), "layers": sorted(mask)} for mask in masks]
    for (k, name, _), interval in zip(columns, bootstrap_columns([values for *_, values in columns]), strict=True):
        out[k][name] = interval
    return out


def signs(run: TextRun, explanation: Explanation, *, protocol: Protocol = OURS) -> Row:
    """Where the sums of the map and of LOO are negative, and what dividing by them does to r.

    Parameters
    ----------
    protocol : site, tokens, removal, target and statistic; its map is not used.

    Returns
    -------
    dict
        Shares of examples as intervals: `negative map`, `negative LOO`, `turned` (one of the two, so that sum-to-one
        turns the sign of r). `r` and `r, sum to one` over all examples; `r, both positive` over those with both sums
        above 0 (where the two are the same), `r, otherwise` and `r, otherwise, sum to one` over the others; None without examples.
    """
    raw, divided = (run.r(explanation, _with(protocol, map=map)) for map in DISTINCT)
    own = run.negative_sum(explanation, site=protocol.site, tokens=protocol.tokens, target=protocol.target)
    turned = np.where(np.isnan(divided) | (raw == 0), np.nan, divided == -raw)  # r = 0 has no sign to turn
    loo = np.where(np.isnan(turned) | np.isnan(own), np.nan, turned != own)
    positive, known = (own == 0) & (loo == 0), ~np.isnan(loo)
    names = ("negative map", "negative LOO", "turned", "r", "r, sum to one")
    out: Row = dict(zip(names, bootstrap_columns([own, loo, turned, raw, divided]), strict=True))
    for name, keep, values in (
        ("r, both positive", positive, raw),
        ("r, otherwise", known & ~positive, raw),
        ("r, otherwise, sum to one", known & ~positive, divided),
    ):
        out[name] = bootstrap_mean(values[keep]) if keep.any() else None
    return out


def _with(protocol: Protocol, **changed: str) -> Protocol:
    return Protocol(**{**{name: getattr(protocol, name) for name in CHOICES}, **changed})


def _needs_masks(operation: str, run: TextRun) -> None:
    _needs_text(operation, run)
    if not run.masks:
        raise InputError(operation, got=f"{run.name}, a run without masks", expected="a run with --masks paths", hint="run it with that")


# -- layers ------------------------------------------------------------------------------------------------------------


def layer_gains(run: TextRun, *, path: str = "back-to-front") -> list[Row]:
    """What each layer adds to mean r when it is bypassed along a path, under every choice (Pearson only).

    Along the two walks the gain of a layer is r with it minus r one step before; alone ("single"), r with this layer bypassed
    minus AttnLRP's.

    Returns
    -------
    list
        A row per distinct site, tokens, map, removal and target: these five; `gains`, an interval per layer from 1 on; `total`,
        their sum; `later - first`, the gain of the later half of the layers minus that of the first half; `share`, the later half's part
        of the total, only where the total's whole interval is on one side of 0, else None; `largest`, the layer with the
        largest gain, and `largest in draws`, in which part of the draws it is the largest. The intervals are over the
        examples where every step is defined.

    Raises
    ------
    InputError : the run has no masks, or no such path.
    """
    _needs_masks("layer_gains", run)
    choose("layer_gains", "path", path, tuple(path_masks(run.layers)))
    memory = run.__dict__.setdefault("_gains", {})
    if path not in memory:
        protocols = list(_protocols({**_axes(run), "map": DISTINCT, "statistic": ("pearson",)}))
        columns = [np.stack([run.r(mask, protocol) for mask in [NONE, *path_masks(run.layers)[path]]], 1) for protocol in protocols]
        for r in columns:
            r[np.isnan(r).any(1)] = np.nan
        mean, draws, defined = resampled(np.concatenate(columns, 1))  # one set of draws for all
        steps = run.layers + 1
        memory[path] = [
            _gains(run, path, protocol, mean[at : at + steps], draws[:, at : at + steps], int(defined[at]))
            for protocol, at in zip(protocols, range(0, len(mean), steps), strict=True)
        ]
    return memory[path]


def _gains(run: TextRun, path: str, protocol: Protocol, mean: np.ndarray, draws: np.ndarray, n: int) -> Row:
    """A row of `layer_gains` from mean r at every step of the path, AttnLRP first, and from its draws."""
    both, layers = np.concatenate([mean[None], draws]), run.layers
    gains = both[:, 1:] - (both[:, :1] if path == "single" else both[:, :-1])
    if path == "back-to-front":
        gains = gains[:, ::-1]
    total, later = gains.sum(1), gains[:, layers // 2 :].sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = np.column_stack([gains, total, 2 * later - total, later / total])
    low, high = _limits(columns[1:])
    made = [Interval(float(columns[0, k]), float(low[k]), float(high[k]), n, run.n - n) for k in range(columns.shape[1])]
    row: Row = {name: getattr(protocol, name) for name in CHOICES if name != "statistic"}
    row |= {"gains": made[:layers], "total": made[layers], "later - first": made[layers + 1]}
    row["share"] = made[layers + 2] if side_of_zero(row["total"]) in ("above", "below") else None
    row["largest"] = int(gains[0].argmax()) + 1 if n else None
    row["largest in draws"] = float((gains[1:].argmax(1) + 1 == row["largest"]).mean()) if n > 1 else None
    return row


def late_counts(rows: Sequence[Mapping[str, Any]]) -> Row:
    """In how many cells the later half of the layers gains more, less, or cannot be told; and in how many the total is above 0."""
    sides = [side_of_zero(row["later - first"]) for row in rows]
    totals = [side_of_zero(row["total"]) for row in rows]
    both = sum(own == "above" and total == "above" for own, total in zip(sides, totals, strict=True))
    return {
        "cells": len(rows), "later": sides.count("above"), "first": sides.count("below"), "across": sides.count("across"),
        "total above": totals.count("above"), "total below": totals.count("below"), "later, total above": both,
    }  # fmt: skip


# -- in words ----------------------------------------------------------------------------------------------------------


def findings(run: TextRun, *, a: str = "cp-lrp", b: str = "attnlrp", readings: Mapping[str, Protocol] = READINGS) -> list[Row]:
    """What a run says, in words that follow from its numbers: each with the choices, the effect, its interval and n.

    Returns
    -------
    list
        Rows `run`, `says`, `choices`, `what`, `effect`. Of cells it is said how many have their whole interval on either side.
        Rows on layers are there if the run has masks and the methods are AttnLRP and CP-LRP.
    """
    found = grid(run, a=a, b=b)
    long, short = NAMES.get(a, a), NAMES.get(b, b)
    rows: list[Row] = []

    def say(says: str, choices: str, what: str, effect: Interval) -> None:
        rows.append({"run": found.title, "says": says, "choices": choices, "what": what, "effect": effect, "n": effect.n})

    for name, protocol in readings.items():
        effect = found.cell(protocol)["difference"]
        order = {"above": f"{long} is nearer to LOO", "below": f"{short} is nearer to LOO"}
        say(order.get(side_of_zero(effect), "the order cannot be told"), name, f"r of {long} - r of {short}", effect)
    curve, told = found.curve(), counts(found)
    for side, end, word in (("below", 0, short), ("above", -1, long)):
        if curve:
            says = f"in {told[side]} of {told['cells']} combinations {word} is nearer to LOO"
            say(says, "the one farthest to this side", f"r of {long} - r of {short}", curve[end]["difference"])
    positions = readings.get("positions and special tokens", Protocol(site="word+position", tokens="all"))
    for method in (b, a):
        own = signs(run, method, protocol=positions)["negative map"]
        say(
            f"so many maps of {NAMES.get(method, method)} have a negative sum",
            str(positions.site) + ", all tokens",
            "part of the maps",
            own,
        )
    if run.masks and (a, b) == ("cp-lrp", "attnlrp"):
        for method, step in ((b, 0), (a, -1)):
            own = special_shares(run)[step]["position of [CLS]"]
            says = f"the position of [CLS] has {'negative' if own.mean < 0 else 'positive'} relevance under {NAMES[method]}"
            says = says if side_of_zero(own) != "across" else f"the sign of the position of [CLS] cannot be told under {NAMES[method]}"
            say(says, "word+position, all tokens", "part of sum |R|", own)
        for path in ("back-to-front", "front-to-back", "single"):
            by_place = {tuple(row[name] for name in CHOICES[:5]): row for row in layer_gains(run, path=path)}
            for name, protocol in readings.items():
                own = by_place[tuple(getattr(protocol, choice) for choice in CHOICES[:5])]["later - first"]
                half = {"above": "the later half of the layers gains more", "below": "the first half of the layers gains more"}
                say(half.get(side_of_zero(own), "the halves cannot be told apart"), f"{name}; {path}", "gain of later - first half", own)
    return rows


# -- on what examples --------------------------------------------------------------------------------------------------

FEATURES = ("length", "confidence", "label", "correct")


def features(run: TextRun) -> dict[str, np.ndarray]:
    """What is known of each example: `length` in tokens, `confidence` (probability of the predicted class), `label`, `correct`."""
    logits = run.logits()
    return {
        "length": run.about("tokens").astype(np.float64),
        "confidence": 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1),
        "label": run.about("label").astype(np.float64),
        "correct": (run.about("label") == run.about("target")).astype(np.float64),
    }


def subgroups(
    runs: Sequence[TextRun], *, a: str = "cp-lrp", b: str = "attnlrp", readings: Mapping[str, Protocol] = READINGS
) -> list[Row]:  # fmt: skip
    """Does the paired difference `a - b` depend on the example? Every run, reading and feature, corrected for looking many times.

    For length and confidence the effect is Spearman's rank correlation of the difference with the feature; for label and
    correct the mean difference where the feature is 1 minus that where it is 0. Intervals are bootstrap intervals (ranks
    are taken once). p is from 10,000 permutations of the feature; `p, Holm` is corrected over all rows (Holm 1979).

    Returns
    -------
    list
        Rows `run`, `reading`, `feature`, `what`, `effect` (interval), `groups` (sizes: 0 and 1, or None), `p`, `p, Holm`. A
        feature that is the same for all examples has no row.
    """
    out: list[Row] = []
    for run in runs:
        _needs_text("subgroups", run)
        known = features(run)
        by_examples: dict[bytes, dict[str, np.ndarray]] = {}  # readings that are defined for the same examples are looked at together
        for reading, protocol in readings.items():
            difference = run.r(a, protocol) - run.r(b, protocol)
            by_examples.setdefault(np.isnan(difference).tobytes(), {})[reading] = difference
        for own in by_examples.values():
            keep = ~np.isnan(next(iter(own.values())))
            y = np.stack(list(own.values()), 1)[keep]
            for name, values in known.items():
                x = values[keep]
                if len(x) < 2 or np.ptp(x) == 0:
                    continue
                ordered = name in ("length", "confidence")
                found = _rank_correlations(x, y) if ordered else _group_differences(x, y)
                groups = None if ordered else (int((x == 0).sum()), int((x == 1).sum()))
                what = "rank correlation" if ordered else f"{name} 1 - {name} 0"
                for reading, column, (effect, p) in zip(own, y.T, found, strict=True):
                    if np.ptp(column) == 0:
                        continue
                    effect = Interval(effect.mean, effect.low, effect.high, effect.n, int((~keep).sum()))
                    row = {"run": run.name, "reading": reading, "feature": name, "what": what, "effect": effect, "groups": groups}
                    out.append({**row, "p": p})
    for row, corrected in zip(out, holm([row["p"] for row in out]), strict=True):
        row["p, Holm"] = corrected
    return out


Tested = list[tuple[Interval, float]]


def _rank_correlations(x: np.ndarray, y: np.ndarray) -> Tested:
    """Spearman's r of x (n,) with each column of y (n, k), and its p."""
    u, v = ranks(x)[:, None], np.stack([ranks(column) for column in y.T], 1)
    mean, draws, _ = resampled(np.concatenate([u, u * u, v, v * v, u * v], 1))

    def r(m: np.ndarray) -> np.ndarray:
        mu, uu, (mv, vv, uv) = m[..., :1], m[..., 1:2], np.split(m[..., 2:], 3, axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (uv - mu * mv) / np.sqrt((uu - mu**2) * (vv - mv**2))

    return _tested(r(mean), r(draws), len(x), _permutation_p(u[:, 0], v))


def _group_differences(x: np.ndarray, y: np.ndarray) -> Tested:
    """Mean of each column of y (n, k) where x is 1 minus where it is 0, and its p."""
    one = x[:, None] == 1
    mean, draws, _ = resampled(np.concatenate([np.where(one, y, np.nan), np.where(one, np.nan, y)], 1))
    k = y.shape[1]
    return _tested(mean[:k] - mean[k:], draws[:, :k] - draws[:, k:], len(x), _permutation_p(one[:, 0].astype(np.float64), y))


def _tested(values: np.ndarray, draws: np.ndarray, n: int, p: np.ndarray) -> Tested:
    low, high = _limits(draws)
    return [(Interval(float(v), float(a), float(b), n), float(own)) for v, a, b, own in zip(values, low, high, p, strict=True)]


def _permutation_p(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Part of 10,000 permutations of x, and x itself, whose |covariance| with a column of y is at least that of x; one per column."""
    u, v = x - x.mean(), y - y.mean(0)
    own, generator, step = np.abs(u @ v), np.random.default_rng(0), max(1, BLOCK // len(u))
    reached = np.zeros(y.shape[1])
    for start in range(0, RESAMPLES, step):
        drawn = generator.permuted(np.broadcast_to(u, (min(step, RESAMPLES - start), len(u))), axis=1)
        reached += (np.abs(drawn @ v) >= own * (1 - 1e-9)).sum(0)
    return (reached + 1) / (RESAMPLES + 1)


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979): in rising order the k-th of m times m - k + 1, never falling, at most 1.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, out, highest = sorted(range(len(p)), key=lambda k: p[k]), [0.0] * len(p), 0.0
    for rank, k in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[k]))
        out[k] = highest
    return out


# -- for the switchboard -----------------------------------------------------------------------------------------------


def switchboard(runs: Iterable[Any], *, a: str = "cp-lrp", b: str = "attnlrp") -> dict[str, Any]:
    """Every cell of every run on reviews, as the widget `ProtocolSwitchboard` takes it.

    Numbers are 16-bit integers, the value times 10,000, packed as base64; -32768 where there is none.

    Parameters
    ----------
    runs : runs; those on digits and those without both methods are left out.

    Raises
    ------
    InputError : no run is left.
    """
    able = [run for run in runs if isinstance(run, TextRun) and {a, b} <= set(run.methods)]
    if not able:
        hint = "make one with lrp-companion run sst2"
        raise InputError("switchboard", got="no runs on reviews", expected=f"one with {a} and {b}", hint=hint)
    grids = [grid(run, a=a, b=b) for run in able]
    axes = [
        {"key": name, "label": LABELS[name][0], "options": [{"key": key, "label": LABELS[name][1][key]} for key in OPTIONS[name]]}
        for name in CHOICES
    ]
    marked = [{"label": label, "state": _state(own, protocol)} for label, own, protocol in presets(grids)]
    board = {
        "key": "text", "label": "Reviews", "a": NAMES.get(a, a), "b": NAMES.get(b, b), "axes": axes,
        "runs": [_packed_run(own) for own in grids], "start": marked[0]["state"], "presets": marked,
    }  # fmt: skip
    return {"boards": [board]}


def _state(found: Grid, protocol: Protocol) -> dict[str, str]:
    return {"run": found.run, **{name: getattr(protocol, name) for name in CHOICES}}


def _packed_run(found: Grid) -> dict[str, Any]:
    """All options of every axis, also those that the run has not."""
    shape = tuple(map(len, OPTIONS.values()))
    cells, missing = np.full((*shape, 9), UNDEFINED, dtype="<i2"), np.full(shape, found.n, dtype="<u2")
    own = np.ix_(*([OPTIONS[name].index(option) for option in found.axes[name]] for name in CHOICES))
    values = found.values[..., [1, 0, 2], :].reshape(*found.shape, 9)  # b, a, a - b
    cells[own] = np.where(np.isnan(values), UNDEFINED, np.round(values * SCALE)).astype("<i2")
    missing[own] = found.n - found.defined[..., 2]
    return {
        "key": found.run, "label": found.title, "n": found.n, "paper": paper_values(found.task, found.a, found.b),
        "cells": base64.b64encode(cells.tobytes()).decode(), "undefined": base64.b64encode(missing.tobytes()).decode(),
    }  # fmt: skip
