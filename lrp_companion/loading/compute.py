"""Where and how we compute: the devices of this machine, arithmetic as a record states it, and how far apart
two ways to compute a number may come.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from lrp_companion.checks import InputError, shown

DEVICES = ("cpu", "cuda", "mps", "xpu")
CLOSE = {torch.float32: 1e-4, torch.float64: 1e-8, torch.bfloat16: 1e-1, torch.float16: 5e-2}
"""Largest `gap` of logits that are to be the same."""
NEAR = {torch.float32: 1e-3, torch.float64: 1e-5, torch.bfloat16: 1e-1, torch.float16: 5e-2}
"""Largest `gap` where more is computed twice: an adapter's weights, texts without some tokens, the relevance
of a level. A network may work in float32 in places, whatever its weights are.
"""


def gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of two arrays, as a fraction of 1 + the largest size in the second one.

    >>> gap(np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    0.25
    """
    return float(np.abs(ours - theirs).max() / (1 + np.abs(theirs).max()))


def check_device(operation: str, device: object) -> torch.device:
    """Return the device if this machine has it.

    Raises
    ------
    InputError : a name that PyTorch does not know, or a device that is missing or holds no numbers.

    >>> check_device("load_classifier", "cpu")
    device(type='cpu')
    """
    got = f"device {str(device)!r}" if isinstance(device, (str, torch.device)) else f"device {shown(device)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some names are on their way out
            place = torch.device(device) if isinstance(device, (str, torch.device)) else None
    except RuntimeError:
        place = None
    if place is None or place.type not in DEVICES:
        expected, hint = 'a device such as "cpu" or "cuda"', f"choose from {', '.join(DEVICES)}"
        raise InputError(operation, got=got, expected=expected, hint=hint)
    count = _count(place.type)
    if not count or (place.index or 0) >= count:
        here = f"{count} of this kind" if count else "no such device"
        hint = f'PyTorch sees {here} here; use device="cpu"'
        raise InputError(operation, got=got, expected="a device this machine has", hint=hint)
    return place


def _count(kind: str) -> int:
    """How many devices of a kind PyTorch sees here."""
    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    if kind == "xpu":
        return torch.xpu.device_count() if torch.xpu.is_available() else 0
    return 1


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
