"""The specification curve: the effect in every combination of choices, and one test of all of them. No torch.

Simonsohn, Simmons and Nelson (2020), *Specification curve analysis*, Nature Human Behaviour 4. Combinations
share their sentences, so a count of them is no evidence by itself: without any effect one sentence in which a
rule is ahead by chance counts in hundreds. The test turns the signs of whole sentences round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from lrp_companion.lab.labelled import r_with_loo
from lrp_companion.lab.load import TextRun
from lrp_companion.lab.paper.primary import PAIR
from lrp_companion.schema import MAP_CHOICES

Row = dict[str, Any]
Z = 1.959964  # of a 95 % interval


def leads(run: TextRun) -> xr.DataArray:
    """r of CP-LRP minus r of AttnLRP, of every sentence in every combination of choices of a run."""
    r = r_with_loo(run, PAIR, map=MAP_CHOICES[:2])  # the third divides by a positive number: r of the first
    return r.sel(explainer=PAIR[0], drop=True) - r.sel(explainer=PAIR[1], drop=True)


def specification(d: xr.DataArray, *, flips: int = 2000, seed: int = 0) -> Row:
    r"""The curve in numbers, with a joint test of all combinations.

    Under the null hypothesis that no combination has an effect, each sentence's differences, all of them at
    once, are as likely with the other sign. With B draws of signs a p value is (1 + b) / (1 + B), where b
    counts draws in which the statistic is at least as large as without them.

    Parameters
    ----------
    d : the differences, an axis `example` and one for each choice; NaN where undefined.

    Returns
    -------
    dict
        `cells`, `n`, `median` of the mean differences; `above`, `across`, `below`: how many 95 % intervals of
        the mean (normal) lie where from 0; `p`, two-sided, of the median, and `p of the count`, of the larger
        of `above` and `below`; `by chance`, what that larger count reaches in 5 % of the draws.

    >>> d = xr.DataArray([[0.2, 0.1], [0.3, 0.2], [0.1, 0.3]], dims=["example", "site"])
    >>> {name: specification(d, flips=99)[name] for name in ("cells", "above", "below")}
    {'cells': 2, 'above': 2, 'below': 0}
    """
    values = d.transpose("example", ...).values.reshape(d.sizes["example"], -1)
    values = values[:, ~np.isnan(values).all(0)]
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(flips, len(values)))
    n, filled = (~np.isnan(values)).sum(0), np.nan_to_num(values)
    means = np.vstack([np.ones(len(values)), signs]) @ filled / n  # the first row: as it is
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.sqrt(((filled**2).sum(0) / n - means**2).clip(min=0) / (n - 1))
        above, below = ((sign * means > Z * errors).sum(1) for sign in (1, -1))
    medians, larger = np.median(means, axis=1), np.maximum(above, below)
    return {
        "cells": len(n),
        "n": int(n.max()),
        "median": float(medians[0]),
        "above": int(above[0]),
        "across": int(len(n) - above[0] - below[0]),
        "below": int(below[0]),
        "p": _p(np.abs(medians)),
        "p of the count": _p(larger),
        "by chance": int(np.quantile(larger[1:], 0.95)),
    }


def _p(statistic: np.ndarray) -> float:
    return float((1 + (statistic[1:] >= statistic[0] - 1e-12).sum()) / len(statistic))
