"""Bootstrap draws over examples, the same for every column, so that columns can be subtracted and averaged draw by draw."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import BLOCK
from lrp_companion.schema import InputError

Key = TypeVar("Key", bound=Hashable)
RESAMPLES = 10_000  # as in bootstrap_mean


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


def limits(draws: np.ndarray) -> np.ndarray:
    """Limits of columns of draws; draws without a value (no defined example in them) are left out."""
    out = np.quantile(draws, [0.025, 0.975], axis=0)
    holes = np.isnan(out[0]) & ~np.isnan(draws).all(0)
    if holes.any():
        out[:, holes] = np.nanquantile(draws[:, holes], [0.025, 0.975], axis=0)
    return out


def interval_of(value: float, draws: np.ndarray, n: int, undefined: int = 0) -> Interval:
    low, high = limits(draws[:, None])[:, 0]
    return Interval(float(value), float(low), float(high), n, undefined)


def bootstrap_columns(columns: Sequence[np.ndarray]) -> list[Interval]:
    """`bootstrap_mean` of columns, with the same draws made once for all columns that are defined on the same examples.

    >>> print(bootstrap_columns([np.array([0.2, 0.4, 0.6]), np.array([1.0, 2.0, float("nan")])])[0])
    0.400 [0.200, 0.600], n = 3
    """
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
