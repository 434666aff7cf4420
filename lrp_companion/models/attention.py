"""The attention of one layer: forward with its tape, and both treatments in the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lrp_companion import rules
from lrp_companion.models.meter import at_places, keeps
from lrp_companion.models.steps import MapStep, NormStep, normed, through
from lrp_companion.models.wiring import LayerWiring, SoftCap

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Angles:
    """Cosines and sines of the rotations of queries and keys, (1, 1, T, d).

    In the backward pass they are constants, or with `factors` they get half of each product (PA-LRP).
    """

    cos: Tensor
    sin: Tensor
    factors: bool = False

    def rotate(self, x: Tensor) -> Tensor:
        """Queries or keys (B, H, T, d), each rotated by its position's angles."""
        return x * self.cos + rules.turn(x) * self.sin


@dataclass(frozen=True)
class Side:
    """Queries or keys: their map, a norm of each head, and their rotation; `y` (B, H, T, d) is the result."""

    map: MapStep
    norm: NormStep | None
    angles: Angles | None
    x: Tensor
    y: Tensor

    @classmethod
    def run(cls, step: MapStep, norm: Any, angles: Angles | None, heads: int) -> Side:
        normalised, x = normed(norm, split(step.y, heads))
        return cls(step, normalised, angles, x, x if angles is None else angles.rotate(x))

    def backward(self, g: Tensor, *, eps: float) -> tuple[Tensor, Pair | None]:
        """Carry g from (..., B, H, T, d) to the attention's input (..., B, T, D); return also what positions
        get, if any.

        That is relevance at the cosines and at the sines, (..., B, T).
        """
        at_positions = None
        if self.angles is not None:
            cos, sin = self.angles.cos, self.angles.sin
            if self.angles.factors:
                g, g_cos, g_sin = rules.rotation_factors(g, self.x, cos, sin, self.y, eps=eps)
                at_positions = (cos * g_cos).sum((-1, -3)), (sin * g_sin).sum((-1, -3))
            else:
                g = rules.rotation(g, cos, sin, self.y, eps=eps)
        return self.map.backward(merge(through(self.norm, g, eps)), eps=eps), at_positions


