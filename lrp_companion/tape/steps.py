"""Steps of a Transformer that treat every token separately: norms, linear maps, gated products.

Each step runs forward once, keeps what the backward pass needs, and carries `g` (`rules`) from its output to
its input. Backward tensors may have more axes in front than forward ones. `metered` sums what steps keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion import rules
from lrp_companion.families.wiring import LayerWiring, Linear, Norm, RootMeanSquare

CAUSES = ("biases", "norms", "softmax", "positions")
_METER: ContextVar[dict[str, float] | None] = ContextVar("meter", default=None)
metering = _METER.get
"""The sums of `metered` while it is active, else None: what a step keeps is computed for them alone."""
Activation = Callable[[Tensor], Tensor]


def slope_at_zero(activation: Activation) -> float:
    """`phi'(0)`, the limit of `phi(z) / z` at 0: 1/2 for GELU, 1 for tanh, 0 for PyTorch's ReLU."""
    held = next(activation.parameters(), None) if isinstance(activation, nn.Module) else None
    if held is None:  # it stays as it is
        return _fixed_slope(activation)
    return _slope_at(activation, dtype=held.dtype, device=held.device)


@lru_cache(maxsize=256)
def _fixed_slope(activation: Activation) -> float:
    return _slope_at(activation, dtype=torch.float64)


def _slope_at(activation: Activation, **like: Any) -> float:
    with torch.inference_mode(False), torch.enable_grad():
        zero = torch.zeros((), **like, requires_grad=True)
        return torch.autograd.grad(activation(zero.clone()), zero)[0].item()


@dataclass(frozen=True)
class NormStep:
    """One LayerNorm or RMSNorm on the tape; `scale` (..., 1) is what it divides by, held constant."""

    norm: Norm
    y: Tensor
    scale: Tensor

    @classmethod
    def run(cls, norm: Norm, x: Tensor) -> NormStep:
        if isinstance(norm, RootMeanSquare):
            # detached: what a norm divides by is a constant on the way back (Ali et al. 2022)
            rms = norm.rms(x)
            return cls(norm, norm.scaled(x, rms), rms.detach())
        y, _, inverse = torch.native_layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        # native_layer_norm gives 1 / sd
        return cls(norm, y, inverse.detach().reciprocal().to(x.dtype))

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        if isinstance(self.norm, RootMeanSquare):
            return rules.rms_norm(g, self.norm.weight, self.scale, self.y, eps=eps).to(g.dtype)
        # beta is a summand of y: its share g beta goes nowhere
        if metering() and (beta := self.norm.bias) is not None:
            keeps("norms", g * beta)
        return rules.layer_norm(g, self.norm.weight, self.scale, self.y, eps=eps)


@dataclass(frozen=True)
class MapStep:
    """One linear map on the tape, with the activation function after it, or None."""

    linear: Linear
    activation: Activation | None
    z: Tensor
    y: Tensor

    @classmethod
    def run(cls, linear: Linear, activation: Activation | None, x: Tensor) -> MapStep:
        # not a call of the module, which may compute something else than what the way back reads
        z = nn.functional.linear(x, linear.weight, linear.bias)
        return cls(linear, activation, z, z if activation is None else activation(z))

    @cached_property
    def slope(self) -> Tensor:
        """`phi(z) / z` of the activation function: made once, however many masks are carried back."""
        assert self.activation is not None
        return rules.slope(self.z, self.y, at_zero=slope_at_zero(self.activation))

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        if self.activation is not None:
            # y = phi(z): R passes, so g is multiplied by phi(z) / z
            g = rules.elementwise(g, self.slope)
        # z = W x + b, Eq. (1): b keeps g b, its share of relevance
        if metering() and (bias := self.linear.bias) is not None:
            keeps("biases", g * bias)
        return rules.linear(g, self.linear.weight, self.z, eps=eps)


