"""Measures of explanations: agreement with LOO, curves, and means with intervals; and two properties demanded
of explanations: conservation and implementation invariance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lrp_companion.checks import InputError, real_array
from lrp_companion.metrics.faithfulness import (
    Curve,
    Leverage,
    agreement,
    check_pair,
    kendall,
    leverage,
    normalise,
    pearson,
    perturbation_curve,
    removal_order,
    spearman,
)
from lrp_companion.metrics.statistics import Interval, bootstrap_mean, paired_difference

__all__ = [
    "ConservationGap",
    "Curve",
    "Interval",
    "InvarianceGap",
    "Leverage",
    "agreement",
    "bootstrap_mean",
    "conservation_gap",
    "invariance_gap",
    "kendall",
    "leverage",
    "normalise",
    "paired_difference",
    "pearson",
    "perturbation_curve",
    "removal_order",
    "spearman",
]


class ConservationGap(NamedTuple):
    """How far the scores' sum is from the output: `absolute` in its unit, `relative` to its size."""

    relative: float
    absolute: float


class InvarianceGap(NamedTuple):
    """How far two explanations of one function are apart.

    `relative` is their distance (0: the same, 2: opposite), `r` Pearson's correlation.
    """

    relative: float
    r: float


def conservation_gap(scores: Any, logit: float) -> ConservationGap:
    """Return `(sum_i R_i - f) / |f|` and `sum_i R_i - f` (conservation: Bach et al. 2015, Eq. (2)).

    Parameters
    ----------
    scores : any shape, or the sum itself.
    logit : f, the output that was explained. For f = 0 the relative gap is undefined (NaN).

    >>> conservation_gap([1.0, 2.0, -0.5], 2.0)
    ConservationGap(relative=0.25, absolute=0.5)
    """
    given, output = (real_array("conservation_gap", *pair) for pair in (("scores", scores), ("logit", logit)))
    if not given.size or not np.isfinite(given).all() or output.size != 1 or not np.isfinite(output).all():
        got, expected = "no scores, or NaN or infinity", "finite scores and a finite logit"
        raise InputError("conservation_gap", got=got, expected=expected, hint="check the explanation")
    explained = output.item()
    absolute = float(given.sum() - explained)
    return ConservationGap(absolute / abs(explained) if explained else float("nan"), absolute)


def invariance_gap(a: Any, b: Any) -> InvarianceGap:
    """Return `|a - b| / ((|a| + |b|) / 2)` (Euclidean norms) and Pearson's r of two maps of one function.

    Implementation invariance (Sundararajan et al. 2017) asks for 0: two networks that compute the same
    function must have the same explanation. r alone is not enough: it is 1 for maps that differ by a factor.

    Parameters
    ----------
    a, b : maps of one shape, two entries or more.

    >>> gap = invariance_gap([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    >>> round(gap.relative, 3), round(gap.r, 3)
    (0.667, 1.0)
    """
    first, second = real_array("invariance_gap", "a", a), real_array("invariance_gap", "b", b)
    left, right = check_pair("invariance_gap", first.ravel(), second.ravel())
    if first.shape != second.shape:
        got, hint = f"shapes {first.shape} and {second.shape}", "explain the same input twice"
        raise InputError("invariance_gap", got=got, expected="two maps of one shape", hint=hint)
    size = float(np.linalg.norm(left) + np.linalg.norm(right)) / 2
    return InvarianceGap(float(np.linalg.norm(left - right)) / size if size else 0.0, pearson(left, right))
