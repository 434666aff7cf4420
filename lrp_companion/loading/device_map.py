"""Which module of a network lies on which device: what `load_classifier` passes on to `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import InputError, ModelError, shown
from lrp_companion.extras import extra
from lrp_companion.families.modules import copied
from lrp_companion.families.wiring import Linear, Norm, Wiring
from lrp_companion.loading.compute import check_device

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
        parts = [part for part in vars(layer).values() if _holds_weights(part)]
        devices = {str(part.weight.device) for part in parts}
        if len(devices) > 1:
            got = f"a device_map that divides layer {number} of {name!r} ({', '.join(sorted(devices))})"
            expected, hint = "each layer on one device", "name whole layers in the map"
            raise InputError("load_classifier", got=got, expected=expected, hint=hint)


def _holds_weights(part: object) -> bool:
    return isinstance(part, (*Linear.__args__, *Norm.__args__))


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
