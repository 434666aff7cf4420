"""Steps of a Transformer that treat every token separately: norms, linear maps, gated products.

Each step runs forward once, keeps what the backward pass needs, and carries `g` (`rules`) from its output to
its input. Backward tensors may have more axes in front than forward ones. `metered` sums what steps keep, and
functions of `exchanging` stand in for rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion import rules
from lrp_companion.checks import InputError
from lrp_companion.families.wiring import LayerWiring, Linear, Norm, RootMeanSquare
from lrp_companion.registry import called

CAUSES = ("biases", "norms", "softmax", "positions")
_METER: ContextVar[dict[str, float] | None] = ContextVar("meter", default=None)
metering = _METER.get
"""In a block of `metered` its sums of what steps keep; else None, and nothing of that is computed."""
Activation = Callable[[Tensor], Tensor]


EXCHANGEABLE = {
    "linear": (("x",), ("x", "bias")),
    "elementwise": (("z",), ("z", "y", "activation")),
    "layer_norm": (("x",), ("x", "beta")),
    "rms_norm": (("x",), ("x",)),
    "softmax": (("z",), ("z",)),
    "matmul": (("a", "b"), ()),
    "attention_values": (("v",), ("v",)),
    "gated": (("a", "u"), ()),
}
"""The rules that a function may replace: at which values it returns `g`; what it may take besides the rule's
own arguments.
"""


def taken(name: str) -> tuple[str, ...]:
    """What a function in place of a rule may take."""
    return (*inspect.signature(rules.RULES[name].function).parameters, *EXCHANGEABLE[name][1])


class Exchanged(dict[str, Callable[..., Any]]):
    """Functions that stand in for rules, by the rules' names; `acted` are those that were called."""

    acted: set[str]

    def __call__(self, name: str, *given: Any, closed: Tensor | None = None, **further: Any) -> Any:
        """Call the function in place of a rule with those of the rule's own arguments and of further values
        that it names. Returns its `g`, 0 where `closed`; `InputError` for another shape or numbers that are
        not finite.
        """
        function, (gives, _) = self[name], EXCHANGEABLE[name]
        known = dict(zip(taken(name), given, strict=False)) | further
        tensors = [one for one in known.values() if isinstance(one, Tensor)]
        before = [one._version for one in tensors]
        out = function(**{key: known[key] for key in inspect.signature(function).parameters if key in known})
        parts = out if isinstance(out, tuple) else (out,)
        shapes = [tuple(one.shape) if isinstance(one, Tensor) else type(one).__name__ for one in parts]
        # g may have more axes in front than what the forward pass kept
        g, inputs = given[0], [known[key] for key in gives]
        wanted = [(*g.shape[: g.ndim - one.ndim], *one.shape) for one in inputs]
        fault = "" if shapes == wanted else f"of shape {', '.join(map(str, shapes))}"
        parts = parts if fault or closed is None else (parts[0].masked_fill(closed, 0.0),)
        fault = fault or ("" if all(one.isfinite().all() for one in parts) else "that is not finite")
        if fault or before != [one._version for one in tensors]:
            got = f"{called(function)!r} in place of {name}: g {fault or 'and changed arguments'}"
            expected = f"finite g at {', '.join(gives)} of shape {', '.join(map(str, wanted))}"
            hint = "return a new tensor, or several as a tuple"
            raise InputError("rules", got=got, expected=expected, hint=hint)
        self.acted.add(name)
        # what follows works in place
        new = tuple(one.to(g.dtype, copy=True) for one in parts)
        return new if len(new) > 1 else new[0]


_NONE = Exchanged()
_EXCHANGED: ContextVar[Exchanged] = ContextVar("exchanged", default=_NONE)
exchanged = _EXCHANGED.get
"""The functions that stand in for rules: none but within `exchanging`."""


@contextmanager
def exchanging(functions: Mapping[str, Callable[..., Any]]) -> Iterator[Exchanged]:
    """Let functions stand in for rules, on every way back while the block runs."""
    here = Exchanged(functions)
    here.acted = set()
    token = _EXCHANGED.set(here)
    try:
        yield here
    finally:
        _EXCHANGED.reset(token)


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
    x: Tensor
    y: Tensor
    scale: Tensor

    @classmethod
    def run(cls, norm: Norm, x: Tensor) -> NormStep:
        if isinstance(norm, RootMeanSquare):
            # detached: what a norm divides by is a constant on the way back (Ali et al. 2022)
            rms = norm.rms(x)
            return cls(norm, x, norm.scaled(x, rms), rms.detach())
        y, _, inverse = torch.native_layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        # native_layer_norm gives 1 / sd
        return cls(norm, x, y, inverse.detach().reciprocal().to(x.dtype))

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        own, known = exchanged(), (g, self.norm.weight, self.scale, self.y)
        if isinstance(self.norm, RootMeanSquare):
            if "rms_norm" in own:
                return own("rms_norm", *known, eps=eps, x=self.x)
            return rules.rms_norm(g, self.norm.weight, self.scale, self.y, eps=eps).to(g.dtype)
        # beta is a summand of y: its share g beta goes nowhere
        if metering() and (beta := self.norm.bias) is not None:
            keeps("norms", g * beta)
        if "layer_norm" in own:
            return own("layer_norm", *known, eps=eps, x=self.x, beta=self.norm.bias)
        return rules.layer_norm(g, self.norm.weight, self.scale, self.y, eps=eps)


@dataclass(frozen=True)
class MapStep:
    """One linear map on the tape, with the activation function after it, or None."""

    linear: Linear
    activation: Activation | None
    x: Tensor
    z: Tensor
    y: Tensor

    @classmethod
    def run(cls, linear: Linear, activation: Activation | None, x: Tensor) -> MapStep:
        # not a call of the module, which may compute something else than what the way back reads
        z = nn.functional.linear(x, linear.weight, linear.bias)
        return cls(linear, activation, x, z, z if activation is None else activation(z))

    @cached_property
    def slope(self) -> Tensor:
        """`phi(z) / z` of the activation function: made once, however many masks are carried back."""
        assert self.activation is not None
        return rules.slope(self.z, self.y, at_zero=slope_at_zero(self.activation))

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        own = exchanged()
        if self.activation is not None and "elementwise" in own:
            known: dict[str, Any] = {"z": self.z, "y": self.y, "activation": self.activation}
            g = own("elementwise", g, self.slope, **known)
        elif self.activation is not None:
            # y = phi(z): R passes, so g is multiplied by phi(z) / z
            g = rules.elementwise(g, self.slope)
        # z = W x + b, Eq. (1): b keeps g b, its share of relevance
        if metering() and (bias := self.linear.bias) is not None:
            keeps("biases", g * bias)
        if "linear" in own:
            return own("linear", g, self.linear.weight, self.z, eps=eps, x=self.x, bias=self.linear.bias)
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
        elif "gated" in (own := exchanged()):
            g_gate, g_up = own("gated", g, a, u, h, eps=eps, shares=(0.5, 0.5))
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
