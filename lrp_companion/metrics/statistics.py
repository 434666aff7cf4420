"""Means over examples with bootstrap intervals. NaN marks an example whose value is undefined: it is counted, never dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.schema import InputError

BLOCK = 1 << 20  # indices drawn at once, so that memory does not grow with resamples times examples


@dataclass(frozen=True)
class Interval:
    """A mean over examples and its bootstrap interval.

    Attributes
    ----------
    mean, low, high : in the unit of the values; `low` and `high` are NaN for fewer than two examples, all three for none.
    n : how many examples are in the mean.
    undefined : how many further examples had no value (NaN).
    level : coverage that the interval aims at.

    >>> print(Interval(0.624, 0.59, 0.657, n=96, undefined=2))
    0.624 [0.590, 0.657], n = 96 (2 undefined)
    """

    mean: float
    low: float
    high: float
    n: int
    undefined: int = 0
    level: float = 0.95

    def __str__(self) -> str:
        return f"{self.text(3)}, n = {self.n}" + (f" ({self.undefined} undefined)" if self.undefined else "")

    def text(self, digits: int) -> str:
        """Mean and limits with so many decimals, without n.

        >>> Interval(0.624, 0.59, 0.657, n=96).text(2)
        '0.62 [0.59, 0.66]'
        """
        if not self.n:
            return "undefined"
        if np.isnan(self.low):
            return f"{self.mean:.{digits}f} [no interval]"
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def bootstrap_mean(values: Any, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0) -> Interval:
    """Mean over examples with a percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    The n defined examples are drawn n at a time with replacement; the limits are the (1 - level)/2 and (1 + level)/2
    quantiles of the means of these draws.

    Parameters
    ----------
    values : shape (examples,); NaN where the value is undefined for that example.
    resamples, level, seed : number of draws, coverage, and the seed that fixes them.

    Raises
    ------
    InputError
        for no values, a shape other than (examples,), infinite values, or a level outside (0, 1).

    >>> print(bootstrap_mean([0.2, 0.4, 0.6, float("nan")]))
    0.400 [0.200, 0.600], n = 3 (1 undefined)
    """
    given = _examples("bootstrap_mean", values)
    if isinstance(resamples, bool) or not isinstance(resamples, (int, np.integer)) or resamples < 1:
        raise InputError("bootstrap_mean", got=f"resamples {resamples!r}", expected="a positive integer", hint="10,000 is the default")
    if not 0 < level < 1:
        raise InputError("bootstrap_mean", got=f"level {level!r}", expected="a number between 0 and 1", hint="0.95 is the default")
    defined = given[~np.isnan(given)]
    n, undefined = len(defined), len(given) - len(defined)
    mean = float(defined.mean()) if n else float("nan")
    if n < 2:
        return Interval(mean, float("nan"), float("nan"), n, undefined, level)
    generator = np.random.default_rng(seed)
    means, rows = np.empty(resamples), max(1, BLOCK // n)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        means[start:stop] = defined[generator.integers(0, n, size=(stop - start, n))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean, float(low), float(high), n, undefined, level)


def paired_difference(a: Any, b: Any, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0) -> Interval:
    """Mean of `a - b` over the same examples, with its bootstrap interval; undefined where either is.

    >>> print(paired_difference([0.5, 0.7, 0.9], [0.4, 0.6, 0.8]))
    0.100 [0.100, 0.100], n = 3
    """
    left, right = _examples("paired_difference", a), _examples("paired_difference", b)
    if left.shape != right.shape:
        raise InputError(
            "paired_difference",
            got=f"{len(left)} and {len(right)} values",
            expected="one pair per example",
            hint="compare on the same examples, in one order",
        )
    return bootstrap_mean(left - right, resamples=resamples, level=level, seed=seed)


def _examples(operation: str, values: Any) -> np.ndarray:
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1 or not out.size:
        raise InputError(
            operation, got=f"values of shape {out.shape}", expected="(examples,) with at least one", hint="pass one number per example"
        )
    if np.isinf(out).any():
        raise InputError(
            operation, got="infinite values", expected="numbers, or NaN where undefined", hint="find where the infinity comes from"
        )
    return out
