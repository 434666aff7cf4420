"""Measures of explanations: agreement with LOO, curves, axioms, and means with intervals."""

from __future__ import annotations

from lrp_companion.metrics.faithfulness import (
    ConservationGap,
    Curve,
    InvarianceGap,
    Leverage,
    agreement,
    conservation_gap,
    invariance_gap,
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
