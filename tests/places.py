"""A machine with several devices, played on a processor: every tensor says where it is, and two that are on
different devices meet as they do on such a machine, in an error.

Values are real, so a network that is spread over devices can be compared with one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
FREE = {"__set__", "size", "dim", "requires_grad_", "__repr__"}
"""What reads no number, and so works on any devices."""
LOCAL = {"numpy", "__array__"}
"""What only the processor can do."""


class Machine(TorchFunctionMode):
    """While it is entered, tensors are on the devices that they were made on or moved to; `moves` counts."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = 0

    def place(self, module: nn.Module, device: str) -> None:
        """Put a module on a device; calls of its parts bring their inputs there, as accelerate's hooks do."""
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.place = torch.device(device)
        for part in module.modules():
            part.register_forward_pre_hook(bring_to(torch.device(device)), with_kwargs=True)

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return place_of(args[0])
        if func in (Tensor.to, Tensor.cpu):
            return self._moved(func, *args, **kwargs)
        if func is torch.autograd.grad:  # it crosses devices by itself
            return self._gradients(func, *args, **kwargs)
        given = list(tensors((args, kwargs)))
        places = {place_of(x) for x in given if x.ndim or place_of(x) != CPU}
        if name in LOCAL and places - {CPU}:
            raise TypeError(f"{name} of a tensor on {places}")
        if len(places) > 1 and name not in FREE:
            raise RuntimeError(f"{name} of tensors on {sorted(map(str, places))}")
        asked = kwargs.pop("device", None)
        out = func(*args, **kwargs)
        place = torch.device(asked) if asked is not None else next(iter(places), CPU)
        if name not in FREE:
            for tensor in tensors(out):
                tensor.place = place
        return out

    def _gradients(self, func: Callable, outputs: Any, inputs: Any, **kwargs: Any) -> Any:
        """Gradients, each where its input is."""
        out = func(outputs, inputs, **kwargs)
        for gradient, x in zip(tensors(out), tensors(inputs), strict=True):
            gradient.place = place_of(x)
        return out

    def _moved(self, func: Callable, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """A tensor of another type or on another device: the same object where nothing changes."""
        others = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        device, dtype = (CPU, None) if func is Tensor.cpu else torch._C._nn._parse_to(*args, **kwargs)[:2]
        if others:
            device, dtype = place_of(others[0]), others[0].dtype
        device = place_of(x) if device is None else device
        if device == place_of(x) and dtype in (None, x.dtype):
            return x
        self.moves += device != place_of(x)
        out = x.to(dtype=x.dtype if dtype is None else dtype, copy=True)
        out.place = device
        return out


def bring_to(device: torch.device) -> Callable:
    """A hook that moves what a module is called with."""

    def moved(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device)
        if isinstance(value, (list, tuple)):
            return type(value)(moved(item) for item in value)
        return {key: moved(item) for key, item in value.items()} if isinstance(value, dict) else value

    return lambda module, args, kwargs: (moved(args), moved(kwargs))


def place_of(x: Tensor) -> torch.device:
    """Where a tensor is; what nobody placed is on the processor."""
    return getattr(x, "place", CPU)


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
