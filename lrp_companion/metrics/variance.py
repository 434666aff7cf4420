"""Analysis of variance of a full table: shares of main effects and interactions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_companion.arrays import real_array
from lrp_companion.checks import InputError

Row = dict[str, Any]


def variance_shares(values: np.ndarray, names: Sequence[str], *, order: int = 2) -> list[Row]:
    r"""Split the variance of a full table into main effects and interactions (analysis of variance).

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
    for size in range(1, order + 1):
        of_size = []
        for axes in itertools.combinations(varied, size):
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            subsets = [subset for small in range(size) for subset in itertools.combinations(axes, small)]
            effects[axes] = table.mean(axis=others, keepdims=True) - sum(effects[each] for each in subsets)
            squares = float((effects[axes] ** 2).sum()) * table.size / effects[axes].size
            of_size.append(_share(tuple(names[axis] for axis in axes), squares, total))
        rows += sorted(of_size, key=lambda row: -row["squares"])
    if order < len(varied):
        rest = max(0.0, total - sum(row["squares"] for row in rows))
        rows.append(_share(("more together",), rest, total))
    return rows


def _share(choices: tuple[str, ...], squares: float, total: float) -> Row:
    return {"choices": choices, "squares": squares, "share": squares / total if total else math.nan}
