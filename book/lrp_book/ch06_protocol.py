"""Chapter 6: every combination of choices, in tables, two figures and a switchboard. No torch.

Why the effect moves is in `ch06_causes`; other trainings and the digits are in `ch06_trainings`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lrp_book.labels import finished
from lrp_companion.arrays import real_array
from lrp_companion.checks import InputError, choose
from lrp_companion.lab.paper.protocol_grid import AXIS_LABELS, PROTOCOL_AXES, Grid, Row, counts
from lrp_companion.lab.paper.specification import CARRIERS
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import interval_of, side_of_zero
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.canvas import (
    LOOK,
    SLIDE,
    Drawing,
    Name,
    drawing,
    headline,
    label_points,
    limits,
)
from lrp_companion.show.palette import INK, MARKERS, SPARE
from lrp_companion.show.tables import Table, table

BOTH = {"attnlrp": "AttnLRP", "cp-lrp": "CP-LRP"}
EFFECT = "CP-LRP − AttnLRP"
SIDE_LOOKS = {
    "below": ("#6b3fb0", "whole interval below 0"),
    "across": ("#8a8a8a", "interval across 0"),
    "above": ("#00755e", "whole interval above 0"),
}


def needs(operation: str, rows: Sequence[Any], what: str) -> None:
    """Refuse an empty list of what a view is made from."""
    if not rows:
        hint = "check which runs were read"
        raise InputError(operation, got=f"no {what}", expected="at least one", hint=hint)


# -- the cells of the grid ----------------------------------------------------------------------------


def subsets(axes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Subsets of a grid by name: all combinations, then those with each choice of tokens and map."""
    words = {name: AXIS_LABELS[name][1] for name in ("tokens", "map")}
    return {"all combinations": {}} | {
        f"{words['tokens'][tokens]}; {words['map'][map]}": {"tokens": tokens, "map": map}
        for tokens in axes["tokens"]
        for map in axes["map"]
    }


def percent(share: float | None) -> str:
    """A fraction as a percentage; empty where there is none."""
    return "" if share is None or np.isnan(share) else f"{100 * share:.1f} %"


def variance_table(
    shares: Mapping[str, Sequence[Row]],
    *,
    columns: Mapping[str, str],
    words: Mapping[str, Sequence[Any]],
    pairs: int,
    caption: str,
) -> Table:
    """Rows of `variance_shares`, a column each: every single choice, the pairs that are strongest in any
    column, and the rest.
    """
    of = {what: {row["choices"]: row["share"] for row in rows} for what, rows in shares.items()}
    known = dict.fromkeys(choices for column in of.values() for choices in column)
    ranked = [choices for choices in known if len(choices) == 2]
    ranked.sort(key=lambda pair: -max(column.get(pair, 0) for column in of.values()))
    shown = [*((name,) for name in words if (name,) in known), *ranked[:pairs]]
    rows: list[Row] = [
        {
            "choice": " × ".join(words[name][0] for name in choices),
            **{what: percent(column.get(choices)) for what, column in of.items()},
        }
        for choices in shown
    ]
    rest = {
        what: percent(1 - sum(column.get(choices, 0) for choices in shown)) for what, column in of.items()
    }
    rows.append({"choice": "all else together", **rest})
    return table(rows, columns={"choice": "choice", **columns}, caption=caption)


