"""Agreement of an explanation with LOO, and curves of the output as tokens are removed in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrp_companion.attribution import CANCELLED, Attribution, differences
from lrp_companion.checks import SITES, InputError, bool_array, choose, extra, ranking, real_array, whole
from lrp_companion.schema import (
    DEFAULT_PROTOCOL,
    MAP_CHOICES,
    REMOVALS,
    STATISTICS,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    Protocol,
    counted,
)

ORDERS = ("morf", "lerf")


def pearson(a: Any, b: Any) -> float:
    """Pearson's correlation `r = sum (a - mean a)(b - mean b) / (|a - mean a| |b - mean b|)`.

    NaN if a or b is constant.

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
    return _correlation(*check_pair("pearson", a, b), "pearson")


def spearman(a: Any, b: Any) -> float:
    """Spearman's rank correlation: Pearson's r of the ranks; NaN if a or b is constant.

    Ties share their average rank.

    >>> round(spearman([1, 2, 3, 3], [1, 4, 9, 9]), 12)
    1.0
    """
    return _correlation(*check_pair("spearman", a, b), "spearman")


def kendall(a: Any, b: Any) -> float:
    """Kendall's tau-b, `(concordant - discordant) / sqrt((pairs untied in a)(pairs untied in b))`.

    Kendall 1945, as SciPy computes it. NaN if a or b is constant.

    >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    with extra("kendall"):
        from scipy.stats import kendalltau  # takes about a second to import

    left, right = check_pair("kendall", a, b)
    return float(kendalltau(left, right, variant="b").statistic)


class Leverage(NamedTuple):
    """Where one entry stands in a correlation: its distances `u` in a, `v` in b; `rest`, r without it."""

    u: float
    v: float
    rest: float

    @property
    def r(self) -> float:
        """Pearson's r of all entries, `(rest + u v) / sqrt((1 + u**2) (1 + v**2))`."""
        return float((self.rest + self.u * self.v) / np.sqrt((1 + self.u**2) * (1 + self.v**2)))


def leverage(a: Any, b: Any, place: int) -> Leverage:
    """What one entry does to Pearson's r: its two distances from the others, and r of the others.

    With n entries, `u = (a_k - mean) sqrt((n - 1) / n) / |a - mean|`, mean and norm over the others, and v
    the same of b. A distance of 1 weighs as much as all the others together. As u grows, r goes to
    `v / sqrt(1 + v**2)`, whatever the others say.

    Raises
    ------
    InputError
        as `pearson`; fewer than three entries, or a place that is none of them.

    >>> first = leverage([-5, 2, 1, 0], [1, 2, 1, 0], 0)
    >>> round(first.u, 2), first.v, round(first.rest, 2), round(first.r, 2)
    (-3.67, 0.0, 1.0, 0.26)
    """
    x, y = check_pair("leverage", a, b, least=3)
    whole("leverage", "place", place, least=0, most=len(x) - 1, hint="places count from 0")
    others = np.arange(len(x)) != place
    scale = np.sqrt((len(x) - 1) / len(x))
    with np.errstate(invalid="ignore", divide="ignore"):
        u, v = (
            scale * (z[place] - z[others].mean()) / np.linalg.norm(z[others] - z[others].mean())
            for z in (x, y)
        )
    return Leverage(float(u), float(v), _correlation(x[others], y[others], "pearson"))


