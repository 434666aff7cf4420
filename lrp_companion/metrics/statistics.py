"""Means over examples with bootstrap intervals, and over trainings.

NaN marks an example whose value is undefined. It is counted, never silently dropped. All draws come from one
random stream: `bootstrap_mean` takes one column, and `resampled` takes the same draws for many, so that
columns can be subtracted and averaged draw by draw.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from lrp_companion.checks import InputError, extra, real_array, whole

Key = TypeVar("Key", bound=Hashable)
RESAMPLES = 10_000
POWER_FACTOR = (1.959964 + 0.841621) / 1.959964
"""A test at 5 % finds an effect of 2.80 standard errors in 80 % of samples; a half-width is 1.96 of them."""
MOST = 10_000_000  # draws: their means take 80 MB
BLOCK = 1 << 20  # indices drawn at once, so that memory does not grow with resamples times examples
KEPT = 1 << 24  # draws of at most so many indices are kept for the next column of that length


@dataclass(frozen=True)
class Interval:
    """A mean over examples and its bootstrap interval.

    Attributes
    ----------
    mean, low, high : in the unit of the values; `low` and `high` are NaN for fewer than two examples, all
        three for none.
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
        """Mean and limits with the given number of decimals, without n."""
        if not self.n:
            return "undefined"
        if np.isnan(self.low):
            return f"{self.mean:.{digits}f} [no interval]"
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def bootstrap_mean(
    values: Any, *, resamples: int = RESAMPLES, level: float = 0.95, seed: int = 0
) -> Interval:
    """Mean over examples with a percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    The n defined examples are drawn n at a time with replacement; the limits are the (1 - level)/2 and (1 +
    level)/2 quantiles of the means of these draws.

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
    resamples = whole("bootstrap_mean", "resamples", resamples, most=MOST, hint="10,000 is the default")
    seed = whole("bootstrap_mean", "seed", seed, least=0, hint="0 is the default")
    if not 0 < level < 1:
        raise InputError("bootstrap_mean", got=f"level {level}", expected="between 0 and 1", hint="try 0.95")
    defined = given[~np.isnan(given)]
    n, undefined = len(defined), len(given) - len(defined)
    mean = float(defined.mean()) if n else float("nan")
    if n < 2:
        return Interval(mean, float("nan"), float("nan"), n, undefined, level)
    means = np.empty(resamples)
    for rows, drawn in draw_rows(n, resamples, seed):
        means[rows] = defined[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean, float(low), float(high), n, undefined, level)


def paired_difference(
    a: Any, b: Any, *, resamples: int = RESAMPLES, level: float = 0.95, seed: int = 0
) -> Interval:
    """Mean of `a - b` over the same examples, with its bootstrap interval; undefined where either is.

    >>> print(paired_difference([0.5, 0.7, 0.9], [0.4, 0.6, 0.8]))
    0.100 [0.100, 0.100], n = 3
    """
    left, right = _examples("paired_difference", a), _examples("paired_difference", b)
    if left.shape != right.shape:
        got, hint = f"{len(left)} and {len(right)} values", "compare on the same examples, in one order"
        raise InputError("paired_difference", got=got, expected="one pair per example", hint=hint)
    return bootstrap_mean(left - right, resamples=resamples, level=level, seed=seed)


def _examples(operation: str, values: Any) -> np.ndarray:
    out = real_array(operation, "values", values)
    if out.ndim != 1 or not out.size:
        got, expected = f"values of shape {out.shape}", "(examples,) with at least one"
        raise InputError(operation, got=got, expected=expected, hint="pass one number per example")
    if np.isinf(out).any():
        expected, hint = "numbers, or NaN where undefined", "find where the infinity comes from"
        raise InputError(operation, got="infinite values", expected=expected, hint=hint)
    return out


def draw_rows(n: int, resamples: int, seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    """The examples of each draw, (draws, n), some draws at a time."""
    generator, step = np.random.default_rng(seed), max(1, BLOCK // n)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        yield slice(start, stop), generator.integers(0, n, size=(stop - start, n))


def draw_weights(n: int, seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    """How often each of n examples is in each of `RESAMPLES` draws of `draw_rows`, (draws, n)."""
    few = n * RESAMPLES <= KEPT  # in 16 bits, for the next columns of this length
    for rows, weights in _kept_weights(n, seed, BLOCK) if few else _weights(n, seed):
        yield rows, weights.astype(np.float64)


def _weights(n: int, seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    for rows, drawn in draw_rows(n, RESAMPLES, seed):
        places = drawn + n * np.arange(len(drawn))[:, None]
        yield rows, np.bincount(places.ravel(), minlength=len(drawn) * n).reshape(len(drawn), n)


@lru_cache(maxsize=4)
def _kept_weights(n: int, seed: int, block: int) -> list[tuple[slice, np.ndarray]]:
    return [(rows, weights.astype(np.uint16)) for rows, weights in _weights(n, seed)]


def side_of_band(value: Interval, low: float, high: float) -> str:
    """The place of an interval: "inside" low..high, "below" or "above" it, or "across" one of its limits.

    Touching a limit counts as across; "undefined" without an interval.
    """
    if math.isnan(value.low):
        return "undefined"
    if value.low > low and value.high < high:
        return "inside"
    return "above" if value.low > high else "below" if value.high < low else "across"


# -- many columns with the same draws ----------------------------------------------------------------


def resampled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of columns, and of 10,000 bootstrap draws of them.

    The draws are the same for all columns of one length. A draw takes n of the n rows with replacement and
    averages those that are defined. Without NaN the draws are those of `bootstrap_mean`.

    Values (examples, columns) give means (columns,), means of the draws (10000, columns), and the number of
    defined examples (columns,). Draws of a column with fewer than two of these are NaN.
    """
    given = real_array("resampled", "values", values)
    if given.ndim != 2 or not len(given):
        got, hint = f"values of shape {given.shape}", "pass a row per example"
        raise InputError("resampled", got=got, expected="(examples, columns)", hint=hint)
    known = ~np.isnan(given)
    filled, defined = np.where(known, given, 0.0), known.sum(0)
    holes = defined < len(given)
    draws = np.empty((RESAMPLES, given.shape[1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        for rows, weights in draw_weights(len(given), 0):
            draws[rows] = weights @ filled
            draws[rows, ~holes] /= len(given)
            if holes.any():
                draws[rows, holes] /= weights @ known[:, holes].astype(np.float64)
        mean = filled.sum(0) / defined
    draws[:, defined < 2] = np.nan
    return mean, draws, defined


def limits(draws: np.ndarray) -> np.ndarray:
    """Limits of columns of draws; draws without a value (no defined example in them) are left out."""
    out = np.quantile(draws, [0.025, 0.975], axis=0)
    holes = np.isnan(out[0]) & ~np.isnan(draws).all(0)
    if holes.any():
        out[:, holes] = np.nanquantile(draws[:, holes], [0.025, 0.975], axis=0)
    return out


def interval_of(value: float, draws: np.ndarray, n: int, undefined: int = 0) -> Interval:
    """The interval of a value from its bootstrap draws (draws,), as `resampled` makes them."""
    low, high = limits(draws[:, None])[:, 0]
    return Interval(float(value), float(low), float(high), n, undefined)


def bootstrap_columns(columns: Sequence[np.ndarray]) -> list[Interval]:
    """`bootstrap_mean` of columns; those that are defined on the same examples share one set of draws."""
    columns = [real_array("bootstrap_columns", "a column", values) for values in columns]
    alike: dict[bytes, list[int]] = {}
    for place, values in enumerate(columns):
        alike.setdefault(np.isnan(values).tobytes(), []).append(place)
    out: dict[int, Interval] = {}
    for places in alike.values():
        known = ~np.isnan(columns[places[0]])
        n, undefined = int(known.sum()), int((~known).sum())
        if n < 2:
            out |= {place: bootstrap_mean(columns[place]) for place in places}
            continue
        mean, draws, _ = resampled(np.stack([columns[place][known] for place in places], 1))
        ends = zip(places, mean.tolist(), *limits(draws).tolist(), strict=True)
        out |= {place: Interval(value, low, high, n, undefined) for place, value, low, high in ends}
    return [out[place] for place in range(len(columns))]


def intervals(columns: Mapping[Key, np.ndarray]) -> dict[Key, Interval]:
    """`bootstrap_columns` by name."""
    return dict(zip(columns, bootstrap_columns(list(columns.values())), strict=True))


def detectable(value: Interval) -> float:
    """The smallest effect that this many examples would have shown, with power 0.8 at 5 %, two-sided.

    It is 1.43 half-widths of the 95 % interval; NaN without one. These examples could not have confirmed a
    smaller effect of the paper, nor ruled it out by an interval that includes 0.
    """
    return POWER_FACTOR * (value.high - value.low) / 2


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
    """`over_trainings`; with one training, the mean over examples with its interval over them."""
    if len(columns) != 1:
        return over_trainings(columns)
    (only,) = columns.values()
    return bootstrap_mean(only)
