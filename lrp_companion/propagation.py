"""Walk a tape's blocks backward under a bypass mask, and the tree over all masks.

Knows blocks, not BERT: `head.backward`, `layers[l].backward(bypass=...)`, `layers[l].children`, `embedding.backward`.
A mask says for every layer whether its attention is treated as CP-LRP does (bypassed) or as AttnLRP does; it is a set
of bypassed layers, counted from 1: none is AttnLRP, all is CP-LRP. A walk starts from `d output / d logits`, (B, C).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor


class _Map(Protocol):
    def backward(self, g: Tensor, *, eps: float = 0.0) -> Tensor: ...


class _Layer(Protocol):
    def backward(self, g: Tensor, *, bypass: bool, eps: float = 0.0) -> Tensor: ...

    def children(self, g: Tensor, *, eps: float = 0.0) -> tuple[Tensor, Tensor]: ...


class _Embedding(_Map, Protocol):
    @property
    def parts(self) -> dict[str, Tensor]: ...


class Walkable(Protocol):
    """What a model must leave behind to be walked."""

    @property
    def head(self) -> _Map: ...
    @property
    def layers(self) -> Sequence[_Layer]: ...
    @property
    def embedding(self) -> _Embedding: ...


def relevance_parts(tape: Walkable, g: Tensor) -> dict[str, Tensor]:
    """`R = a g` of every part of the embedding sum (word, position, type), each (..., B, T)."""
    return {name: (value * g).sum(-1) for name, value in tape.embedding.parts.items()}


def all_masks(tape: Walkable, start: Tensor, *, epsilon: float = 0.0, rows: int = 64) -> dict[str, Tensor]:
    """Relevance parts under all 2**L masks, each (2**L, B, T); bit l-1 of the row's number is set where layer l is bypassed.

    One layer-backward yields both treatments of that layer, so all masks cost 2**L - 1 of them. The tree is walked
    depth-first once a node holds `rows` masks, so that memory stays bounded by about `2 rows L` hidden states.
    """

    def walk(g: Tensor, depth: int) -> dict[str, Tensor]:
        if depth == 0:
            return relevance_parts(tape, tape.embedding.backward(g, eps=epsilon))
        both = torch.stack(tape.layers[depth - 1].children(g, eps=epsilon), 1).flatten(0, 1)
        leaves = [walk(part, depth - 1) for part in both.split(max(2, rows))]
        return {name: torch.cat([leaf[name] for leaf in leaves]) for name in leaves[0]}

    return walk(tape.head.backward(start, eps=epsilon).unsqueeze(0), len(tape.layers))


def some_masks(
    tape: Walkable, start: Tensor, masks: Collection[frozenset[int]], *, epsilon: float = 0.0
) -> dict[frozenset[int], dict[str, Tensor]]:
    """Relevance parts under each of these masks (sets of bypassed layers, from 1), each (B, T).

    Masks that agree from the last layer down to some layer share those layer-backwards.
    """

    def walk(g: Tensor, depth: int, group: list[frozenset[int]]) -> dict[frozenset[int], dict[str, Tensor]]:
        if depth == 0:
            parts = relevance_parts(tape, tape.embedding.backward(g, eps=epsilon))
            return dict.fromkeys(group, parts)
        layer = tape.layers[depth - 1]
        sides = [[m for m in group if (depth in m) == bypass] for bypass in (False, True)]
        if all(sides):
            children = layer.children(g, eps=epsilon)
            return walk(children[0], depth - 1, sides[0]) | walk(children[1], depth - 1, sides[1])
        return walk(layer.backward(g, bypass=bool(sides[1]), eps=epsilon), depth - 1, group)

    return walk(tape.head.backward(start, eps=epsilon), len(tape.layers), list(dict.fromkeys(masks)))
