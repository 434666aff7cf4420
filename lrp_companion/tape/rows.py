"""Variants of a text in one tensor of tokens: the rows, and the stretches of rows of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from lrp_companion.families.wiring import LayerWiring, Wiring
from lrp_companion.tape.encoder import closed_by_place


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
class Stretch:
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

    def to(self, device: torch.device) -> Stretch:
        """The same on another device."""
        open_keys = None if self.open is None else self.open.to(device)
        here = open_keys, self.positions.to(device), self.read.to(device)
        return Stretch(self.rows, self.asking, self.tokens, self.length, *here, self.before, self.whole)

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
