"""Agreement of an explanation with LOO, and curves of the output as tokens are removed in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.schema import MAP_CHOICES, InputError, Protocol, choose

ORDERS = ("morf", "lerf")
CANCELLED = 1e-6  # a sum below this part of sum |R| is rounding of single precision: neither its size nor its sign means anything


def pearson(a: Any, b: Any) -> float:
    """Pearson's correlation `r = sum (a - mean a)(b - mean b) / (|a - mean a| |b - mean b|)`; NaN if a or b
    is constant.

    Parameters
    ----------
    a, b : shape (T,), two entries or more.

    Raises
    ------
    InputError
        for other shapes, fewer than two entries, NaN or infinity.

    >>> round(pearson([1, 2, 3], [10, 20, 30]), 12), pearson([1, 2, 3], [5, 5, 5])
    (1.0, nan)
    """
    return _correlation(*check_pair("pearson", a, b))


def spearman(a: Any, b: Any) -> float:
    """Spearman's rank correlation: Pearson's r of the ranks, ties sharing their average rank; NaN if a or b
    is constant.

    >>> round(spearman([1, 2, 3, 3], [1, 4, 9, 9]), 12)
    1.0
    """
    left, right = check_pair("spearman", a, b)
    return _correlation(ranks(left), ranks(right))


def kendall(a: Any, b: Any) -> float:
    """Kendall's tau-b, `(concordant - discordant) / sqrt((pairs untied in a)(pairs untied in b))`; NaN if a
    or b is constant.

    Kendall 1945. Every pair is looked at: T(T - 1)/2 of them.

    >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    left, right = check_pair("kendall", a, b)
    upper = np.triu_indices(len(left), k=1)
    sign_a = np.sign(left[upper[0]] - left[upper[1]])
    sign_b = np.sign(right[upper[0]] - right[upper[1]])
    untied = np.abs(sign_a).sum() * np.abs(sign_b).sum()
    return float((sign_a * sign_b).sum() / np.sqrt(untied)) if untied else float("nan")


