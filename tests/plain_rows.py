"""Numbers of a stored row by plain loops: LOO, the tokens that count, r."""

from __future__ import annotations

import math
from typing import Any


def plain_output(logits: list[float], chosen: int, target: str) -> float:
    """The explained logit, its probability, or its margin over the next."""
    if target == "probability":
        return math.exp(logits[chosen]) / sum(math.exp(value) for value in logits)
    others = [value for k, value in enumerate(logits) if k != chosen]
    return logits[chosen] - (max(others) if target == "margin" else 0.0)


def plain_loo(row: dict[str, Any], removals: int, removal: int = 0, target: str = "logit") -> list[float]:
    """LOO of the explained output: what it is for the whole text minus what it is without each token."""
    rows = row["tokens"] + 1
    classes = len(row["after"]) // (removals * rows)
    starts = [(removal * rows + k) * classes for k in range(rows)]
    outputs = [plain_output(row["after"][k : k + classes], row["target"], target) for k in starts]
    return [outputs[0] - value for value in outputs[1:]]


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
