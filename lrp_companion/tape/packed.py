"""Many variants of a text through an encoder, with no tape and no padding, for removals and curves.

Rows of all lengths follow one another in one tensor of tokens. Maps that treat every token separately run on
all of them at once. Attention runs on each stretch of rows of equal length. Three kinds of work are saved:

- the first layer's queries, keys and values depend on a token, its position and its type only, so each such
  triple is run once;
- where the head reads one token, the last layer needs no other token's query;
- in a causal model a variant needs only what comes after the first change: the keys and values before are
  those of the whole text.

The logits equal the `transformers` model's, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from lrp_companion.families.wiring import Wiring, beside
from lrp_companion.tape.packed_layer import applied, attended, convolved, heads_of, rest
from lrp_companion.tape.rows import Row, Whole, places_read, stretches_of


def packed_logits(
    wiring: Wiring,
    rows: Sequence[Row],
    *,
    words: Tensor | None = None,
    device: torch.device | str = "cpu",
    whole: Whole | None = None,
) -> Tensor:
    """Logits (R, C) of R variants, of one with k readings k rows; cheapest if rows of equal length are
    neighbours.

    `words` (V, E) are the embeddings that ids stand for, where these are no vocabulary: those of patches.
    `whole` gets the keys and values of one row.
    """
    length = None
    if wiring.rotary_from is not None:
        lengths = np.array([row.positions.max() + 1 if row.length is None else row.length for row in rows])
        if len(distinct := np.unique(lengths)) > 1:  # texts of one length share their rotations
            of_reading = np.repeat(lengths, [len(row.read) for row in rows])
            out = torch.empty(len(of_reading), 0)
            for length in distinct:
                chosen = [row for row, its in zip(rows, lengths, strict=True) if its == length]
                some = packed_logits(wiring, chosen, words=words, device=device)
                out = out if out.shape[1] else some.new_empty(len(out), some.shape[1])
                out[np.flatnonzero(of_reading == length).tolist()] = some
            return out
        length = int(lengths[0])
    ids = torch.as_tensor(np.concatenate([row.ids for row in rows]), device=device)
    positions = torch.as_tensor(np.concatenate([row.positions for row in rows]), device=device)
    ends = np.cumsum([0, *(len(row) for row in rows)])
    read = torch.as_tensor(places_read(wiring, rows, ends), device=device)
    stretches = stretches_of(rows, positions, read, device)

    count, embed = _vocabulary(wiring, words)
    kinds = wiring.types
    triples = positions
    if kinds > 1:
        types = [np.zeros_like(row.ids) if row.types is None else row.types for row in rows]
        triples = positions * kinds + torch.as_tensor(np.concatenate(types), device=device)

    distinct, place = torch.unique(triples * count + ids, return_inverse=True)
    places = distinct // count
    x = _embedded(wiring, embed(distinct % count), places // kinds, places % kinds)
    if wiring.masks_whole:  # one more for the tokens that are left out, whose embedding is 0
        left_out = np.concatenate([np.isin(np.arange(len(row)), row.unread) for row in rows])
        place = place.masked_fill(torch.as_tensor(left_out, device=device), len(x))
        x, places = torch.cat([x, torch.zeros_like(x[:1])]), torch.cat([places, places[:1]])
    for number, layer in enumerate(wiring.layers):
        if x.device != layer.device:
            x, positions, read, places, place = (
                side.to(layer.device) for side in (x, positions, read, places, place)
            )
            stretches = [stretch.to(layer.device) for stretch in stretches]
        last = number == len(wiring.layers) - 1 and wiring.readout not in ("mean", "max", "two")
        at = positions if number else places // kinds
        key, value = (heads_of(wiring, layer, side, x, at, length) for side in ("key", "value"))
        if number:
            x, at = (x[read], at[read]) if last else (x, at)
            query = heads_of(wiring, layer, "query", x, at, length)
        else:
            query = heads_of(wiring, layer, "query", x, at, length)[place]
            key, value, x = key[place], value[place], x[place]
            e = x
            if last:
                query, x = query[read], x[read]
        if whole is not None:
            whole.keys.append(key)
            whole.values.append(value)
        x = rest(layer, x, attended(wiring, number, stretches, query, key, value, last=last))
        if layer.convolution is not None:
            x = convolved(layer.convolution, stretches, x, e, last=last)
    x = applied(wiring.final_norm, x)
    if wiring.readout == "two":
        x = torch.cat([x[read], x[read + 1]], dim=1)
    if wiring.readout in ("mean", "max"):
        sizes = torch.as_tensor(np.diff(ends), device=x.device)
        x = torch.segment_reduce(x, wiring.readout, lengths=sizes)
    return wiring.logits_of(x).to(device)


def _vocabulary(wiring: Wiring, words: Tensor | None) -> tuple[int, Callable[[Tensor], Tensor]]:
    """How many ids there are, and the embeddings (N, E) of some of them (N,)."""
    if words is not None:
        return len(words), lambda ids: embedding(ids, words)
    assert isinstance(wiring.word, nn.Embedding)
    return wiring.word.num_embeddings, wiring.word


def _embedded(wiring: Wiring, words: Tensor, positions: Tensor, types: Tensor) -> Tensor:
    """The first layer's input (N, D) for word embeddings (N, E), positions from 0 and types, (N,) each."""
    x = words
    if wiring.position is not None:
        at = beside(wiring.position, positions + wiring.first_position)
        x = x + wiring.position(at).to(x.device)
    if wiring.type is not None:
        x = x + wiring.type(beside(wiring.type, types)).to(x.device)
    x = applied(wiring.embedding_norm, x)
    return x if wiring.projection is None else wiring.projection(beside(wiring.projection, x))
