"""Where the backward pass loses relevance: what biases, norms and softmaxes keep, measured on a walk.

At any place of a network total relevance is `sum a g`. With epsilon 0 three rules change this sum: a bias
keeps its share, so does the beta of a LayerNorm, and the Taylor rule of the softmax, Eq. (5), does not
conserve. The relevance of position and type embeddings is not lost, but it is not at the words either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

CAUSES = ("biases", "norms", "softmax", "positions")
_METER: ContextVar[dict[str, float] | None] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[dict[str, float]]:
    """Relevance lost by cause while the block runs, summed over all walks.

    >>> import torch
    >>> with metered() as lost:
    ...     keeps("biases", lambda: torch.tensor([0.5, 0.25]))
    >>> lost["biases"], lost["softmax"]
    (0.75, 0.0)
    """
    lost = dict.fromkeys(CAUSES, 0.0)
    token = _METER.set(lost)
    try:
        yield lost
    finally:
        _METER.reset(token)


def keeps(cause: str, amount: Callable[[], Tensor]) -> None:
    """Record the relevance that a step of a walk keeps; it is only computed while `metered` is active."""
    lost = _METER.get()
    if lost is not None:
        lost[cause] += float(amount().detach().double().sum())
