"""Where and how we compute: the devices of this machine and what of a network lies on which, arithmetic as a
record states it, and how far apart two ways to compute a number may come.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from lrp_companion.checks import InputError, ModelError, shown
from lrp_companion.extras import extra
from lrp_companion.families.modules import copied
from lrp_companion.families.wiring import Linear, Norm, Wiring

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
    kinds = torch.get_device_module(kind)
    return kinds.device_count() if kinds.is_available() else 0


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


POLICIES = ("auto", "balanced", "balanced_low_0", "sequential")
"""Words by which accelerate divides a network among the devices of a machine."""
OFFLOADED = ("disk", "meta")
_HINT = 'take device_map="auto" with enough memory on the devices, or device="cpu"'


def check_device_map(device_map: object, device: str) -> str | dict[str, str] | None:
    """A device map as accelerate reads it: one of `POLICIES`, or devices by the names of modules.

    Raises
    ------
    InputError : both a device and a map; an invalid map; a device that is not here; modules that would be
        loaded only for each call: from disk, or from the processor to another device.
    SourceError : accelerate is not installed.

    >>> check_device_map("cpu", "cpu")
    {'': 'cpu'}
    """
    if device_map is None:
        return None
    if device != "cpu":
        got, hint = f"device {device!r} with a device_map", "leave one of them out"
        raise InputError("load_classifier", got=got, expected="a device or a map of devices", hint=hint)
    places = _places(device_map)
    with extra("load_classifier"):
        import accelerate  # noqa: F401 - transformers asks for it
    return places


def _places(device_map: object) -> str | dict[str, str]:
    """The map with each device checked."""
    if isinstance(device_map, str) and device_map in POLICIES:
        return device_map
    given: Mapping[Any, Any] = device_map if isinstance(device_map, Mapping) else {"": device_map}
    if not given or not all(isinstance(name, str) for name in given):
        got, hint = f"device_map {shown(device_map)}", 'such as {"": "cuda:0"}'
        expected = f"one of {', '.join(POLICIES)}, or devices by module"
        raise InputError("load_classifier", got=got, expected=expected, hint=hint)
    places = {name: _device(name, place) for name, place in given.items()}
    on_cpu = [name for name, place in places.items() if place.type == "cpu"]
    if on_cpu and len(on_cpu) < len(places):
        raise _refused(f"device_map with {on_cpu[0]!r} on the processor beside other devices")
    return {name: str(place) for name, place in places.items()}


def _device(name: str, place: Any) -> torch.device:
    """One entry of a map; a number is that of a CUDA device."""
    if isinstance(place, str) and place in OFFLOADED:
        raise _refused(f"device_map with {name!r} on {place!r}")
    number = isinstance(place, int) and not isinstance(place, bool)
    return check_device("load_classifier", f"cuda:{place}" if number else place)


def _refused(got: str) -> InputError:
    expected = "devices that hold their modules: relevance needs the weights again on the way back"
    return InputError("load_classifier", got=got, expected=expected, hint=_HINT)


def check_placed(name: str, network: nn.Module, wiring: Wiring) -> None:
    """Refuse a network whose weights are not all at hand, or one layer of which lies on several devices.

    Raises
    ------
    InputError : weights that accelerate left on disk, or on the processor next to another device; a layer on
        several devices.
    """
    weights = sorted(network.state_dict().items())
    kinds = {value.device.type for _, value in weights}
    elsewhere = {"meta"} if kinds <= {"cpu", "meta"} else {"cpu", "meta"}
    away = [key for key, value in weights if value.device.type in elsewhere]
    if away:
        raise _refused(f"{name!r}, whose weight {away[0]} accelerate keeps on the processor or on disk")
    for number, layer in enumerate(wiring.layers, start=1):
        parts = [part for part in vars(layer).values() if isinstance(part, Linear | Norm)]
        devices = {str(part.weight.device) for part in parts}
        if len(devices) > 1:
            got = f"a device_map that divides layer {number} of {name!r} ({', '.join(sorted(devices))})"
            expected, hint = "each layer on one device", "name whole layers in the map"
            raise InputError("load_classifier", got=got, expected=expected, hint=hint)


def undivided(network: Any) -> nn.Module:
    """A copy of a network in memory on the processor, without what accelerate hung into it.

    Raises
    ------
    ModelError : weights that are not in memory.
    """
    if any(value.is_meta for value in (*network.parameters(), *network.buffers())):
        got = f"a network of type {type(network).__name__} with weights that are not in memory"
        hint = "load it without offloading, or name its folder"
        raise ModelError("load_classifier", got=got, expected="all weights in memory", hint=hint)
    out = copied(network)
    if hasattr(network, "hf_device_map"):
        from accelerate.hooks import remove_hook_from_submodules

        remove_hook_from_submodules(out)
        del out.hf_device_map
    return out.cpu()