@mpl.rc_context(LOOK)
def specification_curve(cells: Grid, *, wide: bool = False) -> Drawing:
    """Draw all cells of a run sorted by effect, with intervals above and the options of each cell
    below; the three `PROTOCOLS` are pointed out. `wide`: flat, as on a slide.
    """
    rows = cells.curve()
    needs("specification_curve", rows, "cell with an effect")
    effect, low, high = limits(row["difference"] for row in rows)
    tally, name = counts(cells), f"{label_of(cells.a)} − {label_of(cells.b)}"
    alt = (
        f"{cells.title}, n = {cells.n:,}: mean difference of r, {name}, "
        f"in {len(rows)} combinations, from {effect[0]:.2f} to {effect[-1]:.2f}. "
        f"Interval below 0: {tally['below']}, across: {tally['across']}, above: {tally['above']}."
    )
    size: dict[str, Any] = {"height": SLIDE[1] + 0.4, "width": SLIDE[0]} if wide else {"height": 7.0}
    ratios = [1.0, 2.2] if wide else [1.0, 1.45]
    figure, (top, bottom) = drawing(alt, rows=2, sharex=True, height_ratios=ratios, **size)
    _point_out(top, rows)
    x, sides = np.arange(1, len(rows) + 1), np.array([row["side"] for row in rows])
    for side, (colour, label) in SIDE_LOOKS.items():
        mask = sides == side
        if mask.any():
            middle = int(x[mask][mask.sum() // 2])
            label_points(top, [Name(f"{label}: {mask.sum()}", middle, effect[middle - 1], colour)])
            top.vlines(x[mask], low[mask], high[mask], color=colour, linewidth=0.8, alpha=0.45)
            look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 1.6, "color": colour}
            top.plot(x[mask], effect[mask], label=label, **look)
    top.axhline(0, color=INK, linewidth=0.9)
    top.set_ylabel(name)
    options = [(choice, option) for choice, options in cells.axes.items() for option in options]
    option_matrix(bottom, rows, options, AXIS_LABELS, inline=wide)
    bottom.set_xlabel("combinations of choices, by effect")
    return finished(
        figure, f"Which is nearer to LOO? Every combination of choices: {cells.title}, n = {cells.n:,}"
    )


def _point_out(axes: Axes, rows: Sequence[Row]) -> None:
    """Mark the cells of the three protocols on the curve, each with its name and effect."""
    places = {tuple(row[name] for name in PROTOCOL_AXES): k for k, row in enumerate(rows)}
    look: dict[str, Any] = {"linestyle": "none", "zorder": 4, "color": INK, "mfc": "white"}
    for symbol, (label, protocol) in zip(MARKERS, PROTOCOLS.items(), strict=False):
        k = places.get(tuple(getattr(protocol, name) for name in PROTOCOL_AXES))
        if k is not None:
            effect = rows[k]["difference"].mean
            axes.plot(k + 1, effect, marker=symbol, label=label, mew=1.4, ms=7.0, **look)
            label_points(axes, [Name(f"{label}: {effect:+.2f}", k + 1, effect, INK)])


def option_matrix(
    axes: Axes,
    rows: Sequence[Row],
    options: Sequence[tuple[str, Any]],
    labels: Mapping[str, tuple[str, Mapping[Any, str]]],
    *,
    inline: bool = False,
) -> None:
    """Draw a line of ticks per option and a gap between choices; a choice's name is above its options, or
    before the first of them (`inline`).
    """
    y, ticks, names, last = 0.0, [], [], None
    for name, option in options:
        before = ""
        if name != last and inline:
            y += 0.35
            before = f"{labels[name][0]}: "
        elif name != last:
            _heading(axes, 0.0, y + 0.7, labels[name][0])
            y += 1.7
        chosen = [k + 1 for k, row in enumerate(rows) if row[name] == option]
        axes.vlines(chosen, y - 0.38, y + 0.38, color=INK, linewidth=0.7)
        ticks.append(y)
        names.append(before + labels[name][1][option])
        last, y = name, y + 1.0
    _options_down(axes, ticks, names)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def _options_down(axes: Axes, ticks: Sequence[float], names: Sequence[str]) -> None:
    """Options as the marks of the vertical axis, the first on top."""
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(ticks[-1] + 1.0 - 0.3, 0)


def _heading(axes: Axes, x: float, y: float, text: str) -> None:
    """The name of a choice, at a fraction `x` of the panel's width."""
    look: dict[str, Any] = {"fontsize": 9.5, "fontweight": "bold", "va": "center"}
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), **look)


