"""Measures of explanations: agreement with LOO, curves, axioms, and means with intervals."""

from __future__ import annotations

from lrp_companion.metrics.axioms import ConservationGap, InvarianceGap, conservation_gap, invariance_gap
from lrp_companion.metrics.faithfulness import (
    Curve,
    agreement,
    kendall,
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
    "agreement",
    "bootstrap_mean",
    "conservation_gap",
    "invariance_gap",
    "kendall",
    "normalise",
    "paired_difference",
    "pearson",
    "perturbation_curve",
    "removal_order",
    "spearman",
]
