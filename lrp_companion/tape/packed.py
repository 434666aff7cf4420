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
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention

from lrp_companion.families.wiring import Convolution, LayerWiring, Norm, SoftCap, Wiring, beside
from lrp_companion.tape.attention import Angles, Movable, Relative, repeated
from lrp_companion.tape.encoder import closed_by_place


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
        z = wiring(wiring.windows(e[stretch.tokens].to(place).view(stretch.rows, -1, e.shape[1])))
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


@dataclass(frozen=True)
class Whole:
    """The keys and values of a text, (T, H, d) in each layer."""

    keys: list[Tensor]
    values: list[Tensor]


@dataclass(frozen=True)
class Row:
    """One variant of a text: token ids, positions (from 0) and token types (None: all 0).

    No token attends to those at the places `unread`. `read` are the places that a readout of a place or of
    the last token reads, each for logits of its own. `length` is the number of positions in the text (None:
    up to the last one here), on which some rotations depend. In a causal model the first `before` tokens may
    be left out of all this, if their keys and values are in `whole`.
    """

    ids: np.ndarray
    positions: np.ndarray
    unread: tuple[int, ...] = ()
    types: np.ndarray | None = None
    read: tuple[int, ...] = (0,)
    length: int | None = None
    before: int = 0
    whole: Whole | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def after(self, before: int, whole: Whole) -> Row:
        """The same row without its first tokens, none of which is closed."""
        types = None if self.types is None else self.types[before:]
        unread, read = (tuple(place - before for place in side) for side in (self.unread, self.read))
        ids, positions, length = self.ids[before:], self.positions[before:], self.length
        length = int(self.positions[-1]) + 1 if length is None else length
        return Row(ids, positions, unread, types, read, length, before, whole)


@dataclass(frozen=True)
class Stretch(Movable):
    """Neighbouring rows of one length: which rows, and which tokens of all.

    `open` (rows, 1, 1, K) is False at keys that are left out; None where none is. `positions` are (rows, T),
    those of the keys (rows, K), of which the first `before` are in `whole`. `read` (rows, k) are the places
    that the head reads, `asking` these queries of all that ask in the last layer.
    """

    rows: int
    asking: slice
    tokens: slice
    length: int
    open: Tensor | None
    positions: Tensor
    read: Tensor
    before: int = 0
    whole: Whole | None = None

    @property
    def keyed(self) -> Tensor:
        """The positions of the keys."""
        first = torch.arange(self.before, device=self.positions.device)
        return torch.cat([first.expand(self.rows, -1), self.positions], 1) if self.before else self.positions

    def joined(self, side: str, x: Tensor, layer: int) -> Tensor:
        """Its "keys" or "values" in a layer, (rows, H, K, d), with those before."""
        own = self.split(x[self.tokens])
        if not self.before:
            return own
        first = getattr(self.whole, side)[layer][: self.before].transpose(0, 1)
        return torch.cat([first.expand(self.rows, -1, -1, -1), own], 2)

    def split(self, x: Tensor) -> Tensor:
        """Its tokens' (or readings') part of x (N, H, d) as (rows, H, T or k, d)."""
        return x.view(self.rows, -1, *x.shape[1:]).transpose(1, 2)

    def bias(self, wiring: Wiring, *, last: bool) -> Tensor | None:
        """What is added to scores, (rows, H, T or k, K): in the `last` layer of k queries; None: nothing."""
        if wiring.score_bias is None:
            return None
        return wiring.score_bias(self.of_asking(self.positions, last), self.keyed).to(self.positions.device)

    def of_asking(self, x: Tensor, last: bool) -> Tensor:
        """Of x (rows, T) what belongs to the queries: in the `last` layer (rows, k)."""
        return x.gather(1, self.read) if last else x

    def heard(self, x: Tensor, *, last: bool) -> Tensor:
        """x (rows, T or k, D) with 0 at tokens that are left out."""
        return x if self.open is None else self.of_asking(self.open[:, 0, 0], last).unsqueeze(-1) * x

    def mask(self, wiring: Wiring, layer: LayerWiring, *, last: bool) -> Tensor | None:
        """Which keys queries may read, (rows, 1, T or k, K): in the `last` layer k of each; None: all."""
        closed = closed_by_place(wiring, layer.window, self.of_asking(self.positions, last), self.keyed)
        if closed is None or self.open is None:
            if self.open is not None and wiring.masks_whole:
                return self.open & self.of_asking(self.open[:, 0, 0], last)[:, None, :, None]
            return self.open if closed is None else ~closed
        return self.open & ~closed


def places_read(wiring: Wiring, rows: Sequence[Row], ends: np.ndarray) -> np.ndarray:
    """Which of all tokens the heads read, (R,), row by row; not used where it is the mean."""
    reads_one = wiring.readout in ("place", "last")
    if not reads_one:
        return ends[:-1]
    return np.concatenate([start + np.asarray(row.read) for start, row in zip(ends, rows, strict=False)])


def stretches_of(
    rows: Sequence[Row], positions: Tensor, read: Tensor, device: torch.device | str
) -> list[Stretch]:
    """Runs of neighbouring rows of equal length, as many readings and the same beginning."""
    stretches, asked, token = [], 0, 0
    for (length, readings, before, _), group in groupby(rows, _alike):
        members = list(group)
        unread = [(k, place) for k, member in enumerate(members) for place in member.unread]
        open_keys = None
        if unread:
            open_keys = torch.ones(len(members), 1, 1, before + length, dtype=torch.bool, device=device)
            for k, place in unread:
                open_keys[k, ..., before + place] = False
        next_asked, next_token = asked + len(members) * readings, token + len(members) * length
        tokens, asking = slice(token, next_token), slice(asked, next_asked)
        places = positions[tokens].view(-1, length)
        starts = torch.arange(token, next_token, length, device=device)
        places_read = read[asking].view(-1, readings) - starts[:, None]
        here = open_keys, places, places_read, before, members[0].whole
        stretches.append(Stretch(len(members), asking, tokens, length, *here))
        asked, token = next_asked, next_token
    return stretches


def _alike(row: Row) -> tuple[int, int, int, int]:
    """What rows of one stretch have in common."""
    return len(row), len(row.read), row.before, id(row.whole)
