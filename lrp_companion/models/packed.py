"""Many variants of a text through an encoder, with no tape and no padding, for removals and curves.

Rows of all lengths lie behind one another in one tensor of tokens. Maps that treat every token alone run on
all of them at once; attention runs on each stretch of rows of equal length. Two kinds of work are saved:

- the first layer's queries, keys and values depend on a token, its position and its type only, so each such
  triple is run once;
- the classifier reads the first token only, so the last layer needs no other token's query.

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

from lrp_companion.models.families import LayerWiring, Wiring


@dataclass(frozen=True)
class Row:
    """One variant of a text: token ids, positions (from 0) and token types (None: all 0).

    With `first_unread` no token attends to the first one.
    """

    ids: np.ndarray
    positions: np.ndarray
    first_unread: bool = False
    types: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class _Stretch:
    """Neighbouring rows of one length: which rows, and which tokens of all.

    `read` (rows, 1, 1, T) is False at keys that are left out; None where none is.
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
    stretches = _stretches(rows, device)
    ids = torch.as_tensor(np.concatenate([row.ids for row in rows]), device=device)
    positions = torch.as_tensor(np.concatenate([row.positions for row in rows]), device=device)
    first = torch.as_tensor(np.cumsum([0, *(len(row) for row in rows[:-1])]), device=device)

    words, kinds = wiring.word.num_embeddings, wiring.types
    if kinds > 1:
        types = [np.zeros_like(row.ids) if row.types is None else row.types for row in rows]
        positions = positions * kinds + torch.as_tensor(np.concatenate(types), device=device)

    distinct, place = torch.unique(positions * words + ids, return_inverse=True)
    places = distinct // words
    x = _embedded(wiring, distinct % words, places // kinds, places % kinds)
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
        x = _rest(layer, x, _attended(stretches, query, key, value, wiring.heads, last=last))
    for linear, activation in wiring.head:
        x = linear(x) if activation is None else activation(linear(x))
    return x


def _stretches(rows: Sequence[Row], device: torch.device | str) -> list[_Stretch]:
    """Runs of neighbouring rows of equal length."""
    stretches, row, token = [], 0, 0
    for length, group in groupby(rows, len):
        members = list(group)
        unread = [k for k, member in enumerate(members) if member.first_unread]
        read = None
        if unread:
            read = torch.ones(len(members), 1, 1, length, dtype=torch.bool, device=device)
            read[unread, ..., 0] = False
        next_row, next_token = row + len(members), token + len(members) * length
        stretches.append(_Stretch(slice(row, next_row), slice(token, next_token), length, read))
        row, token = next_row, next_token
    return stretches


def _embedded(wiring: Wiring, ids: Tensor, positions: Tensor, types: Tensor) -> Tensor:
    """The first layer's input (N, D) for tokens, their positions from 0 and their types, (N,) each."""
    x = wiring.word(ids) + wiring.position(positions + wiring.first_position)
    if wiring.type is not None:
        x = x + wiring.type(types)
    x = wiring.embedding_norm(x)
    return x if wiring.projection is None else wiring.projection(x)


def _attended(
    stretches: Sequence[_Stretch], query: Tensor, key: Tensor, value: Tensor, heads: int, *, last: bool
) -> Tensor:
    """What attention reads, of the shape of `query`: one row per token, in the `last` layer per variant."""
    read = torch.empty_like(query)
    for stretch in stretches:
        asking = stretch.rows if last else stretch.tokens
        sides = (query[asking], key[stretch.tokens], value[stretch.tokens])
        q, k, v = (stretch.split(side, heads) for side in sides)
        values = scaled_dot_product_attention(q, k, v, attn_mask=stretch.read)
        read[asking] = values.transpose(1, 2).reshape(-1, query.shape[-1])
    return read


def _rest(layer: LayerWiring, x: Tensor, read: Tensor) -> Tensor:
    """What follows attention in a layer, token by token."""
    x = layer.attention_norm(layer.attention_out(read).add_(x))
    return layer.output_norm(layer.down(layer.activation(layer.up(x))).add_(x))
