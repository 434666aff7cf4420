"""BERT-family classifiers: a forward that keeps the tape, and blocks that carry relevance back one layer.

The weights stay in the `transformers` model; a family's `Wiring` says where they are (`models.families`), and
this file walks them once forward and once backward. All families are post-LN: LayerNorm follows each sum.

Shapes: B texts, T tokens, H heads, D hidden, C classes. Backward tensors may have more axes in front, so that
many masks of one text are carried back together (`propagation.all_masks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lrp_companion import rules
from lrp_companion.models.families import FAMILIES, LayerWiring, Wiring
from lrp_companion.schema import ModelError

__all__ = [
    "EmbeddingBlock", "Encoder", "HeadBlock", "LayerBlock", "MapStep", "NormStep", "Tape",
    "slope_at_zero",
]  # fmt: skip


def slope_at_zero(activation: Callable[[Tensor], Tensor]) -> float:
    """`phi'(0)`, the limit of `phi(z) / z` at 0: 1/2 for GELU, 1 for tanh, 0 for PyTorch's ReLU."""
    with torch.enable_grad():
        zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(activation(zero), zero)[0].item()


@dataclass(frozen=True)
class NormStep:
    """One LayerNorm on the tape, after a sum `x`."""

    norm: nn.LayerNorm
    x: Tensor
    y: Tensor
    sd: Tensor

    @classmethod
    def run(cls, norm: nn.LayerNorm, x: Tensor) -> NormStep:
        y, _, inverse = torch.native_layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        return cls(norm, x, y, inverse.detach().reciprocal().to(x.dtype))

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        """From the LayerNorm's output to the summands of its input."""
        g = rules.layer_norm(g, self.norm.weight, self.sd, self.y, eps=eps)
        return rules.add(g, self.x, eps=eps)


@dataclass(frozen=True)
class MapStep:
    """One linear map on the tape, with the activation function behind it or None."""

    linear: nn.Linear
    activation: Callable[[Tensor], Tensor] | None
    z: Tensor
    y: Tensor

    @classmethod
    def run(cls, linear: nn.Linear, activation: Callable[[Tensor], Tensor] | None, x: Tensor) -> MapStep:
        z = linear(x)
        return cls(linear, activation, z, z if activation is None else activation(z))

    @cached_property
    def slope(self) -> Tensor:
        """`phi(z) / z` of the activation function: made once, however many masks are carried back."""
        assert self.activation is not None
        return rules.slope(self.z, self.y, at_zero=slope_at_zero(self.activation))

    def backward(self, g: Tensor, *, eps: float) -> Tensor:
        if self.activation is not None:
            g = rules.elementwise(g, self.slope)
        return rules.linear(g, self.linear.weight, self.z, eps=eps)


@dataclass(frozen=True)
class HeadBlock:
    """The classifier on the first token's hidden state."""

    steps: tuple[MapStep, ...]
    tokens: int

    def backward(self, g: Tensor, *, eps: float = 0.0) -> Tensor:
        """From g at the logits (..., B, C) to g at the last hidden states (..., B, T, D).

        It is zero everywhere but at the first token.
        """
        for step in reversed(self.steps):
            g = step.backward(g, eps=eps)
        return torch.nn.functional.pad(g.unsqueeze(-2), (0, 0, 0, self.tokens - 1))


