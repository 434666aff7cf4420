"""How we compute: arithmetic as a record states it, and how far apart two computations may be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from warnings import warn

import numpy as np
import torch
from torch import nn

CLOSE = {torch.float32: 1e-4, torch.float64: 1e-8, torch.bfloat16: 1e-1, torch.float16: 5e-2}
"""Largest `gap` of logits that are to be the same."""
NEAR = {torch.float32: 1e-3, torch.float64: 1e-5, torch.bfloat16: 1e-1, torch.float16: 5e-2}
"""Largest `gap` where more is computed twice: an adapter's weights, texts without some tokens, the relevance
of a level. A network may work in float32 in places, whatever its weights are.
"""


def gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of two arrays, as a fraction of 1 + the largest size in the second one."""
    return float(np.abs(ours - theirs).max() / (1 + np.abs(theirs).max()))


@contextmanager
def usual_device() -> Iterator[None]:
    """Make tensors on the processor unless code says where, whatever default device the caller has set: new
    tensors on "meta" hold no numbers, and generators do not follow them to a GPU.
    """
    if torch.get_default_device().type == "cpu":  # each call of PyTorch takes longer in a context
        yield
        return
    with torch.device("cpu"):
        yield


@contextmanager
def as_recorded(device: torch.device, network: nn.Module | None = None) -> Iterator[None]:
    """Compute in the numbers' type and without randomness, whatever the caller has switched on.

    Autocast would change scores by several percent, inference mode forbids gradients, and a network in
    training mode drops units at random. These settings are restored afterwards, and the default device.
    """
    training = [] if network is None else [module for module in network.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with usual_device(), torch.inference_mode(False), torch.autocast(device.type, enabled=False):
            yield
    finally:
        for module in training:
            module.training = True


@cache
def warn_of_slow_products() -> None:
    """Say once if this CPU has no instructions for bfloat16, so that its products are slow (measured)."""
    known = getattr(torch.cpu, "get_capabilities", lambda: {"bf16": True})()
    if not any(has for name, has in known.items() if name.endswith("bf16")):
        text = "this CPU has no instructions for bfloat16: float32 is about seven times as fast here"
        warn(text, stacklevel=3)