@mpl.rc_context(LOOK)
def option_dots(grids: Sequence[Grid]) -> Drawing:
    """Draw the mean effect over all cells with an option, option by option, one marker per run."""
    needs("option_dots", grids, "grids")
    effects = [{(row["choice"], row["option"]): row["mean"] for row in choice_effects(one)} for one in grids]
    named = {
        (name, option): AXIS_LABELS[name][1][option]
        for name in PROTOCOL_AXES
        for one in grids
        for option in one.axes[name]
    }
    said = [f"Mean of {EFFECT} over all combinations with an option."]
    for one, means in zip(grids, effects, strict=True):
        listed = ", ".join(f"{text} {means[key].mean:+.2f}" for key, text in named.items() if key in means)
        said.append(f"{one.title}: {listed}.")
    height = (0.2 + 0.06 * len(grids)) * (len(named) + len(PROTOCOL_AXES)) + 0.25 * len(grids)
    figure, (axes,) = drawing(" ".join(said), height=0.9 + height)
    y, ticks, last = 0.0, [], None
    for key in named:
        if key[0] != last:
            _heading(axes, 0.01, y + 0.4, AXIS_LABELS[key[0]][0])
            y += 1.4
        for k, (one, means) in enumerate(zip(grids, effects, strict=True)):
            if key in means:
                label = f"{one.title}, n = {one.n:,}" if last is None else None
                look: dict[str, Any] = {"color": SPARE[k % len(SPARE)]}
                at, value = y + 0.56 * ((k + 0.5) / len(grids) - 0.5), means[key]
                axes.plot([value.low, value.high], [at, at], linewidth=1.8, **look)
                look |= {"marker": MARKERS[k % len(MARKERS)], "linestyle": "none", "label": label}
                axes.plot(value.mean, at, **look)
        ticks.append(y)
        last, y = key[0], y + 1.0
    axes.axvline(0, color=INK, linewidth=0.9)
    _options_down(axes, ticks, list(named.values()))
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"mean {EFFECT} with this option")
    headline(figure, "Which option moves the effect? Mean over all combinations with it")
    figure.legend(loc="outside lower center", ncols=1 if len(grids) < 3 else 2)
    return figure


STATED = {"map": "sum-to-one", "removal": "attention-mask", "target": "logit", "statistic": "pearson"}
"""The paper's stated choices (sections 3 and 4.1); it leaves site and tokens open."""


def nearer_of(difference: Interval, a: str, b: str) -> str:
    """The method whose r is larger, with the whole interval of `a` minus `b` on its side; else "open".

    >>> nearer_of(Interval(0.2, 0.1, 0.3, 50), "CP-LRP", "AttnLRP")
    'CP-LRP'
    """
    return {"above": a, "below": b}.get(side_of_zero(difference), "open")


def stated_cells(grid: Grid) -> list[Row]:
    """The cells that the paper's statements leave open: three sites times two sets of tokens.

    Returns
    -------
    list
        Rows `site`, `tokens`, `a`, `b`, `difference` (intervals) and `nearer`: the label of the method whose
        r is larger with the whole interval of the difference, or "open".
    """
    out = []
    for site in grid.axes["site"]:
        for tokens in grid.axes["tokens"]:
            cell = grid.cell(Protocol(site=site, tokens=tokens, **STATED))
            nearer = nearer_of(cell["difference"], label_of(grid.a), label_of(grid.b))
            out.append({"site": site, "tokens": tokens, **cell, "nearer": nearer})
    return out


def anova(grid: Grid) -> list[Row]:
    """Shares of the variance of the effect over the cells, for each choice and each pair of choices.

    The cells are means over the same examples. Single examples are not split in this way here.
    """
    return variance_shares(grid.effects, PROTOCOL_AXES)


def matched_share(grid: Grid, choice: str, options: Sequence[str]) -> float:
    """The share of the variance due to a choice if only some of its options count.

    So runs with different options are compared on those that both have.
    """
    choose("matched_share", "choice", choice, PROTOCOL_AXES)
    if len(options) < 2:
        hint = "with one option nothing varies"
        raise InputError("matched_share", got=f"{len(options)} options", expected="two or more", hint=hint)
    places = [
        grid.axes[choice].index(choose("matched_share", choice, option, grid.axes[choice]))
        for option in options
    ]
    effects = np.take(grid.effects, places, axis=PROTOCOL_AXES.index(choice))
    return next(
        row["share"] for row in variance_shares(effects, PROTOCOL_AXES) if row["choices"] == (choice,)
    )


