"""Two methods on the same examples: the mean difference, and what a mean alone hides.

r over sentences is skewed, so a mean difference may rest on a minority. It is reported with the median, the
share of examples that a method wins, and the difference of Fisher's z, which stretches r near 1. If one of
these lies on another side of "no difference" than the mean, the comparison says so.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lrp_companion.arrays import real_array
from lrp_companion.checks import InputError, whole
from lrp_companion.extras import extra
from lrp_companion.metrics.statistics import (
    RESAMPLES,
    Interval,
    bootstrap_mean,
    difference_of,
    draw_rows,
    interval_of,
    paired_difference,
    side_of_band,
    side_of_zero,
)

Key = TypeVar("Key", bound=Hashable)
LARGEST_R = 0.999
"""|r| is cut at this value for Fisher's z, which is infinite at 1 (z = 3.80 here)."""
POWER_FACTOR = (1.959964 + 0.841621) / 1.959964
"""A test at 5 % finds an effect of 2.80 standard errors in 80 % of samples; a half-width is 1.96 of them."""


@dataclass(frozen=True)
class Comparison:
    """`a` against `b` on the same examples, made by `compare_paired`.

    Attributes
    ----------
    mean, median : of the paired differences `a - b`.
    wins : the share of examples where `a` is above `b`; a tie counts as half.
    z : mean difference of Fisher's z, artanh(r) with |r| at most 0.999.

    Each is an interval; n and the undefined examples are those of `mean`.
    """

    mean: Interval
    median: Interval
    wins: Interval
    z: Interval

    @property
    def n(self) -> int:
        return self.mean.n

    @property
    def sides(self) -> dict[str, str]:
        """The side of "no difference" of each interval: "above", "below", "across" or "undefined"."""
        measures = {"mean": self.mean, "median": self.median, "z": self.z}
        out = {name: side_of_zero(value) for name, value in measures.items()}
        return out | {"wins": side_of_band(self.wins, 0.5, 0.5)}

    @property
    def disagree(self) -> tuple[str, ...]:
        """Those of "median", "wins" and "z" that do not lie on the same side as the mean."""
        sides = self.sides
        return tuple(name for name in ("median", "wins", "z") if sides[name] != sides["mean"])


def fisher_z(r: Any) -> np.ndarray:
    """Fisher's z, artanh(r), with |r| cut at 0.999; NaN stays NaN.

    >>> fisher_z([0.0, 0.5, 1.0]).round(3).tolist()
    [0.0, 0.549, 3.8]
    """
    return np.arctanh(np.clip(real_array("fisher_z", "r", r), -LARGEST_R, LARGEST_R))


def bootstrap_median(values: Any, *, seed: int = 0) -> Interval:
    """Median over examples with its 95 % percentile bootstrap interval, from 10,000 draws.

    Raises
    ------
    InputError : as `bootstrap_mean`.

    >>> print(bootstrap_median([0.2, 0.4, 0.9, float("nan")]))
    0.400 [0.200, 0.900], n = 3 (1 undefined)
    """
    mean = bootstrap_mean(values, resamples=2)  # refuses what is not a column of numbers
    given = real_array("bootstrap_median", "values", values)
    defined = given[~np.isnan(given)]
    if mean.n < 2:
        return Interval(mean.mean, float("nan"), float("nan"), mean.n, mean.undefined)
    whole("bootstrap_median", "seed", seed, least=0, hint="0 is the default")
    medians = np.empty(RESAMPLES)
    for rows, drawn in draw_rows(len(defined), RESAMPLES, seed):
        medians[rows] = np.median(defined[drawn], axis=1)
    return interval_of(float(np.median(defined)), medians, mean.n, mean.undefined)


def win_rate(a: Any, b: Any) -> Interval:
    """The share of examples where `a` is above `b` (a tie counts as half), with its interval.

    >>> print(win_rate([0.5, 0.7, 0.2], [0.4, 0.7, float("nan")]))
    0.750 [0.500, 1.000], n = 2 (1 undefined)
    """
    difference = difference_of("win_rate", a, b)
    won = np.where(np.isnan(difference), np.nan, (np.sign(difference) + 1) / 2)
    return bootstrap_mean(won)


