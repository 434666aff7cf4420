"""The methods of a run on reviews, and how much work it is, counted before it begins. No torch, no model:
sizes only.

The unit is a token run forward once; a backward pass counts as two. The weights of the parts are rough: they
are for estimates of time, and no result depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_METHODS = ("loo", "ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp")
"""Methods of a run by default, with their own options. Where others are named, cost and error are kept as
well.
"""


def method_passes(kind: str, options: Mapping[str, Any], tokens: int) -> float:
    """About how many forward passes one explanation costs; a backward pass counts as two.

    >>> method_passes("ig", {"n_steps": 50}, 20), method_passes("mask-gradient", {"groups": "all"}, 20)
    (150.0, 60.0)
    """
    if kind == "ig":
        return 3.0 * options["n_steps"]
    if kind not in ("mask-gradient", "hybrid", "sampled-loo"):
        return 10.0
    groups, removed = (
        options.get("groups", 1),
        options.get("exact", 4) if kind == "hybrid" else options.get("budget", 8),
    )
    gradients = 0.0 if kind == "sampled-loo" else 3.0 * (tokens if groups == "all" else groups)
    return gradients + (0 if kind == "mask-gradient" else removed)


def text_work(
    tokens: int, *, passes: float, methods: int, removals: int, layers: int, chunk: int
) -> dict[str, float]:
    """Tokens run forward for one text, by table of a run.

    Parameters
    ----------
    tokens : of the text, with the special ones.
    passes : of all methods together but LOO, see `method_passes`.
    methods, removals : how many there are.
    chunk : tokens that a step of a perturbation curve removes.

    >>> text_work(10, passes=150, methods=6, removals=4, layers=12, chunk=1)["examples"]
    400.0
    """
    steps = 2 * tokens / chunk
    return {
        "examples": float(removals * tokens * tokens),
        "methods": passes * tokens + 0.35 * methods * steps * tokens,
        "masks": 100 * tokens + 0.15 * 3 * layers * steps * tokens,
        "lattice": 2.0**layers * tokens,
    }


def token_operations(tokens: int, *, layers: int, hidden: int) -> float:
    """Floating-point operations of one token in a forward pass of an encoder: 24 h^2 in the weights of a
    layer, 4 T h in its attention.

    >>> f"{token_operations(128, layers=12, hidden=768):.3g}"
    '1.75e+08'
    """
    return float(layers * (24 * hidden**2 + 4 * tokens * hidden))
