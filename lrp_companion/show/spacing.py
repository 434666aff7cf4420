"""Names moved apart: places that keep a smallest distance. NumPy only, for figures of every kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread(wanted: Sequence[float], *, gap: float, low: float, high: float) -> np.ndarray:
    """Move places apart, as little as possible: the least squares under a smallest gap and two limits.

    Parameters
    ----------
    wanted : (n,) places in any order, which is kept; equal ones stay in the order given.
    gap : the smallest distance of two neighbours.
    low, high : the first and the last place that may be taken; where all do not fit, `high` gives way.

    Returns
    -------
    ndarray
        (n,), in the order of `wanted`.

    >>> spread([0.0, 0.0, 5.0], gap=2.0, low=-9, high=9).tolist()
    [-1.0, 1.0, 5.0]
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    blocks: list[tuple[float, int]] = []  # of places that touch: their mean without the steps, how many
    for place in np.asarray(wanted, dtype=np.float64)[order] - steps:
        mean, count = float(place), 1
        while blocks and blocks[-1][0] > mean:
            before, several = blocks.pop()
            mean = (before * several + mean * count) / (several + count)
            count += several
        blocks.append((mean, count))
    apart = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    last = max(low, high - steps[-1]) if len(steps) else high
    out = np.empty(len(order))
    out[order] = np.clip(apart, low, last) + steps
    return out