def choice_effects(grid: Grid) -> list[Row]:
    """The mean effect over all cells with an option, and how far it is from the mean over all cells.

    Returns
    -------
    list
        Rows `choice`, `option`, `mean` and `moves by` (both intervals, over examples), `cells`.
    """
    mean, mean_draws = grid.effects.mean(), grid.draws.reshape(len(grid.draws), -1).mean(1)
    out = []
    for axis, (name, options) in enumerate(grid.axes.items()):
        for place, option in enumerate(options):
            effects, draws = np.take(grid.effects, place, axis), np.take(grid.draws, place, axis + 1)
            option_draws = draws.reshape(len(draws), -1).mean(1)
            row: Row = {"choice": name, "option": option}
            row["mean"] = interval_of(effects.mean(), option_draws, grid.n)
            row["moves by"] = interval_of(effects.mean() - mean, option_draws - mean_draws, grid.n)
            out.append({**row, "cells": effects.size})
    return out


def variance_shares(values: np.ndarray, names: Sequence[str]) -> list[Row]:
    r"""Split the variance of a full table into main effects and interactions (analysis of variance).

    With $\bar y_S$ the mean over all axes outside S, the effect of a set S of axes is
    $e_S = \bar y_S - \sum_{U \subset S} e_U$ and its sum of squares is that of $e_S$ over all cells. The
    table is balanced, so the sums of squares of all sets add up to the total (Montgomery 2017, chapter 5).

    Parameters
    ----------
    values : the table, one axis per choice, without NaN.
    names : of the axes.

    Returns
    -------
    list
        Rows `choices` (tuple of one or two names), `squares`, `share` (of the total; NaN if there is none),
        singles before pairs, largest first; the rest is one row, "more together".

    >>> rows = variance_shares(np.array([[0.0, 1.0], [2.0, 3.0]]), ["x", "y"])
    >>> [(row["choices"], round(row["share"], 3)) for row in rows]
    [(('x',), 0.8), (('y',), 0.2), (('x', 'y'), 0.0)]
    """
    table = real_array("variance_shares", "values", values)
    if table.ndim != len(names) or not table.size or np.isnan(table).any():
        got = f"a table of shape {table.shape} with {int(np.isnan(table).sum())} undefined cells"
        expected = f"one axis for each of {', '.join(names)}, every cell defined"
        hint = "leave options out whose cells are undefined"
        raise InputError("variance_shares", got=got, expected=expected, hint=hint)
    total = float(((table - table.mean()) ** 2).sum())
    varied = [axis for axis, length in enumerate(table.shape) if length > 1]
    effects: dict[tuple[int, ...], np.ndarray] = {(): table.mean(keepdims=True)}
    rows: list[Row] = []
    for size in (1, 2):
        of_size = []
        for axes in itertools.combinations(varied, size):
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            subsets = [subset for small in range(size) for subset in itertools.combinations(axes, small)]
            effects[axes] = table.mean(axis=others, keepdims=True) - sum(effects[each] for each in subsets)
            squares = float((effects[axes] ** 2).sum()) * table.size / effects[axes].size
            of_size.append(_share(tuple(names[axis] for axis in axes), squares, total))
        rows += sorted(of_size, key=lambda row: -row["squares"])
    if len(varied) > 2:
        rest = max(0.0, total - sum(row["squares"] for row in rows))
        rows.append(_share(("more together",), rest, total))
    return rows


def _share(choices: tuple[str, ...], squares: float, total: float) -> Row:
    return {"choices": choices, "squares": squares, "share": squares / total if total else math.nan}


def held_by(d: xr.DataArray, choices: Iterable[str] = CARRIERS) -> float:
    """The share of the variance over all combinations that some choices hold, each alone and in pairs."""
    means = d.mean("example")
    rows = variance_shares(means.values, [str(name) for name in means.dims])
    return sum(row["share"] for row in rows if {*row["choices"]} <= {*choices})
