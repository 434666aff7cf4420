"""The methods of a run on reviews, and an estimate of its work from sizes, before it begins.

The unit is one token in one forward pass; a backward pass counts as two. The weights of the parts are rough.
They serve estimates of time, and no result depends on them.
"""

from __future__ import annotations

DEFAULT_METHODS = ("loo", "ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp")
"""Default methods of a run, with default options. A run that names others also keeps cost and error."""


def text_work(
    tokens: int,
    *,
    passes: float,
    methods: int,
    removals: int,
    layers: int,
    chunk: int,
    curves: bool = True,
) -> dict[str, float]:
    """Tokens run forward for one text, by table of a run.

    Parameters
    ----------
    tokens : of the text, with the special ones.
    passes : of all methods together but LOO, see `registry.passes_of`.
    methods, removals : how many there are.
    chunk : tokens that a step of a perturbation curve removes.
    curves : whether there are perturbation curves.

    >>> text_work(10, passes=150, methods=6, removals=4, layers=12, chunk=1)["examples"]
    400.0
    """
    steps = 2 * tokens / chunk if curves else 0.0
    return {
        "examples": float(removals * tokens * tokens),
        "methods": passes * tokens + 0.35 * methods * steps * tokens,
        "masks": 100 * tokens + 0.15 * 3 * layers * steps * tokens,
        "lattice": 2.0**layers * tokens,
    }


def token_operations(tokens: int, *, layers: int, hidden: int) -> float:
    """Floating-point operations of one token in a forward pass of an encoder.

    In each layer 24 h^2 in the weights and 4 T h in attention.

    >>> f"{token_operations(128, layers=12, hidden=768):.3g}"
    '1.75e+08'
    """
    return float(layers * (24 * hidden**2 + 4 * tokens * hidden))
