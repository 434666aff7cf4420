"""One Transformer layer: forward on the tape in the order of its wiring, and back with either treatment."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lrp_companion import rules
from lrp_companion.families.wiring import Convolution, LayerWiring, mapped
from lrp_companion.tape.attention import AtAngles, AttentionStep, Context, merge, split
from lrp_companion.tape.steps import GatedStep, MapStep, NormStep, inner_step, normed, through

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
    norm: NormStep | None
    y: Tensor

    @classmethod
    def run(cls, wiring: Convolution, e: Tensor, x: Tensor, context: Context) -> ConvolutionStep:
        place = wiring.weight.device
        context, e, x = context.to(place), e.to(place), x.to(place)
        heard = 1.0 if context.heard is None else context.rows(context.heard[0])
        z = heard * context.rows(mapped(wiring, wiring.windows(e)))
        inner = MapStep(wiring, wiring.activation, z, wiring.activation(z))
        norm, y = normed(wiring.norm, x + inner.y)
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
    """One Transformer layer on the tape, in the order of its `LayerWiring`.

    Memory of a post-LN layer: about 11 D + 5 D' (the inner width) + H T numbers per token.
    """

    attention_input_norm: NormStep | None
    attend: AttentionStep
    attention_out: MapStep
    attention_branch_norm: NormStep | None
    first_sum: Tensor
    attention_norm: NormStep | None
    mlp_input_norm: NormStep | None
    inner: MapStep | GatedStep
    down: MapStep
    mlp_branch_norm: NormStep | None
    second_sum: Tensor
    output_norm: NormStep | None
    output: Tensor
    convolution: ConvolutionStep | None = None

    @classmethod
    def run(cls, wiring: LayerWiring, x: Tensor, context: Context) -> LayerBlock:
        w = wiring
        # s = N1(x + B1(attend(P1(x)))): a post-LN layer has N1 alone, a pre-LN layer P1, Gemma P1 and B1
        attention_input_norm, into = normed(w.attention_input_norm, x)
        attend = AttentionStep.run(w, into, context)
        attention_out = MapStep.run(w.attention_out, None, merge(attend.read))
        attention_branch_norm, branch = normed(w.attention_branch_norm, attention_out.y)
        first_sum = context.rows(x) + branch
        attention_norm, middle = normed(w.attention_norm, first_sum)
        # y = N2(s + B2(mlp(P2(s)))), all (B, T, D) but for the inner width of the MLP
        mlp_input_norm, into = normed(w.mlp_input_norm, context.rows(x) if w.parallel else middle)
        inner = inner_step(w, into, gate=context.gate)
        down = MapStep.run(w.down, None, inner.y)
        mlp_branch_norm, branch = normed(w.mlp_branch_norm, down.y)
        second_sum = middle + branch
        output_norm, output = normed(w.output_norm, second_sum)
        convolution = None
        if w.convolution is not None:
            convolution = ConvolutionStep.run(w.convolution, x, output, context)
            output = convolution.y.to(output.device)
        return cls(
            attention_input_norm,
            attend,
            attention_out,
            attention_branch_norm,
            first_sum,
            attention_norm,
            mlp_input_norm,
            inner,
            down,
            mlp_branch_norm,
            second_sum,
            output_norm,
            output,
            convolution,
        )

    @property
    def attention(self) -> Tensor:
        """Attention weights (B, H, T, T)."""
        return self.attend.attention

    def backward(self, g: Tensor, *, bypass: bool, eps: float = 0.0) -> Tensor:
        """Carry g (..., B, T, D) from the layer's output to its input.

        With `bypass` the attention is held constant, as in CP-LRP; else it is treated as in AttnLRP.
        """
        return self.backward_and_angles(g, bypass=bypass, eps=eps)[0]

    def backward_and_angles(self, g: Tensor, *, bypass: bool, eps: float = 0.0) -> tuple[Tensor, AtAngles]:
        """As `backward`, and what positions get through their rotations (PA-LRP)."""
        around, g_read = self._around_attention(g, eps)
        # CP-LRP: G + N(P), with the values' share whole
        if bypass:
            return self._entering(self.attend.values_only(g_read, eps), around, eps), ()
        # AttnLRP: G + N(P/2 + S)
        values, queries_and_keys, at_angles = self.attend.all_factors(g_read, eps)
        return self._entering(values.add_(queries_and_keys), around, eps), at_angles

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
        """The most numbers `children` holds for each mask it carries, all texts of the batch together."""
        hidden, weights = self.first_sum.numel(), self.attend.at_work.held
        inner = self.inner.z.numel() * (2 if isinstance(self.inner, GatedStep) else 1)
        return 6 * hidden + max(2 * inner, (3 if self.attend.wiring.relative is None else 6) * weights)

    def _around_attention(self, g: Tensor, eps: float) -> tuple[Around, Tensor]:
        """What goes around the attention to the layer's input, and g at what the heads read."""
        beside = None
        g = g.to(self.output.device)
        if self.convolution is not None:
            both = self.convolution.backward(g, eps=eps)
            g, beside = (one.to(self.output.device) for one in both)
        # back through N2, then to both summands of s + B2(mlp(P2(s)))
        g = rules.add(through(self.output_norm, g, eps), self.second_sum, eps=eps)
        branch = self.down.backward(through(self.mlp_branch_norm, g, eps), eps=eps)
        around = through(self.mlp_input_norm, self.inner.backward(branch, eps=eps), eps).add_(g)
        if not self.attend.wiring.parallel:  # else the three are one sum
            g = around = rules.add(through(self.attention_norm, around, eps), self.first_sum, eps=eps)
        # around the attention goes G; through W_O to what the heads read, (..., B, T, H d)
        branch = self.attention_out.backward(through(self.attention_branch_norm, g, eps), eps=eps)
        return (around, beside), split(branch, self.attend.context.heads)

    def _entering(self, g: Tensor, around: Around, eps: float) -> Tensor:
        """Through the norm before the attention, if there is one, to what goes around both."""
        around_both, beside = around
        g = self.attend.context.add(through(self.attention_input_norm, g, eps), around_both)
        return g if beside is None else g + beside