CORRELATIONS: dict[str, Callable[[Any, Any], float]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


def normalise(scores: Any, map: str) -> np.ndarray:
    """Rescale a map as the protocol says: `raw`, R; `sum-to-one`, R / sum R; `absolute-sum`, R / sum |R|.

    Dividing by a negative sum reverses the map's sign, and so the sign of r. If the sum cancels (|sum R| at
    most 1e-6 of sum |R|), there is no sum-to-one map; for a map of zeros there is neither. Both give NaN
    throughout.

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


def agreement(
    scores: Any, loo: Any, special: Any = None, protocol: Protocol = DEFAULT_PROTOCOL, *, unlike: bool = False
) -> float:
    """Correlation of one explanation with LOO under the protocol's tokens, map and statistic.

    They are applied in this order: special tokens are taken out first, so a map is rescaled by the sum over
    the tokens that count. The protocol's site, removal and target say how `scores` and `loo` were made.

    Parameters
    ----------
    scores, loo : the two maps of one text: two `Attribution`s of the same tokens, which mark special tokens
        and are read at the protocol's site, or arrays of shape (T,).
    special : bool, shape (T,), True for special tokens; not for records.
    unlike : compare records of different models, classes or outputs, too.

    Returns
    -------
    float
        NaN where it is undefined: fewer than two tokens left, a constant map, or one that cannot be rescaled.

    Raises
    ------
    InputError : records that explain different numbers (`attribution.differences`), or only one record; maps
        of other shapes; NaN.

    >>> special = [True, False, False, False]
    >>> round(agreement([9.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0], special, Protocol()), 12)
    1.0
    >>> record = Attribution(("[CLS]", "fine"), [0.1, -0.25], 1, 2.5, [True, False], "loo")
    >>> agreement(record, record)  # of one token
    nan
    """
    if isinstance(scores, Attribution) or isinstance(loo, Attribution):
        scores, loo, special = _maps_of(scores, loo, special, protocol, unlike=unlike)
    a, b = check_pair("agreement", scores, loo, least=1)
    kept = np.ones(a.shape, dtype=bool)
    if protocol.tokens == "no-special":
        kept = ~_mask("agreement", "special", special, a.shape)
    if kept.sum() < 2:
        return float("nan")
    a, b = normalise(a[kept], protocol.map), normalise(b[kept], protocol.map)
    defined = not (np.isnan(a).any() or np.isnan(b).any())
    return CORRELATIONS[protocol.statistic](a, b) if defined else float("nan")


def _maps_of(
    scores: Any, loo: Any, special: Any, protocol: Protocol, *, unlike: bool
) -> tuple[Any, Any, Any]:
    """Scores, LOO and special tokens of two records of one text."""
    both = isinstance(scores, Attribution) and isinstance(loo, Attribution)
    if not both or special is not None:
        given = ", ".join(type(value).__name__ for value in (scores, loo, special) if value is not None)
        expected, hint = "two Attributions, or two maps and special", "agreement(explanation, loo)"
        raise InputError("agreement", got=given, expected=expected, hint=hint)
    apart = differences(scores, loo)
    if apart and not (unlike and len(scores.tokens) == len(loo.tokens)):
        got = f"records that differ in {', '.join(apart)}"
        hint = 'explain both alike (words go with words: loo with unit="word"), or pass unlike=True'
        raise InputError(
            "agreement", got=got, expected="two records of one model, text and output", hint=hint
        )
    return scores.scores_at(protocol.site), loo.scores_at(protocol.site), scores.special


def removal_order(
    scores: Any, *, order: str = "morf", chunk: int = 1, removable: Any = None
) -> list[np.ndarray]:
    """Return which tokens leave at each step: indices, one array per step.

    MoRF takes the most relevant first, LeRF the least relevant first (Samek et al. 2017; section 4.1 of the
    paper). In reading order, the removable tokens are cut into chunks of `chunk` neighbours (the last may be
    shorter). Chunks are ranked by their summed relevance; equal chunks leave in reading order. `removable` is
    bool, shape (T,): False for tokens that stay (special ones).

    >>> [step.tolist() for step in removal_order([0.1, 0.9, 0.5, 0.2], order="lerf", chunk=2)]
    [[2, 3], [0, 1]]
    """
    choose("removal_order", "order", order, ORDERS)
    given = _numbers("removal_order", scores)
    chunk = whole("removal_order", "chunk", chunk, hint="1 removes single tokens")
    places = np.arange(len(given))
    if removable is not None:
        places = np.flatnonzero(_mask("removal_order", "removable", removable, given.shape))
    if not places.size:
        hint = "pass removable=~special of a text with words"
        raise InputError("removal_order", got="no removable token", expected="at least one", hint=hint)
    chunks = [places[start : start + chunk] for start in range(0, len(places), chunk)]
    sums = np.array([given[members].sum() for members in chunks])
    sizes = np.array([np.abs(given[members]).sum() for members in chunks])
    return [chunks[k] for k in ranking(sums if order == "morf" else -sums, sizes=sizes)]


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
        """`1/K sum_{k=1..K} f(x_k)`: the mean of the outputs after each removal, without that of the whole
        input.

        The paper's LeRF and MoRF columns behave like this. High is better for LeRF, low for MoRF.
        """
        return float(self.logits[1:].mean())

    @property
    def aopc(self) -> float:
        """`1/(K+1) sum_{k=0..K} (f(x) - f(x_k))`, the area over the curve (Samek et al. 2017).

        k = 0 counts and is 0, so this is `K/(K+1) (f(x) - mean_logit)`. High is better for MoRF.
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
    scores, order, chunk, removable : as in `removal_order`. Tokens that may not be removed stay to the end.

    >>> weights = np.array([3.0, 1.0, 2.0])
    >>> curve = perturbation_curve(lambda keep: keep @ weights, weights)
    >>> curve.logits, curve.mean_logit, curve.aopc
    (array([6., 3., 1., 0.]), 1.3333333333333333, 3.5)
    """
    steps = removal_order(scores, order=order, chunk=chunk, removable=removable)
    keep = np.ones((len(steps) + 1, _numbers("perturbation_curve", scores).size), dtype=bool)
    for k, step in enumerate(steps, start=1):
        keep[k] = keep[k - 1]
        keep[k, step] = False
    logits = real_array("perturbation_curve", "the output of evaluate", evaluate(keep))
    if logits.shape != (len(keep),) or not np.isfinite(logits).all():
        got, hint = f"an output of shape {logits.shape}, or NaN in it", "evaluate gives one logit per row"
        raise InputError("perturbation_curve", got=got, expected=f"({len(keep)},), finite", hint=hint)
    removed = (~keep).sum(axis=1)
    for array in (logits, removed):
        array.setflags(write=False)
    return Curve(logits, removed, order, int(chunk))


def check_pair(operation: str, a: Any, b: Any, *, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return two maps as float64 arrays of one shape (T,), T >= least; raise `InputError` otherwise."""
    left, right = _numbers(operation, a), _numbers(operation, b)
    if left.shape != right.shape:
        got, hint = f"{len(left)} and {len(right)} entries", "compare maps of the same tokens"
        raise InputError(operation, got=got, expected="two maps of one length", hint=hint)
    if len(left) < least:
        got, hint = f"maps of {len(left)} entries", "a correlation needs two points"
        raise InputError(operation, got=got, expected=f"at least {least}", hint=hint)
    return left, right


def _numbers(operation: str, values: Any) -> np.ndarray:
    out = real_array(operation, "a map", values)
    if out.ndim != 1 or not out.size:
        got, expected = f"a map of shape {out.shape}", "(T,), one score per token"
        raise InputError(operation, got=got, expected=expected, hint="pass a flat array")
    if not np.isfinite(out).all():
        got = f"{int((~np.isfinite(out)).sum())} of {len(out)} scores NaN or infinite"
        raise InputError(operation, got=got, expected="finite scores", hint="check the explanation")
    return out


def _mask(operation: str, name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    out = bool_array(operation, name, values)
    if out.shape != shape:
        got, hint = f"{name} of shape {out.shape}", "pass one True or False per token"
        raise InputError(operation, got=got, expected=f"{shape}", hint=hint)
    return out


def _correlation(a: np.ndarray, b: np.ndarray, statistic: str) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    left, right = directions(np.stack([a, b]), statistic)
    return float(np.clip(left @ right, -1, 1))


def directions(maps: np.ndarray, statistic: str) -> np.ndarray:
    """Unit vectors of non-constant maps (n, T), whose dot products are the correlations of the maps.

    For Pearson's r it is the map itself, for Spearman's its ranks, centred and scaled to norm 1. For
    Kendall's tau-b it holds the signs of the differences of all T(T - 1)/2 pairs of tokens. SciPy's
    `kendalltau` takes two maps at a time; these vectors give all pairs of many maps in one matrix product.
    """
    if statistic == "kendall":
        first, second = np.triu_indices(maps.shape[-1], k=1)
        signs = np.sign(maps[:, first] - maps[:, second])
        return signs / np.sqrt(np.abs(signs).sum(-1, keepdims=True))
    values = ranks(maps) if statistic == "spearman" else maps
    return _units(values)


def _units(rows: np.ndarray) -> np.ndarray:
    """Centre rows (n, T) and scale each to norm 1; dividing by its largest entry first keeps squares from
    overflowing.
    """
    a = np.ascontiguousarray(rows)  # so that each row is added up as if it were alone
    a = a / np.abs(a).max(-1, keepdims=True)
    a = a - a.mean(-1, keepdims=True)
    a = a / np.abs(a).max(-1, keepdims=True)
    return a / np.sqrt(np.vecdot(a, a))[:, None]


def ranks(a: np.ndarray) -> np.ndarray:
    """Ranks from 1 along the last axis, ties sharing their average rank."""
    with extra("ranks"):
        from scipy.stats import rankdata  # takes about a second to import

    return rankdata(a, axis=-1)


def relative_error(maps: np.ndarray, loo: np.ndarray) -> np.ndarray:
    """How far maps (..., T) are from LOO (T,): sum |R - LOO| / sum |LOO|; not finite where LOO is all 0.

    >>> relative_error(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([1.0, 3.0])).tolist()
    [0.25, 1.0]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.abs(maps - loo).sum(-1) / np.abs(loo).sum()


AXES = {
    "site": SITES,
    "tokens": TOKEN_CHOICES,
    "removal": REMOVALS,
    "target": TARGET_CHOICES,
    "statistic": STATISTICS,
}
"""Axes of a stored r, in this order. The remaining choice, the map, follows from the sums: scaling a map
leaves r as it is, and dividing by a negative sum reverses its sign; `at_map` does so.
"""


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
    array
        r of raw maps, (..., site, tokens, removal, target, statistic). NaN where it is undefined (a
        constant map, fewer than two tokens) and where a map holds NaN, as a missing map does.
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
    """Correlation of every row of `a` (..., A, T) with every row of `b` (..., B, T), shape (..., A, B).

    NaN for rows that are constant or hold NaN.
    """
    choose("cross_correlation", "statistic", statistic, STATISTICS)
    vectors, defined = [], []
    for rows in (real_array("cross_correlation", "maps", maps) for maps in (a, b)):
        fine = np.asarray(np.isfinite(rows).all(-1))
        fine[fine] = np.ptp(rows[fine], axis=-1) > 0
        of = directions(rows[fine], statistic)
        vectors.append(np.zeros((*fine.shape, of.shape[-1])))
        vectors[-1][fine] = of
        defined.append(fine)
    r = np.clip(vectors[0] @ vectors[1].mT, -1, 1)
    return np.where(defined[0][..., None] & defined[1][..., None, :], r, np.nan)


def at_map(
    r: np.ndarray, map: str, *, sums: tuple[np.ndarray, np.ndarray], sizes: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Turn r of raw maps into r of maps that are rescaled as by `normalise`.

    `sums` and `sizes`, sum R and sum |R| over the tokens that count, of map and LOO, are shaped like r.
    """
    choose("at_map", "map", map, MAP_CHOICES)
    if map != "sum-to-one":  # only a map of zeros has no positive scale, and its r is NaN already
        return real_array("at_map", "r", r)
    signs = [
        np.where(np.abs(total) > CANCELLED * size, np.sign(total), np.nan)
        for total, size in zip(sums, sizes, strict=True)
    ]
    return r * signs[0] * signs[1]