CORRELATIONS: dict[str, Callable[[Any, Any], float]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


def normalise(scores: Any, map: str) -> np.ndarray:
    """Return a map as the record says: `raw`, R; `sum-to-one`, R / sum R; `absolute-sum`, R / sum |R|.

    Dividing by a negative sum turns the map's sign, and so the sign of r. A map whose sum cancels (|sum R| at
    most 1e-6 of sum |R|) has no sum-to-one map and a map of zeros has neither: both give NaN throughout.

    >>> normalise([1.0, -3.0, 1.0], "sum-to-one")
    array([-1.,  3., -1.])
    """
    choose("normalise", "map", map, MAP_CHOICES)
    given = _numbers("normalise", scores)
    if map == "raw":
        return given
    size = np.abs(given).sum()
    total = size if map == "absolute-sum" else given.sum()
    return given / total if abs(total) > CANCELLED * size else np.full_like(given, np.nan)


def agreement(scores: Any, loo: Any, special: Any, protocol: Protocol) -> float:
    """Correlation of one explanation with LOO under the protocol's tokens, map and statistic, applied in this
    order.

    Special tokens are taken out first, so a map is rescaled by the sum over the tokens that count. The
    protocol's site, removal and target are choices of how `scores` and `loo` were made.

    Parameters
    ----------
    scores, loo : shape (T,), the two maps of one text.
    special : bool, shape (T,), True for special tokens.

    Returns
    -------
    float
        NaN where it is undefined: fewer than two tokens left, a constant map, or a map that cannot be
        rescaled.

    >>> round(agreement([9.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0], [True, False, False, False], Protocol()), 12)
    1.0
    """
    a, b = check_pair("agreement", scores, loo, least=1)
    kept = (
        ~_mask("agreement", "special", special, a.shape)
        if protocol.tokens == "no-special"
        else np.ones(a.shape, dtype=bool)
    )
    if kept.sum() < 2:
        return float("nan")
    a, b = normalise(a[kept], protocol.map), normalise(b[kept], protocol.map)
    if np.isnan(a).any() or np.isnan(b).any():
        return float("nan")
    return CORRELATIONS[protocol.statistic](a, b)


def removal_order(
    scores: Any, *, order: str = "morf", chunk: int = 1, removable: Any = None
) -> list[np.ndarray]:
    """Return which tokens leave at each step: indices, one array per step.

    MoRF takes the most relevant first, LeRF the least relevant first (Samek et al. 2017; the paper's section
    4.1). The removable tokens are cut, in reading order, into chunks of `chunk` neighbours (the last may be
    shorter), ranked by their summed relevance. Equal chunks leave in reading order, in MoRF and in LeRF
    alike.

    Parameters
    ----------
    scores : shape (T,).
    removable : bool, shape (T,), False for tokens that stay (special ones); all may leave by default.

    >>> [step.tolist() for step in removal_order([0.1, 0.9, 0.5, 0.2], order="lerf", chunk=2)]
    [[2, 3], [0, 1]]
    """
    choose("removal_order", "order", order, ORDERS)
    given = _numbers("removal_order", scores)
    if isinstance(chunk, bool) or not isinstance(chunk, (int, np.integer)) or chunk < 1:
        raise InputError(
            "removal_order",
            got=f"chunk {chunk!r}",
            expected="a positive integer",
            hint="1 removes single tokens",
        )
    places = (
        np.arange(len(given))
        if removable is None
        else np.flatnonzero(_mask("removal_order", "removable", removable, given.shape))
    )
    if not places.size:
        raise InputError(
            "removal_order",
            got="no removable token",
            expected="at least one",
            hint="pass removable=~special of a text with words",
        )
    chunks = [places[start : start + chunk] for start in range(0, len(places), chunk)]
    sums = np.array([given[part].sum() for part in chunks])
    return [chunks[k] for k in np.argsort(-sums if order == "morf" else sums, kind="stable")]


@dataclass(frozen=True)
class Curve:
    """The explained output as tokens are removed, K steps.

    Attributes
    ----------
    logits : shape (K + 1,), f(x_0) to f(x_K); x_0 = x is the whole input.
    removed : shape (K + 1,), how many tokens are gone at each of these.
    order : "morf" or "lerf".
    chunk : tokens per step.
    """

    logits: np.ndarray
    removed: np.ndarray
    order: str
    chunk: int

    @property
    def mean_logit(self) -> float:
        """`1/K sum_{k=1..K} f(x_k)`: the mean of what is recorded after each removal, the whole input left
        out.

        The paper's LeRF and MoRF columns behave like this. Better: high for LeRF, low for MoRF.
        """
        return float(self.logits[1:].mean())

    @property
    def aopc(self) -> float:
        """`1/(K+1) sum_{k=0..K} (f(x) - f(x_k))`, the area over the curve (Samek et al. 2017); k = 0 counts
        and is 0.

        Equal to `K/(K+1) (f(x) - mean_logit)`. Better: high for MoRF, low for LeRF.
        """
        return float((self.logits[0] - self.logits).mean())


def perturbation_curve(
    evaluate: Callable[[np.ndarray], Any],
    scores: Any,
    *,
    order: str = "morf",
    chunk: int = 1,
    removable: Any = None,
) -> Curve:
    """Remove tokens step by step in the order of `scores` and record the output.

    Parameters
    ----------
    evaluate : takes kept tokens, bool, shape (K + 1, T), first row all True; gives the output of each row,
        shape (K + 1,).
    scores, order, chunk, removable : as in `removal_order`. What may not be removed is kept to the end.

    >>> weights = np.array([3.0, 1.0, 2.0])
    >>> curve = perturbation_curve(lambda keep: keep @ weights, weights)
    >>> curve.logits, curve.mean_logit, curve.aopc
    (array([6., 3., 1., 0.]), 1.3333333333333333, 3.5)
    """
    steps = removal_order(scores, order=order, chunk=chunk, removable=removable)
    keep = np.ones((len(steps) + 1, np.size(scores)), dtype=bool)
    for k, step in enumerate(steps, start=1):
        keep[k] = keep[k - 1]
        keep[k, step] = False
    logits = np.asarray(evaluate(keep), dtype=np.float64)
    if logits.shape != (len(keep),) or not np.isfinite(logits).all():
        raise InputError(
            "perturbation_curve",
            got=f"an output of shape {logits.shape}, or NaN in it",
            expected=f"({len(keep)},), finite",
            hint="evaluate gives one logit per row",
        )
    removed = (~keep).sum(axis=1)
    for array in (logits, removed):
        array.setflags(write=False)
    return Curve(logits, removed, order, int(chunk))


def faithfulness_gap(lerf: Curve, morf: Curve) -> float:
    """Return `Delta = LeRF - MoRF` of `mean_logit` (section 4.1 of the paper): how well the order tells
    relevant from irrelevant.

    >>> weights = np.array([3.0, 1.0, 2.0])
    >>> curves = {o: perturbation_curve(lambda keep: keep @ weights, weights, order=o) for o in ("lerf", "morf")}
    >>> round(faithfulness_gap(curves["lerf"], curves["morf"]), 4)
    1.3333
    """
    if (lerf.order, morf.order) != ("lerf", "morf") or lerf.chunk != morf.chunk:
        raise InputError(
            "faithfulness_gap",
            got=f"{lerf.order} by {lerf.chunk} and {morf.order} by {morf.chunk}",
            expected="lerf, then morf, with equal chunks",
            hint="make both curves from one map",
        )
    return lerf.mean_logit - morf.mean_logit


def check_pair(operation: str, a: Any, b: Any, *, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return two maps as float64 arrays of one shape (T,), T >= least; raise `InputError` otherwise."""
    left, right = _numbers(operation, a), _numbers(operation, b)
    if left.shape != right.shape:
        raise InputError(
            operation,
            got=f"{len(left)} and {len(right)} entries",
            expected="two maps of one length",
            hint="compare maps of the same tokens",
        )
    if len(left) < least:
        raise InputError(
            operation,
            got=f"maps of {len(left)} entries",
            expected=f"at least {least}",
            hint="a correlation needs two points",
        )
    return left, right


def _numbers(operation: str, values: Any) -> np.ndarray:
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1 or not out.size:
        raise InputError(
            operation,
            got=f"a map of shape {out.shape}",
            expected="(T,), one score per token",
            hint="pass a flat array",
        )
    if not np.isfinite(out).all():
        raise InputError(
            operation,
            got=f"{int((~np.isfinite(out)).sum())} of {len(out)} scores NaN or infinite",
            expected="finite scores",
            hint="check the explanation",
        )
    return out


def _mask(operation: str, name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    out = np.asarray(values)
    if out.shape != shape or out.dtype != bool:
        raise InputError(
            operation,
            got=f"{name} of shape {out.shape}, {out.dtype}",
            expected=f"{shape}, bool",
            hint="pass one True or False per token",
        )
    return out


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    a, b = unit(a), unit(b)
    return float(np.clip(a @ b, -1, 1))


def unit(a: np.ndarray) -> np.ndarray:
    """Centre and scale to norm 1; dividing by the largest entry first keeps squares from over- and
    underflowing.
    """
    a = a / np.abs(a).max()
    a = a - a.mean()
    a = a / np.abs(a).max()
    return a / np.linalg.norm(a)


def ranks(a: np.ndarray) -> np.ndarray:
    """Ranks from 1, ties sharing their average rank."""
    _, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    average: np.ndarray = np.cumsum(counts) - (counts - 1) / 2
    return average[inverse]


def relative_error(maps: np.ndarray, loo: np.ndarray) -> np.ndarray:
    """How far maps (..., T) are from LOO's own values (T,): sum |R - LOO| / sum |LOO|; not finite where LOO
    is 0 throughout.

    >>> relative_error(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([1.0, 3.0])).tolist()
    [0.25, 1.0]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.abs(maps - loo).sum(-1) / np.abs(loo).sum()