def compare_paired(a: Any, b: Any) -> Comparison:
    """Two columns of r over the same examples: mean and median difference, win rate and Fisher's z.

    Parameters
    ----------
    a, b : shape (examples,); NaN where undefined. An example counts where both are defined.

    Raises
    ------
    InputError : columns of different lengths, or no example.

    >>> result = compare_paired([0.9, 0.8, 0.2], [0.8, 0.7, 0.9])
    >>> print(result.mean, "|", result.wins.text(2))
    -0.167 [-0.700, 0.100], n = 3 | 0.67 [0.00, 1.00]
    """
    mean = paired_difference(a, b)
    x, y = real_array("compare_paired", "a", a), real_array("compare_paired", "b", b)
    return Comparison(
        mean, bootstrap_median(x - y), win_rate(x, y), paired_difference(fisher_z(x), fisher_z(y))
    )


def detectable(value: Interval) -> float:
    """The smallest effect that this many examples would have shown, with power 0.8 at 5 %, two-sided.

    It is 1.43 half-widths of the 95 % interval; NaN without one. These examples could not have confirmed a
    smaller effect of the paper, nor ruled it out by an interval that includes 0.

    >>> round(detectable(Interval(0.0, -0.1, 0.1, 100)), 3)
    0.143
    """
    return POWER_FACTOR * (value.high - value.low) / 2


# -- several trainings --------------------------------------------------------------------------------


def over_trainings(columns: Mapping[Key, Any]) -> Interval:
    """Mean over trainings of the mean over examples, with a 95 % interval for other trainings *and* examples.

    Two half-widths are added as squares: Student's over the means of the trainings, and Student's over the
    examples, each with its mean over the trainings. With T trainings and n examples that share them,
    $h^2 = (t_{T-1}\\, s_T)^2 / T + (t_{n-1}\\, s_n)^2 / n$. It covers at least 94 % whichever of the two
    varies more (`tests/test_paired.py` simulates it), where a percentile bootstrap over three trainings
    covers 74 %.

    Parameters
    ----------
    columns : training to its values (examples,), the same examples in one order; NaN where undefined.

    Raises
    ------
    InputError : fewer than two trainings, or columns of different lengths.

    >>> print(over_trainings({1: [0.1, 0.3], 2: [0.2, 0.4]}).text(2))
    0.25 [-1.17, 1.67]
    """
    with extra("over_trainings"):
        from scipy import stats

    values = [real_array("over_trainings", "a column", column) for column in columns.values()]
    if len(values) < 2 or len({column.shape for column in values}) != 1 or values[0].ndim != 1:
        got = f"{len(values)} columns of shapes {sorted({column.shape for column in values})}"
        hint = "pass one column per training, over the same examples"
        raise InputError("over_trainings", got=got, expected="two or more of one length", hint=hint)
    table = np.stack(values)
    known = ~np.isnan(table)
    filled, square = np.where(known, table, 0.0), 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = float((filled.sum(1) / known.sum(1)).mean())
        for axis in (1, 0):  # of a training over its examples, of an example over the trainings
            means = (filled.sum(axis) / known.sum(axis))[known.any(axis)]
            if len(means) > 1:
                square += stats.t.ppf(0.975, len(means) - 1) ** 2 * means.var(ddof=1) / len(means)
    complete, half = int(known.all(0).sum()), math.sqrt(square)
    if complete < 2 or not known.any(1).all():
        half = math.nan
    return Interval(mean, mean - half, mean + half, complete, table.shape[1] - complete)


def mean_over(columns: Mapping[Key, Any]) -> Interval:
    """`over_trainings`; with one training, the mean over examples with its interval over them.

    Parameters
    ----------
    columns : training to its values (examples,), NaN where undefined.

    Raises
    ------
    InputError : no training, or as `over_trainings`.

    >>> print(mean_over({1: [0.1, 0.3]}).text(2))
    0.20 [0.10, 0.30]
    """
    if len(columns) != 1:
        return over_trainings(columns)
    (only,) = columns.values()
    return bootstrap_mean(only)
