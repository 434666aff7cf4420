"""One Transformer layer: forward on the tape in the order of its wiring, and back with either treatment.

`RecomputedLayer` keeps a layer's input alone and runs the layer again on the way back. Memory falls from the
tape of all layers to that of one and the inputs of the others, T x D numbers each. The attention of that one
layer, T x T numbers for each head, is held for a few heads at a time (`attention.HeadsInTurn`). The cost is
one more forward pass of every layer that is walked, and yet another one of its attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lrp_companion import rules
from lrp_companion.families.wiring import Convolution, LayerWiring
from lrp_companion.tape.attention import AttentionStep, Context, merge, split
from lrp_companion.tape.steps import GatedStep, MapStep, Step, run_steps, through

Around = tuple[Tensor, Tensor | None]
"""g that goes around a layer's attention, and through a convolution beside the layer, if it has one."""


@dataclass(frozen=True)
class ConvolutionStep:
    """A convolution beside a layer, `y = m N(x + phi(m (W * e + b)))` with the mask m: x is the layer's
    output and e its input.
    """

    context: Context
    tokens: int
    inner: MapStep
    total: Tensor
    norm: Sequence[Step]
    y: Tensor

    @classmethod
    def run(cls, wiring: Convolution, e: Tensor, x: Tensor, context: Context) -> ConvolutionStep:
        place = wiring.weight.device
        context, e, x = context.to(place), e.to(place), x.to(place)
        heard = 1.0 if context.heard is None else context.rows(context.heard[0])
        windows = wiring.windows(e)
        z = heard * context.rows(wiring(windows))
        inner = MapStep(wiring, wiring.activation, context.rows(windows), z, wiring.activation(z))
        y, norm = run_steps(x + inner.y, (wiring.norm, None))
        return cls(context, e.shape[-2], inner, x + inner.y, norm, heard * y)

    def backward(self, g: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
        """From g (..., B, T, D) at y to g at x and at e."""
        g = g.to(self.total.device)
        if self.context.heard is not None:
            g = self.context.rows(self.context.heard[0]) * g
        g = rules.add(through(self.norm, g, eps), self.total, eps=eps)
        # Eq. (1) for a linear map of windows
        at, wiring = self.inner.backward(g, eps=eps), self.inner.linear
        assert isinstance(wiring, Convolution)
        if self.context.asking is not None:
            at = self.context.add(at.new_zeros(*at.shape[:-2], self.tokens, at.shape[-1]), at)
        return g, wiring.joined(at)


@dataclass(frozen=True)
class LayerBlock:
    """One Transformer layer on the tape, in the order of its `LayerWiring`: norms and maps in a row are one
    sequence of steps, empty where a family has none.

    Memory of a post-LN layer: about 12 D + 5 D' (the inner width) + H T numbers per token.
    """

    before: Sequence[Step]
    attend: AttentionStep
    attention_out: Sequence[Step]
    first_sum: Tensor
    attention_norm: Sequence[Step]
    mlp: Sequence[Step]
    inner: MapStep | GatedStep
    second_sum: Tensor
    output_norm: Sequence[Step]
    output: Tensor
    convolution: ConvolutionStep | None = None

    @classmethod
    def run(cls, wiring: LayerWiring, x: Tensor, context: Context) -> LayerBlock:
        # on its device, which may differ from that of the layer before
        w, place = wiring, wiring.device
        x, context = x.to(place), context if context.home == place else context.to(place)
        # s = N1(x + B1(attend(P1(x)))): a post-LN layer has N1 alone, a pre-LN layer P1, Gemma P1 and B1
        p1, p2 = w.attention_input_norm, w.mlp_input_norm
        into, before = (x, []) if p1 is None else run_steps(x, (p1, None))
        attend = AttentionStep.run(w, into, context)
        branch, out = run_steps(merge(attend.read), (w.attention_out, None), (w.attention_branch_norm, None))
        asked = context.rows(x)
        first_sum = asked + branch
        middle, attention_norm = run_steps(first_sum, (w.attention_norm, None))
        # y = N2(s + B2(mlp(P2(s)))), all (B, T, D) but for the inner width of the MLP
        into = asked if w.parallel else middle
        into, first = (into, []) if p2 is None else run_steps(into, (p2, None))
        plain = w.gate is None
        inner = MapStep.run(w.up, w.activation, into) if plain else GatedStep.run(w, into, context.gate)
        branch, last = run_steps(inner.y, (w.down, None), (w.mlp_branch_norm, None))
        second_sum = middle + branch
        output, output_norm = run_steps(second_sum, (w.output_norm, None))
        convolution = None
        if w.convolution is not None:
            convolution = ConvolutionStep.run(w.convolution, x, output, context)
            output = convolution.y.to(output.device)
        mlp: list[Step] = [*first, inner, *last]
        parts = (second_sum, output_norm, output, convolution)
        return cls(before, attend, out, first_sum, attention_norm, mlp, inner, *parts)

    @property
    def attention(self) -> Tensor:
        """Attention weights (B, H, T, T)."""
        return self.attend.attention

    def backward(
        self, g: Tensor, *, bypass: bool, eps: float = 0.0, at_angles: list[Tensor] | None = None
    ) -> Tensor:
        """Carry g (..., B, T, D) from the layer's output to its input.

        With `bypass` the attention is held constant, as in CP-LRP; else it is treated as in AttnLRP. For
        PA-LRP the relevance of the rotations by position is appended to the list `at_angles`.
        """
        around, g_read = self._around_attention(g, eps)
        # CP-LRP: G + N(P), with the values' share whole
        if bypass:
            return self._entering(self.attend.values_only(g_read, eps), around, eps)
        # AttnLRP: G + N(P/2 + S)
        values, queries_and_keys, angles = self.attend.all_factors(g_read, eps)
        if at_angles is not None:
            at_angles += angles
        return self._entering(values.add_(queries_and_keys), around, eps)

    def children(self, g: Tensor, *, eps: float = 0.0) -> tuple[Tensor, Tensor]:
        """Both treatments from one layer-backward: (AttnLRP's g, CP-LRP's g).

        They differ only in the attention: AttnLRP gives `G + N(P/2 + S)` and CP-LRP `G + N(P)`, with G around
        the attention, P through the values, S through queries and keys, and N through the norm before them
        (none in a post-LN layer). With `eps > 0` the two stabilise the product differently, so P is run
        twice.
        """
        around, g_read = self._around_attention(g, eps)
        # half = P/2, by Eq. (3), or another share of P
        half, queries_and_keys, _ = self.attend.all_factors(g_read, eps)
        both = queries_and_keys.add_(half)
        # with eps O is damped by |O| / (|O| + eps/2) in `half` and by |O| / (|O| + eps) here
        share = self.attend.context.shares[0][1]
        again = eps or not share
        values = self.attend.values_only(g_read, eps) if again else half.div_(share)
        return self._entering(both, around, eps), self._entering(values, around, eps)

    @property
    def working(self) -> int:
        """How many numbers `children` holds at most at once, for one mask and all texts of the batch."""
        hidden, weights = self.first_sum.numel(), self.attend.at_work.held
        inner = self.inner.z.numel() * (2 if isinstance(self.inner, GatedStep) else 1)
        return 6 * hidden + max(2 * inner, (3 if self.attend.wiring.relative is None else 6) * weights)

    def _around_attention(self, g: Tensor, eps: float) -> tuple[Around, Tensor]:
        """g of the residual path around the attention, and g at what the heads read."""
        beside = None
        g = g.to(self.output.device)
        if self.convolution is not None:
            both = self.convolution.backward(g, eps=eps)
            g, beside = (one.to(self.output.device) for one in both)
        # back through N2, then to both summands of s + B2(mlp(P2(s)))
        g = rules.add(through(self.output_norm, g, eps), self.second_sum, eps=eps)
        around = through(self.mlp, g, eps).add_(g)
        if not self.attend.wiring.parallel:  # else the three are one sum
            g = around = rules.add(through(self.attention_norm, around, eps), self.first_sum, eps=eps)
        # around the attention goes G; through W_O to what the heads read, (..., B, T, H d)
        branch = through(self.attention_out, g, eps)
        return (around, beside), split(branch, self.attend.context.heads)

    def _entering(self, g: Tensor, around: Around, eps: float) -> Tensor:
        """g at the layer's input: g at the attention's input, taken through the norm before it, if there is
        one, and the g of the residual path `around` both.
        """
        around_both, beside = around
        g = through(self.before, g, eps) if self.before else g
        g = self.attend.context.add(g, around_both)
        return g if beside is None else g + beside


Run = Callable[[Tensor], LayerBlock]


@dataclass(frozen=True)
class RecomputedLayer:
    """A layer that keeps only its input and output, and runs again whenever its inside is needed."""

    run: Run
    input: Tensor
    output: Tensor
    working: int

    @classmethod
    def of(cls, run: Run, x: Tensor) -> RecomputedLayer:
        """Run a layer without keeping its inside, not even for autograd, which also runs it again."""
        sizes: list[int] = []

        def output_of(x: Tensor) -> Tensor:
            block = run(x)
            sizes.append(block.working)
            return block.output

        graded = torch.is_grad_enabled()
        output = checkpoint(output_of, x, use_reentrant=False) if graded else output_of(x)
        return cls(run, x, output, sizes[0])

    @property
    def block(self) -> LayerBlock:
        """The layer's tape, recomputed."""
        return self.run(self.input)

    def __getattr__(self, name: str) -> Any:
        """What `LayerBlock` has besides, recomputed."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.block, name)