@dataclass(frozen=True)
class LayerBlock:
    """One Transformer layer on the tape.

    Memory: about 11 D + 5 D' (the inner width) + H T numbers per token.
    """

    heads: int
    query: MapStep
    key: MapStep
    value: MapStep
    attention: Tensor
    read: Tensor
    attention_out: MapStep
    attention_norm: NormStep
    up: MapStep
    down: MapStep
    output_norm: NormStep

    @classmethod
    def run(
        cls, wiring: LayerWiring, heads: int, x: Tensor, masked: Tensor | None, keep: Tensor | None = None
    ) -> LayerBlock:
        query, key, value = (MapStep.run(m, None, x) for m in (wiring.query, wiring.key, wiring.value))
        scores = _split(query.y, heads) @ _split(key.y, heads).mT * _scale(query.y, heads)
        scores = scores if masked is None else scores.masked_fill(masked, torch.finfo(scores.dtype).min)
        attention = scores.softmax(-1) if keep is None else _KeptSoftmax.apply(scores, keep)
        read = attention @ _split(value.y, heads)
        attention_out = MapStep.run(wiring.attention_out, None, _merge(read))
        attention_norm = NormStep.run(wiring.attention_norm, x + attention_out.y)
        up = MapStep.run(wiring.up, wiring.activation, attention_norm.y)
        down = MapStep.run(wiring.down, None, up.y)
        output_norm = NormStep.run(wiring.output_norm, attention_norm.y + down.y)
        return cls(
            heads, query, key, value, attention, read, attention_out, attention_norm, up, down, output_norm
        )

    def backward(self, g: Tensor, *, bypass: bool, eps: float = 0.0) -> Tensor:
        """Carry g (..., B, T, D) from the layer's output to its input.

        With `bypass` the attention is held constant, as CP-LRP does; else it is treated as AttnLRP does.
        """
        around, g_read = self._around_attention(g, eps)
        if bypass:
            return self._values_only(g_read, eps).add_(around)
        values, queries_and_keys = self._all_factors(g_read, eps)
        return values.add_(queries_and_keys).add_(around)

    def children(self, g: Tensor, *, eps: float = 0.0) -> tuple[Tensor, Tensor]:
        """Both treatments from one layer-backward: (AttnLRP's g, CP-LRP's g).

        They differ in the attention only: AttnLRP gives `G + P/2 + S` and CP-LRP `G + P`, with G around the
        attention, P through the values, and S through queries and keys. With `eps > 0` the two stabilise the
        product differently, so P is run twice.
        """
        around, g_read = self._around_attention(g, eps)
        half, queries_and_keys = self._all_factors(g_read, eps)
        if eps:
            values = self._values_only(g_read, eps).add_(around)
            return half.add_(queries_and_keys).add_(around), values
        around.add_(half)
        return queries_and_keys.add_(around), half.add_(around)

    @property
    def working(self) -> int:
        """Numbers that `children` holds at most for each mask it carries, all texts of the batch together."""
        hidden, inner, weights = self.attention_norm.y.numel(), self.up.z.numel(), self.attention.numel()
        return 6 * hidden + max(2 * inner, 3 * weights)

    def _around_attention(self, g: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        g = self.output_norm.backward(g, eps=eps)
        g = self.up.backward(self.down.backward(g, eps=eps), eps=eps).add_(g)
        g = self.attention_norm.backward(g, eps=eps)
        return g, _split(self.attention_out.backward(g, eps=eps), self.heads)

    def _values_only(self, g_read: Tensor, eps: float) -> Tensor:
        g_value = rules.attention_values(g_read, self.attention, self.read, eps=eps)
        return self.value.backward(_merge(g_value), eps=eps)

    def _all_factors(self, g_read: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """What AttnLRP gives to the layer's input through the values, and through queries and keys."""
        g_attention, g_value = rules.matmul(
            g_read, self.attention, _split(self.value.y, self.heads), self.read, eps=eps
        )
        values = self.value.backward(_merge(g_value), eps=eps)
        g_scores = rules.softmax(g_attention, self.attention)
        scale = _scale(self.query.y, self.heads)
        queries, keys = scale * _split(self.query.y, self.heads), _split(self.key.y, self.heads)
        scores = queries @ keys.mT if eps else g_scores  # the scores themselves matter to the stabiliser only
        # Each factor is given with the scale, because what arrives at one is multiplied by the other.
        g_query, g_key = rules.matmul(g_scores, queries, scale * keys.mT, scores, eps=eps)
        at_query = self.query.backward(_merge(g_query), eps=eps)
        return values, at_query.add_(self.key.backward(_merge(g_key.mT), eps=eps))


@dataclass(frozen=True)
class EmbeddingBlock:
    """The sum of word, position and type embeddings, its LayerNorm, and ELECTRA's projection."""

    parts: dict[str, Tensor]
    norm: NormStep
    projection: MapStep | None

    @property
    def output(self) -> Tensor:
        return self.norm.y if self.projection is None else self.projection.y

    def backward(self, g: Tensor, *, eps: float = 0.0) -> Tensor:
        """From g at the first layer's input to g at the sum of the embeddings (..., B, T, E)."""
        if self.projection is not None:
            g = self.projection.backward(g, eps=eps)
        return self.norm.backward(g, eps=eps)


@dataclass(frozen=True)
class Tape:
    """One forward pass: the logits (B, C) and every block, ready to carry relevance back."""

    embedding: EmbeddingBlock
    layers: tuple[LayerBlock, ...]
    head: HeadBlock
    logits: Tensor

    @property
    def attentions(self) -> list[Tensor]:
        """Attention weights of every layer, each (B, H, T, T)."""
        return [layer.attention for layer in self.layers]


class Encoder:
    """A `transformers` sequence classifier of the post-LN BERT wiring, as blocks that keep a tape."""

    def __init__(self, model: nn.Module) -> None:
        name = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        if name not in FAMILIES:
            got, expected = f"a model of family {name!r}", f"one of {', '.join(FAMILIES)}"
            hint = "load a sequence classifier of one of these families"
            raise ModelError("Encoder", got=got, expected=expected, hint=hint)
        self.family = name
        self.wiring: Wiring = FAMILIES[name](model)

    def position_ids(self, tokens: int, device: torch.device) -> Tensor:
        """Positions of T tokens, shape (1, T); RoBERTa's start behind its padding index."""
        return torch.arange(tokens, device=device).unsqueeze(0) + self.wiring.first_position

    def embed(self, input_ids: Tensor) -> Tensor:
        """Word embeddings (B, T, E)."""
        return self.wiring.word(input_ids)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        *,
        types: Tensor | None = None,
        word: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tape:
        """Run the classifier and keep the tape; the logits equal the `transformers` model's to rounding.

        Parameters
        ----------
        input_ids, attention_mask : (B, T); no token attends to one whose mask is 0.
        types : (B, T), token types; None where all are 0. A family without such embeddings reads none.
        word : (B, T, E), in place of the word embeddings (for gradients).
        keep : (B, T), a soft mask: attention weights of every layer are proportional to `keep_i exp(Z_ji)`.
        """
        w = self.wiring
        embedding = self._embedding(self.embed(input_ids) if word is None else word, types)
        x, layers = embedding.output, []
        masked = None if attention_mask.all() else attention_mask[:, None, None, :] == 0
        for wiring in w.layers:
            layers.append(LayerBlock.run(wiring, w.heads, x, masked, keep))
            x = layers[-1].output_norm.y
        x, steps = x[:, 0], []
        for linear, activation in w.head:
            steps.append(MapStep.run(linear, activation, x))
            x = steps[-1].y
        return Tape(embedding, tuple(layers), HeadBlock(tuple(steps), input_ids.shape[1]), x)

    def _embedding(self, word: Tensor, types: Tensor | None) -> EmbeddingBlock:
        """The embeddings from those of the words (B, T, E), and token types (B, T)."""
        w = self.wiring
        position = w.position(self.position_ids(word.shape[1], word.device))
        parts = {"word": word, "position": position.expand(len(word), -1, -1)}
        if w.type is not None:
            one_type = types is None or w.types == 1
            first = w.type.weight[0].expand_as(parts["position"])
            parts["type"] = first if one_type else w.type(types).expand_as(first)
        norm = NormStep.run(w.embedding_norm, torch.stack(list(parts.values())).sum(0))
        projection = None if w.projection is None else MapStep.run(w.projection, None, norm.y)
        return EmbeddingBlock(parts, norm, projection)


class _KeptSoftmax(torch.autograd.Function):
    """`A_ji = w_i u_ji`, `u_ji = exp(Z_ji) / sum_k w_k exp(Z_jk)`: attention under a soft mask.

    Scores Z are (B, H, T, T), the mask w is (B, T).

    Written out because separate operations keep and move several more arrays of T x T numbers. `u` keeps
    `dA_ji/dw_i` finite where w_i is 0. With g at A and `h_ji = u_ji (g_ji - sum_k A_jk g_jk)` the gradient is
    `w_i h_ji` at Z_ji and the sum of `h_ji` over heads and queries at w_i.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, keep: Tensor) -> Tensor:
        column = keep[:, None, :, None]
        u = scores.softmax(-1)
        u = u.div_(u @ column)
        ctx.save_for_backward(u, column)
        return u * column.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        u, column = ctx.saved_tensors
        h = g * u
        h = torch.addcmul(h, h @ column, u, value=-1)
        to_keep = h.sum((1, 2)) if ctx.needs_input_grad[1] else None
        return h.mul_(column.mT) if ctx.needs_input_grad[0] else None, to_keep


def _split(x: Tensor, heads: int) -> Tensor:
    """(..., T, D) to (..., H, T, D/H)."""
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def _merge(x: Tensor) -> Tensor:
    """(..., H, T, D/H) to (..., T, D)."""
    return x.transpose(-2, -3).flatten(-2)


def _scale(x: Tensor, heads: int) -> float:
    """1 / sqrt(d) of one head."""
    return (x.shape[-1] // heads) ** -0.5