GATES = ("uniform", "right", "flat", "constant")
"""How the product `phi(z) u` of a gated MLP is treated. With `phi(z) = z sigma(z)` it has three factors:
"uniform" groups them from the left and gives half to each side, so that `u` receives 1/2; "right" groups `z
(sigma u)`, where `u` receives 1/4; "flat" takes the three at once, 1/3; "constant" holds `phi(z)` constant,
so that `u` receives all.
"""


@dataclass(frozen=True)
class GatedStep:
    """`h = phi(G x) * (U x)`, the first half of a gated MLP, carried back as one of `GATES` says."""

    gate: MapStep
    up: MapStep
    y: Tensor
    treatment: str

    @classmethod
    def run(cls, wiring: LayerWiring, x: Tensor, treatment: str) -> GatedStep:
        assert wiring.gate is not None
        a, u = MapStep.run(wiring.gate, wiring.activation, x), MapStep.run(wiring.up, None, x)
        return cls(a, u, a.y * u.y, treatment)

    @property
    def z(self) -> Tensor:
        return self.up.z

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        # h = a u, a = phi(G x), u = U x, each (B, T, D'); g arrives at h
        a, u, h = self.gate.y, self.up.y, self.y
        if self.treatment == "constant":
            return self.up.backward(rules.gated_values(g, a, h, eps=eps), eps=eps)
        if self.treatment == "right":
            # sigma = phi(z) / z is the slope of the gate, so sigma u is the product on the right
            g_gate, g_up = rules.gated_from_the_right(g, a, u, h, self.gate.slope * u, eps=eps)
        elif self.treatment == "flat":
            g_gate, g_up = rules.gated_flat(g, a, u, h, eps=eps)
        else:
            g_gate, g_up = rules.gated(g, a, u, h, eps=eps)
        # x is read by both maps, so their g add up
        return self.up.backward(g_up, eps=eps).add_(self.gate.backward(g_gate, eps=eps))


Step = NormStep | MapStep | GatedStep


def run_steps(x: Tensor, *parts: tuple[Linear | Norm | None, Activation | None]) -> tuple[Tensor, list[Step]]:
    """Linear maps with their activation functions, and norms, one after the other, each where its weights
    lie: what the last one gives, and the steps. None is a norm that a family does not have.
    """
    steps: list[Step] = []
    for module, activation in parts:
        if module is not None:
            x = x.to(module.weight.device)
            if isinstance(module, (nn.LayerNorm, RootMeanSquare)):
                steps.append(NormStep.run(module, x))
            else:
                steps.append(MapStep.run(module, activation, x))
            x = steps[-1].y
    return x, steps


def through(steps: Sequence[Step], g: Tensor, eps: float) -> Tensor:
    """Carry g back through steps, each on its device."""
    for step in reversed(steps):
        g = step.backward(g.to(step.y.device), eps=eps)
    return g


@contextmanager
def metered() -> Iterator[dict[str, float]]:
    """Relevance lost by cause while the block runs, summed over all walks.

    At any place of a network total relevance is `sum a g`. With epsilon 0 three rules change this sum: a bias
    keeps its share, so does the beta of a LayerNorm, and the Taylor rule of the softmax, Eq. (5), does not
    conserve. A path that is cut keeps what it has. The relevance of position and type embeddings is not lost,
    but it is not at the words either.

    >>> import torch
    >>> with metered() as lost:
    ...     keeps("biases", torch.tensor([0.5, 0.25]))
    >>> lost["biases"], lost["softmax"]
    (0.75, 0.0)
    """
    lost = dict.fromkeys((*CAUSES, "cuts"), 0.0)
    token = _METER.set(lost)
    try:
        yield lost
    finally:
        _METER.reset(token)


def keeps(cause: str, amount: Tensor) -> None:
    """Record the relevance that a step of a walk keeps, while `metering`."""
    if (lost := metering()) is not None:
        lost[cause] += float(amount.detach().double().sum())
