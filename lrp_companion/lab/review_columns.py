"""Columns of a run on reviews: what is kept of every explanation, rounded, on the axes of `lab.base_run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.attribution import CANCELLED, SITES, scores_at
from lrp_companion.lab.base_run import EMBEDDING_PARTS, ERRORS, OVERLAPS, PARTS, PASSES, SUMS, TOP, Axes
from lrp_companion.loading.classifier import EncodedText
from lrp_companion.metrics.faithfulness import ORDERS, Curve, relative_error
from lrp_companion.metrics.grid import agreement_grid
from lrp_companion.schema import TOKEN_CHOICES, counted


def mask_means(r: np.ndarray, part: str, site: str, tokens: str) -> pa.Table:
    """Mean and standard deviation of r (n, masks) of every mask over the examples where it is defined."""
    n = np.isfinite(r).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(r, 0) / n
        sd = np.sqrt(np.nansum((r - mean) ** 2, 0) / (n - 1))
    names = {"part": part, "site": site, "tokens": tokens}
    return pa.table(
        {
            **{name: pa.array([value] * len(n), pa.string()) for name, value in names.items()},
            "mask": pa.array(np.arange(len(n)), pa.int32()),
            "mean": pa.array(mean, pa.float32()),
            "sd": pa.array(sd, pa.float32()),
            "n": pa.array(n, pa.int32()),
        }
    )


@dataclass(frozen=True)
class MethodRow:
    """What a run keeps of one method on one text: `maps` (site, target, T) and `parts` (part, T)."""

    maps: np.ndarray
    parts: np.ndarray
    seconds: float
    delta: float
    passes: tuple[float, float]


def loo_row(loo: np.ndarray, seconds: float) -> MethodRow:
    """LOO (removal, target, T) under the first removal as a method: one map for all sites."""
    tokens = loo.shape[-1]
    parts = np.full((len(EMBEDDING_PARTS), tokens), np.nan)
    parts[0] = loo[0, 0]
    maps = np.broadcast_to(loo[0], (len(SITES), *loo[0].shape))
    return MethodRow(maps, parts, seconds, np.nan, (tokens + 1, 0))


def scores_at_or_nan(parts: Mapping[str, np.ndarray], site: str) -> np.ndarray:
    """A map at a site; NaN where its parts cancel up to rounding.

    They do for input x gradient at the whole embedding sum, because the LayerNorm after it removes every
    scale.
    """
    scores = scores_at(parts, site)
    size = sum(np.abs(part).sum() for part in parts.values())
    return scores if np.abs(scores).sum() > CANCELLED * size else np.full_like(scores, np.nan)


def explained(
    maps: np.ndarray,
    parts: np.ndarray,
    loo: np.ndarray,
    text: EncodedText,
    stored: Axes,
) -> dict[str, pa.Array]:
    """Columns of every explanation of a text, from maps (row, site, target, T) and parts (row, part, T).

    `r` on the axes of `stored`; `sum` and `size`, sum R and sum |R|; `first` and `last`, relevance of the
    first and last token ([CLS], [SEP]) by part of the embedding sum. See `lab.base_run` for their axes,
    `round_r` and `round_bits` for their precision.
    """
    statistics = tuple(map(str, stored.options["statistic"]))
    r = agreement_grid(maps, loo, text.special, statistics=statistics)
    kept = [counted(text.special, tokens) for tokens in TOKEN_CHOICES]
    sums = np.stack([maps[..., mask].sum(-1) for mask in kept], 2)
    sizes = np.stack([np.abs(maps[..., mask]).sum(-1) for mask in kept], 2)
    return {
        "r": stored.column(round_r(r)),
        "sum": SUMS.column(round_bits(sums)),
        "size": SUMS.column(round_bits(sizes)),
        "first": PARTS.column(round_bits(parts[..., 0])),
        "last": PARTS.column(round_bits(parts[..., -1])),
    }


def mean_logits(curves: Mapping[Any, Mapping[str, Curve]], names: Sequence[Any]) -> dict[str, pa.Array]:
    """Columns `morf` and `lerf`: the mean logit along each curve; NaN where none was run."""
    return {
        order: pa.array(
            [curves[name][order].mean_logit if name in curves else np.nan for name in names], pa.float32()
        )
        for order in ORDERS
    }


def nearness(
    maps: np.ndarray, loo: np.ndarray, special: np.ndarray, passes: np.ndarray
) -> dict[str, pa.Array]:
    """Columns on how close maps (methods, site, T) come to LOO (T,), and at what cost.

    `overlap` : the share of the k tokens with the largest |LOO| that are among the k with the largest |R|;
    NaN with fewer than k tokens. `error` : sum |R - LOO| / sum |LOO|. `passes` : forward and backward passes
    of one text. See `lab.base_run` for their axes.
    """
    overlap = np.full((len(maps), *OVERLAPS.shape), np.nan)
    error = np.full((len(maps), *ERRORS.shape), np.nan)
    for t, tokens in enumerate(TOKEN_CHOICES):
        kept = counted(special, tokens)
        wanted, given = np.abs(loo[kept]), maps[..., kept]
        error[..., t] = relative_error(given, loo[kept])
        for place, k in enumerate(TOP):
            if k <= kept.sum():
                top = set(np.argsort(-wanted, kind="stable")[:k].tolist())
                first = np.argsort(-np.abs(given), axis=-1, kind="stable")[..., :k]
                shared = np.isin(first, list(top)).mean(-1)
                overlap[..., t, place] = np.where(np.isnan(given).any(-1), np.nan, shared)
    return {
        "overlap": OVERLAPS.column(overlap),
        "error": ERRORS.column(round_bits(error)),
        "passes": PASSES.column(passes),
    }


def round_r(r: np.ndarray) -> np.ndarray:
    """r to the next multiple of 2**-16 = 0.000015, which compresses to half the size."""
    return np.round(r * 65536) / 65536


def round_bits(values: np.ndarray) -> np.ndarray:
    """Values to 13 significant bits, with a relative error of at most 2**-13 = 0.00012, and a third smaller
    in a file; signs stay.

    >>> round_bits(np.array([1.0, -1.0001, 1000.3, 0.0])).tolist()
    [1.0, -1.0, 1000.25, 0.0]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float32))
    return np.ldexp(np.round(mantissa * 8192) / 8192, exponent)


def forwards(asked: int, run: int, rows: int) -> dict[str, pa.Array]:
    return {
        "forwards_asked": pa.array([asked] * rows, pa.int32()),
        "forwards_run": pa.array([run] * rows, pa.int32()),
    }
