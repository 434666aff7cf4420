"""How a comparison is timed, and what arithmetic alone would take.

Two pieces of code are compared in one run: their repeats alternate, in changing order, so that a machine that
slows down slows both, and what is read is the processor's time. The result is a ratio for each repeat; its
median and its range are kept, and all seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

MINIMUM = 0.2  # seconds: shorter work is repeated inside one measurement
LONG = 2.0  # seconds: the first call of longer work counts
ROWS = 1024  # tokens of the matrix multiplies by which the machine's rate is measured


def interleaved(
    sides: Mapping[str, Callable[[], Any]], *, repeats: int, minimum: float = MINIMUM
) -> dict[str, list[float]]:
    """Processor seconds of one call of each side, one value per repeat, sides alternating.

    A first call tells how often short work is repeated inside one measurement; for long work it is the first
    repeat. What other programs do counts little: it is this process's time on the processor, not the clock's.

    >>> sorted(interleaved({"a": int, "b": float}, repeats=2, minimum=0.0))
    ['a', 'b']
    """
    inner: dict[str, int] = {}
    names, out = list(sides), {name: [] for name in sides}  # type: tuple[list[str], dict[str, list[float]]]
    for name, call in sides.items():
        once = _seconds(call, 1)
        inner[name] = max(1, math.ceil(minimum / max(once, 1e-9)) if minimum else 1)
        if once > LONG:
            out[name].append(once)
    alike = min(map(len, out.values()))  # repeats stay pairs: a side's first counts if all sides have one
    out = {name: seconds[:alike] for name, seconds in out.items()}
    for repeat in range(alike, repeats):
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            out[name].append(_seconds(sides[name], inner[name]))
    return out


def _seconds(call: Callable[[], Any], times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def ratio(above: list[float], below: list[float]) -> dict[str, float]:
    """Median, lowest and highest of `above / below`, repeat by repeat.

    >>> ratio([2.0, 6.0, 4.0], [1.0, 2.0, 1.0])
    {'median': 3.0, 'low': 2.0, 'high': 4.0}
    """
    ratios = np.array(above) / np.array(below)
    return {"median": float(np.median(ratios)), "low": float(ratios.min()), "high": float(ratios.max())}


@dataclass(frozen=True)
class Shape:
    """What decides how much arithmetic an encoder needs."""

    layers: int
    hidden: int
    inner: int
    heads: int

    def forward(self, tokens: int) -> float:
        """Floating-point operations (two per multiply-add) of a forward pass but for head and embedding.

        Per layer and token the four maps of attention and the two of the inner layer; `Q K^T` and `A V` grow
        with tokens squared.
        """
        maps = 2 * tokens * (4 * self.hidden**2 + 2 * self.hidden * self.inner)
        return self.layers * (maps + 4 * tokens**2 * self.hidden)

    def backward(self, tokens: int) -> float:
        """The same for AttnLRP's way back: the same maps transposed, four products in attention."""
        return self.forward(tokens) + 4 * self.layers * tokens**2 * self.hidden

    def loo(self, tokens: int) -> float:
        """One forward of the whole text and one per removed token, nothing shared."""
        return (tokens + 1) * self.forward(tokens)

    def all_masks(self, tokens: int) -> float:
        """One forward and 2**L - 1 layer-backwards."""
        return self.forward(tokens) + (2**self.layers - 1) * self.backward(tokens) / self.layers


def multiplier(
    shape: Shape, dtype: torch.dtype = torch.float32, *, work: float = 0.0
) -> tuple[Callable[[], None], float]:
    """The matrix products of a layer on `ROWS` tokens, by PyTorch's fastest call, and their operations.

    Repeated until they are about `work` operations, so that their time is measured as long as what it is
    compared with.
    """
    draw = torch.Generator().manual_seed(0)
    hidden, inner = shape.hidden, shape.inner
    sizes = ((ROWS, hidden), (ROWS, inner), (hidden, hidden), (inner, hidden), (hidden, inner))
    narrow, wide, square, up, down = (torch.randn(*size, generator=draw).to(dtype) for size in sizes)
    outs = torch.empty_like(narrow), torch.empty_like(wide)

    operations = 2 * ROWS * (4 * hidden**2 + 2 * hidden * inner)
    rounds = max(1, round(work / operations))

    def multiply() -> None:
        for _ in range(rounds):
            for _ in range(4):
                torch.mm(narrow, square.T, out=outs[0])
            torch.mm(narrow, up.T, out=outs[1])
            torch.mm(wide, down.T, out=outs[0])

    return multiply, rounds * operations


def slope(x: list[float], y: list[float]) -> float:
    """The exponent p of `y ~ x**p` by least squares on logarithms.

    >>> round(slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
