"""One layer over packed rows: heads, attention stretch by stretch, and what follows token by token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lrp_companion.families.wiring import Convolution, LayerWiring, Norm, SoftCap, Wiring, beside, mapped
from lrp_companion.tape.attention import Angles, Relative, repeated
from lrp_companion.tape.rows import Stretch


def heads_of(
    wiring: Wiring, layer: LayerWiring, side: str, x: Tensor, positions: Tensor, length: int | None
) -> Tensor:
    """Queries, keys or values (N, H, d) of tokens x (N, D) at these positions of texts of this length."""
    heads = wiring.heads if side == "query" or layer.key_heads is None else layer.key_heads
    y = getattr(layer, side)(applied(layer.attention_input_norm, x)).unflatten(-1, (heads, -1))
    if side == "value":
        return y
    y = applied(layer.query_norm if side == "query" else layer.key_norm, y)
    if wiring.rotary is None:
        return y
    cos, sin = wiring.rotations(x, positions.unsqueeze(0), layer.kind, length=length)
    return Angles(cos[0].unsqueeze(1), sin[0].unsqueeze(1)).to(y.device).rotate(y)


def attended(
    wiring: Wiring,
    number: int,
    stretches: Sequence[Stretch],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    last: bool,
) -> Tensor:
    """The output of attention, (N, H d): one row per token, or per reading in the `last` layer."""
    layer = wiring.layers[number]
    read = torch.empty_like(query)
    scale = layer.scale_of(query.shape[-1])
    for stretch in stretches:
        asking = stretch.asking if last else stretch.tokens
        q = stretch.split(query[asking])
        k, v = stretch.joined("keys", key, number), stretch.joined("values", value, number)
        mask = stretch.mask(wiring, layer, last=last)
        k, v = repeated(k, wiring.heads), repeated(v, wiring.heads)
        bias = stretch.bias(wiring, last=last)
        if layer.relative is not None:
            at = stretch.of_asking(stretch.positions, last)
            classes, places = layer.relative.of(at, stretch.keyed)
            sides = layer.relative.sides(classes, wiring.heads, q.shape[-1])
            bias = torch.add(*Relative.of(layer, sides, places).scores(scale * q, k))
        values = _read(layer, q, k, v, mask, bias, scale)
        if mask is not None:  # a query that may read no key
            nothing = v.mean(-2, keepdim=True) if wiring.masks_whole else 0.0
            values = torch.where(mask.any(-1, keepdim=True), values, nothing)
        read[asking] = values.transpose(1, 2).reshape(-1, *query.shape[1:])
    return read.flatten(1)


def _read(
    layer: LayerWiring,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    """Values that queries read, (rows, H, T', d)."""
    if layer.cap is None:
        added = mask
        if bias is not None:
            added = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        return scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale)
    scores = q @ k.mT * scale
    scores = SoftCap(layer.cap)(scores if bias is None else scores + bias)
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def convolved(
    wiring: Convolution, stretches: Sequence[Stretch], x: Tensor, e: Tensor, *, last: bool
) -> Tensor:
    """A convolution beside a layer with outputs x, one row per token, or per reading in the `last` layer, of
    inputs e.
    """
    out, place = torch.empty_like(x), wiring.weight.device
    for stretch in [stretch.to(place) for stretch in stretches]:
        asking = stretch.asking if last else stretch.tokens
        z = mapped(wiring, wiring.windows(e[stretch.tokens].to(place).view(stretch.rows, -1, e.shape[1])))
        z = z.take_along_dim(stretch.read.unsqueeze(-1), 1) if last else z
        branch = wiring.activation(stretch.heard(z, last=last))
        y = applied(wiring.norm, x[asking].to(place).view_as(branch) + branch)
        out[asking] = stretch.heard(y, last=last).flatten(0, 1).to(x.device)
    return out


def rest(layer: LayerWiring, x: Tensor, read: Tensor) -> Tensor:
    """What follows attention in a layer, token by token."""
    branch = applied(layer.attention_branch_norm, layer.attention_out(read))
    into = x
    x = applied(layer.attention_norm, branch.add_(x))
    into = applied(layer.mlp_input_norm, into if layer.parallel else x)
    if layer.gate is None:
        inner = layer.activation(layer.up(into))
    else:
        inner = layer.activation(layer.gate(into)) * layer.up(into)
    return applied(layer.output_norm, applied(layer.mlp_branch_norm, layer.down(inner)).add_(x))


def applied(norm: Norm | None, x: Tensor) -> Tensor:
    """A norm that a family may lack, where it lies."""
    return x if norm is None else norm(beside(norm, x))