@dataclass(frozen=True)
class AttentionStep:
    """Attention on the tape, from its input to what the heads read.

    `attention` (B, H, T, T), `read` (B, H, T, d); `scores` is the input of the softmax where it was capped.
    """

    wiring: LayerWiring
    heads: int
    queries: Side
    keys: Side
    value: MapStep
    attention: Tensor
    read: Tensor
    capped: tuple[Tensor, Tensor] | None

    @classmethod
    def run(
        cls, wiring: LayerWiring, heads: int, x: Tensor, masked: Tensor | None, keep: Tensor | None,
        angles: Angles | None,
    ) -> AttentionStep:  # fmt: skip
        query, key, value = (MapStep.run(m, None, x) for m in (wiring.query, wiring.key, wiring.value))
        queries = Side.run(query, wiring.query_norm, angles, heads)
        keys = Side.run(key, wiring.key_norm, angles, wiring.key_heads or heads)
        scores = queries.y @ repeated(keys.y, heads).mT * wiring.scale_of(queries.y.shape[-1])
        capped = None
        if wiring.cap is not None:
            raw, scores = scores, SoftCap(wiring.cap)(scores)
            capped = raw, scores
        scores = scores if masked is None else scores.masked_fill(masked, torch.finfo(scores.dtype).min)
        attention = scores.softmax(-1) if keep is None else KeptSoftmax.apply(scores, keep)
        read = attention @ repeated(split(value.y, wiring.key_heads or heads), heads)
        return cls(wiring, heads, queries, keys, value, attention, read, capped)

    @property
    def query(self) -> MapStep:
        return self.queries.map

    @property
    def key(self) -> MapStep:
        return self.keys.map

    @property
    def values(self) -> Tensor:
        """Values (B, H, T, d), those of shared heads repeated."""
        return repeated(split(self.value.y, self.key_heads), self.heads)

    @property
    def key_heads(self) -> int:
        return self.wiring.key_heads or self.heads

    @cached_property
    def _cap_slope(self) -> Tensor | None:
        return None if self.capped is None else rules.slope(*self.capped, at_zero=1.0)

    def _scores(self) -> Tensor:
        """The input of the softmax, before keys are closed."""
        if self.capped is not None:
            return self.capped[1]
        scale = self.wiring.scale_of(self.queries.y.shape[-1])
        return self.queries.y @ repeated(self.keys.y, self.heads).mT * scale

    def values_only(self, g_read: Tensor, eps: float) -> Tensor:
        """CP-LRP: what the attention's input gets through the values, with the attention held constant."""
        g_value = rules.attention_values(g_read, self.attention, self.read, eps=eps)
        return self.value.backward(merge(gathered(g_value, self.key_heads)), eps=eps)

    def all_factors(self, g_read: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """AttnLRP: what the attention's input gets through the values, and through queries and keys."""
        g_attention, g_value = rules.matmul(g_read, self.attention, self.values, self.read, eps=eps)
        values = self.value.backward(merge(gathered(g_value, self.key_heads)), eps=eps)
        g_scores = rules.softmax(g_attention, self.attention)
        keeps("softmax", lambda: self.attention * g_attention - self._scores() * g_scores)
        if self._cap_slope is not None:
            g_scores = rules.elementwise(g_scores, self._cap_slope)
        scale = self.wiring.scale_of(self.queries.y.shape[-1])
        queries, keys = scale * self.queries.y, repeated(self.keys.y, self.heads)
        scores = queries @ keys.mT if eps else g_scores  # the scores themselves matter to the stabiliser only
        # Each factor is given with the scale, because what arrives at one is multiplied by the other.
        g_query, g_key = rules.matmul(g_scores, queries, scale * keys.mT, scores, eps=eps)
        at_query, of_queries = self.queries.backward(g_query, eps=eps)
        at_key, of_keys = self.keys.backward(gathered(g_key.mT, self.key_heads), eps=eps)
        if of_queries is not None and of_keys is not None:
            at_places(of_queries[0] + of_keys[0], of_queries[1] + of_keys[1])
        return values, at_query.add_(at_key)


class KeptSoftmax(torch.autograd.Function):
    """`A_ji = w_i u_ji`, `u_ji = exp(Z_ji) / sum_k w_k exp(Z_jk)`: attention under a soft mask.

    Scores Z are (B, H, T, T), the mask w is (B, T).

    Written out because separate operations keep and move several more arrays of T x T numbers. `u` keeps
    `dA_ji/dw_i` finite where w_i is 0. With g at A and `h_ji = u_ji (g_ji - sum_k A_jk g_jk)` the gradient is
    `w_i h_ji` at Z_ji and the sum of `h_ji` over heads and queries at w_i. A query that may attend only to
    tokens of weight 0 reads nothing, such as the removed first token of a causal model.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, keep: Tensor) -> Tensor:
        column = keep[:, None, :, None]
        u = scores.softmax(-1)
        total = u @ column
        u = u.div_(total.masked_fill_(total == 0, torch.inf))
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


def split(x: Tensor, heads: int) -> Tensor:
    """(..., T, D) to (..., H, T, D/H)."""
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def merge(x: Tensor) -> Tensor:
    """(..., H, T, D/H) to (..., T, D)."""
    return x.transpose(-2, -3).flatten(-2)


def repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values (B, H', T, d) for H query heads: each serves H / H' neighbours."""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], dim=-3)


def gathered(g: Tensor, heads: int) -> Tensor:
    """The backward pass of `repeated`: the sum of g over the query heads that share a key or value."""
    return g if g.shape[-3] == heads else g.unflatten(-3, (heads, -1)).sum(-3)
