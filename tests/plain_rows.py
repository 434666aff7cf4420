"""Numbers of a stored row by plain loops: LOO, the tokens that count, r."""

from __future__ import annotations

import math
from typing import Any


def plain_loo(row: dict[str, Any], removals: int, removal: int = 0) -> list[float]:
    """LOO of the explained logit: what it is for the whole text minus what it is without each token."""
    classes = len(row["after"]) // (removals * (row["tokens"] + 1))
    start = removal * (row["tokens"] + 1) * classes
    logits = row["after"][start : start + (row["tokens"] + 1) * classes]
    of_class = [logits[k * classes + row["target"]] for k in range(row["tokens"] + 1)]
    return [of_class[0] - value for value in of_class[1:]]


def plain_r(x: list[float], y: list[float]) -> float:
    n = len(x)
    a, b = sum(x) / n, sum(y) / n
    top = sum((p - a) * (q - b) for p, q in zip(x, y, strict=True))
    return top / math.sqrt(sum((p - a) ** 2 for p in x) * sum((q - b) ** 2 for q in y))


def counted(example: dict[str, Any], tokens: str) -> list[int]:
    return [k for k in range(example["tokens"]) if tokens == "all" or k not in example["special"]]


def r_of(x: list[float], y: list[float], kept: list[int]) -> float:
    """r over the tokens that count; NaN where it is undefined."""
    a, b = [x[k] for k in kept], [y[k] for k in kept]
    return plain_r(a, b) if len(kept) > 1 and len(set(a)) > 1 and len(set(b)) > 1 else math.nan
