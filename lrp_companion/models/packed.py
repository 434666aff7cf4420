"""Many variants of a text through an encoder, no tape and no padding: the forward behind removals and
perturbation curves.

Rows of all lengths lie behind one another in one tensor of tokens. Maps that treat every token alone run on
all of them at once; attention runs on each stretch of rows of equal length. Two things are not computed twice
or at all:

- the first layer's queries, keys and values belong to a token and its position, so each such pair is run
once; - the classifier reads the first token only, so the last layer needs that token's query and the others'
keys and values.

The logits equal the `transformers` model's, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lrp_companion.models.encoder import LayerWiring, Wiring


@dataclass(frozen=True)
class Row:
    """One variant of a text: token ids and positions (from 0), and whether its first token is attended to by
    nobody.
    """

    ids: np.ndarray
    positions: np.ndarray
    first_unread: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class _Stretch:
    """Neighbouring rows of one length: which rows, which tokens, and the keys to leave out, (rows, 1, 1, T),
    or None.
    """

    rows: slice
    tokens: slice
    length: int
    read: Tensor | None

    def split(self, x: Tensor, heads: int) -> Tensor:
        """Its tokens' (or rows') part of x (N, D) as (rows, H, T or 1, D/H)."""
        rows = self.rows.stop - self.rows.start
        return x.view(rows, -1, heads, x.shape[-1] // heads).transpose(1, 2)


def packed_logits(wiring: Wiring, rows: Sequence[Row], *, device: torch.device | str = "cpu") -> Tensor:
    """Logits (R, C) of R variants; cheapest if rows of equal length are neighbours."""
    lengths = [len(row) for row in rows]
    stretches, row, token = [], 0, 0
    for length, group in groupby(rows, len):
        own = list(group)
        read = None
        if any(one.first_unread for one in own):
            read = torch.ones(len(own), 1, 1, length, dtype=torch.bool, device=device)
            read[[k for k, one in enumerate(own) if one.first_unread], ..., 0] = False
        stretches.append(
            _Stretch(slice(row, row + len(own)), slice(token, token + len(own) * length), length, read)
        )
        row, token = row + len(own), token + len(own) * length
    ids = torch.as_tensor(np.concatenate([one.ids for one in rows]), device=device)
    positions = torch.as_tensor(np.concatenate([one.positions for one in rows]), device=device)
    first = torch.as_tensor(np.cumsum([0, *lengths[:-1]]), device=device)

    pairs, place = torch.unique(positions * wiring.word.num_embeddings + ids, return_inverse=True)
    positions, ids = pairs // wiring.word.num_embeddings, pairs % wiring.word.num_embeddings
    x = wiring.word(ids) + wiring.position(positions + wiring.first_position)
    if wiring.type is not None:
        x = x + wiring.type.weight[0]
    x = wiring.embedding_norm(x)
    if wiring.projection is not None:
        x = wiring.projection(x)

    for number, layer in enumerate(wiring.layers):
        last = number == len(wiring.layers) - 1
        key, value = layer.key(x), layer.value(x)
        if number:
            x = x[first] if last else x
            query = layer.query(x)
        else:
            query, key, value, x = layer.query(x)[place], key[place], value[place], x[place]
            if last:
                query, x = query[first], x[first]
        read = torch.empty_like(query)
        for stretch in stretches:
            where = stretch.rows if last else stretch.tokens
            q, k, v = (
                stretch.split(x, wiring.heads)
                for x in (query[where], key[stretch.tokens], value[stretch.tokens])
            )
            found = scaled_dot_product_attention(q, k, v, attn_mask=stretch.read)
            read[where] = found.transpose(1, 2).reshape(-1, query.shape[-1])
        x = _rest(layer, x, read)
    for linear, activation in wiring.head:
        x = linear(x) if activation is None else activation(linear(x))
    return x


def _rest(layer: LayerWiring, x: Tensor, read: Tensor) -> Tensor:
    """What follows attention in a layer, token by token."""
    x = layer.attention_norm(layer.attention_out(read).add_(x))
    return layer.output_norm(layer.down(layer.activation(layer.up(x))).add_(x))
