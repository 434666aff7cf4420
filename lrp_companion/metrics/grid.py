"""Agreement with LOO under every choice of the protocol at once.

The choices of `map` need no further correlations: scaling a map leaves r as it is, and dividing by a negative
sum reverses its sign. So r of raw maps and the sums of the maps hold all three; `at_map` reads them.
"""

from __future__ import annotations

import numpy as np

from lrp_companion.attribution import CANCELLED, SITES
from lrp_companion.checks import InputError, bool_array, choose, real_array
from lrp_companion.metrics.faithfulness import directions
from lrp_companion.schema import MAP_CHOICES, REMOVALS, STATISTICS, TARGET_CHOICES, TOKEN_CHOICES, counted

AXES = {
    "site": SITES,
    "tokens": TOKEN_CHOICES,
    "removal": REMOVALS,
    "target": TARGET_CHOICES,
    "statistic": STATISTICS,
}
"""Axes of a stored r, in this order; the remaining choice, the map, follows from the sums."""


def agreement_grid(
    maps: np.ndarray, loo: np.ndarray, special: np.ndarray, *, statistics: tuple[str, ...] = STATISTICS
) -> np.ndarray:
    """Correlate explanations of one text with LOO under every choice but the map.

    Parameters
    ----------
    maps : shape (..., site, target, T), the explanations read at each site for each explained output.
    loo : shape (removal, target, T), LOO under each removal for the same outputs.
    special : bool, shape (T,).

    Returns
    -------
    r of raw maps, (..., site, tokens, removal, target, statistic). NaN where it is undefined (a constant map,
    fewer than two tokens) and where a map holds NaN, as a missing map does.
    """
    maps, loo = (real_array("agreement_grid", *pair) for pair in (("maps", maps), ("loo", loo)))
    special = bool_array("agreement_grid", "special", special)
    for name, array in (("maps", maps), ("loo", loo)):
        if array.shape[-2:] != (len(TARGET_CHOICES), len(special)):
            expected = f"(..., {len(TARGET_CHOICES)} targets, {len(special)} tokens)"
            got, hint = f"{name} of shape {array.shape}", "pass one map per explained output"
            raise InputError("agreement_grid", got=got, expected=expected, hint=hint)
    flat = maps.reshape(-1, *maps.shape[-2:])
    out = np.full((len(flat), len(TOKEN_CHOICES), len(loo), len(TARGET_CHOICES), len(statistics)), np.nan)
    for t, tokens in enumerate(TOKEN_CHOICES):
        kept = counted(special, tokens)
        if kept.sum() < 2:
            continue
        for o in range(len(TARGET_CHOICES)):
            a, b = flat[:, o, kept], loo[:, o, kept]
            for s, statistic in enumerate(statistics):
                out[:, t, :, o, s] = cross_correlation(a, b, statistic)
    return out.reshape(*maps.shape[:-2], *out.shape[1:])


def cross_correlation(a: np.ndarray, b: np.ndarray, statistic: str) -> np.ndarray:
    """Correlation of every row of `a` (A, T) with every row of `b` (B, T), shape (A, B).

    NaN for rows that are constant or hold NaN.

    >>> maps = np.array([[1.0, 2, 3], [5, 5, 5]])
    >>> cross_correlation(maps, np.array([[10.0, 20, 30], [3, 2, 1]]), "pearson").round(12)
    array([[ 1., -1.],
           [nan, nan]])
    """
    choose("cross_correlation", "statistic", statistic, STATISTICS)
    vectors, defined = [], []
    for rows in (real_array("cross_correlation", "maps", maps) for maps in (a, b)):
        fine = np.asarray(np.isfinite(rows).all(-1))
        fine[fine] = np.ptp(rows[fine], axis=-1) > 0
        defined.append(fine)
        vectors.append(directions(rows[fine], statistic))
    out = np.full((len(a), len(b)), np.nan)
    out[np.ix_(*defined)] = np.clip(vectors[0] @ vectors[1].T, -1, 1)
    return out


def at_map(
    r: np.ndarray, map: str, *, sums: tuple[np.ndarray, np.ndarray], sizes: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Turn r of raw maps into r of maps that are rescaled as by `normalise`.

    `sums` and `sizes`, sum R and sum |R| over the tokens that count, of map and LOO, are shaped like r.

    >>> sums, sizes = (np.array([-2.0]), np.array([1.0])), (np.array([3.0]), np.array([1.0]))
    >>> at_map(np.array([0.5]), "sum-to-one", sums=sums, sizes=sizes)
    array([-0.5])
    """
    choose("at_map", "map", map, MAP_CHOICES)
    if map != "sum-to-one":  # only a map of zeros has no positive scale, and its r is NaN already
        return real_array("at_map", "r", r)
    signs = [
        np.where(np.abs(total) > CANCELLED * size, np.sign(total), np.nan)
        for total, size in zip(sums, sizes, strict=True)
    ]
    return r * signs[0] * signs[1]
