"""On which examples: their features, p-values by permutation with bootstrap intervals of the effects, and the
correction for many tests. Chapters 6 and 7 read it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lrp_companion.arrays import real_array
from lrp_companion.lab.load import TextRun
from lrp_companion.metrics.faithfulness import ranks
from lrp_companion.metrics.statistics import BLOCK, RESAMPLES, Interval, limits, resampled

Tested = list[tuple[Interval, float]]


def features(run: TextRun) -> dict[str, np.ndarray]:
    """Features of each example.

    `length` in tokens, `confidence` (probability of the predicted class), `label`, and whether the prediction
    is `correct` (1 or 0).
    """
    logits, label = run.logits(), run.example_column("label")
    return {
        "length": run.example_column("tokens").astype(np.float64),
        "confidence": 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1),
        "label": label.astype(np.float64),
        "correct": (label == run.example_column("target")).astype(np.float64),
    }


def rank_correlations(x: np.ndarray, y: np.ndarray) -> Tested:
    """Spearman's r of x (n,) with each column of y (n, k), its bootstrap interval, and its p by permutation.

    Ranks are taken once, before the draws.
    """
    x, y = (real_array("rank_correlations", *pair) for pair in (("x", x), ("y", y)))
    u, v = ranks(x)[:, None], ranks(y.T).T
    mean, draws, _ = resampled(np.concatenate([u, u * u, v, v * v, u * v], 1))

    # r from moments, not from `faithfulness.directions`: the bootstrap has means of each draw, not its rows.
    def r(moments: np.ndarray) -> np.ndarray:
        mu, uu = moments[..., :1], moments[..., 1:2]
        mv, vv, uv = np.split(moments[..., 2:], 3, axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (uv - mu * mv) / np.sqrt((uu - mu**2) * (vv - mv**2))

    return _tested(r(mean), r(draws), len(x), _permutation_p(u[:, 0], v))


def group_differences(x: np.ndarray, y: np.ndarray) -> Tested:
    """Mean of each column of y (n, k) where x is 1 minus where it is 0, and its p."""
    x, y = (real_array("group_differences", *pair) for pair in (("x", x), ("y", y)))
    member = x[:, None] == 1
    mean, draws, _ = resampled(np.concatenate([np.where(member, y, np.nan), np.where(member, np.nan, y)], 1))
    k, p = y.shape[1], _permutation_p(member[:, 0].astype(np.float64), y)
    return _tested(mean[:k] - mean[k:], draws[:, :k] - draws[:, k:], len(x), p)


def _tested(values: np.ndarray, draws: np.ndarray, n: int, p: np.ndarray) -> Tested:
    columns = zip(values.tolist(), *limits(draws).tolist(), p.tolist(), strict=True)
    return [(Interval(value, low, high, n), probability) for value, low, high, probability in columns]


def _permutation_p(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fraction of 10,000 permutations of x, and x itself, whose |covariance| with y is at least that of x.

    One for each column of y.
    """
    u, v = x - x.mean(), y - y.mean(0)
    covariances, generator, step = np.abs(u @ v), np.random.default_rng(0), max(1, BLOCK // len(u))
    reached = np.zeros(y.shape[1])
    for start in range(0, RESAMPLES, step):
        drawn = generator.permuted(np.broadcast_to(u, (min(step, RESAMPLES - start), len(u))), axis=1)
        reached += (np.abs(drawn @ v) >= covariances * (1 - 1e-9)).sum(0)
    return (reached + 1) / (RESAMPLES + 1)


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979).

    In rising order, the k-th of m is multiplied by m - k + 1; the results never fall and are at most 1.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = real_array("holm", "p", p).tolist()
    order, out, highest = sorted(range(len(p)), key=lambda k: p[k]), [0.0] * len(p), 0.0
    for rank, k in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[k]))
        out[k] = highest
    return out
