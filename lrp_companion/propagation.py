"""Walk a tape's blocks backward under a bypass mask, and the tree over all masks.

Knows blocks, not BERT: `head.backward`, `layers[l].backward(bypass=...)`, `layers[l].children`,
`embedding.backward`. A mask says for every layer whether its attention is treated as in CP-LRP (bypassed) or
as in AttnLRP. It is a set of bypassed layers, counted from 1: none is AttnLRP, all is CP-LRP. A walk starts
from `d output / d logits`, (B, C).
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from lrp_companion.checks import InputError
from lrp_companion.tape.encoder import Tape, budget

MEMORY = 2 << 30
"""Bytes that `all_masks` may use by default."""


def relevance_parts(tape: Tape, g: Tensor) -> dict[str, Tensor]:
    """`R = a g` of every part of the embedding sum (word, position, type), each (..., B, T)."""
    # a sum hands each of its parts the same g (`rules.add`): a part's relevance is its own value times g
    return {name: (value * g).sum(-1) for name, value in tape.embedding.parts.items()}


def all_masks(
    tape: Tape, start: Tensor, *, epsilon: float = 0.0, rows: int | None = None, memory: int = MEMORY
) -> dict[str, Tensor]:
    """Relevance parts under all 2**L masks, each (2**L, B, T).

    Bit l-1 of a row's number is set if layer l is bypassed.

    One layer-backward gives both treatments of that layer, so all masks cost 2**L - 1 of them. The tree is
    walked breadth-first until `rows` masks are carried back together, then depth-first: one block of that
    size waits at each depth. By default `rows` keeps the processor busy within `memory` bytes, without the
    tape (see `masks_at_once`). Up to rounding, results depend on neither.
    """
    layers, g = tape.layers, tape.head.backward(start, eps=epsilon)
    at_once = masks_at_once(tape, g, memory) if rows is None else rows
    weights = _embedding_weights(tape, g, epsilon)
    out = {name: weight.new_empty(2 ** len(layers), *g.shape[:-1]) for name, weight in weights.items()}
    home = next(iter(weights.values())).device  # layers may lie on other devices than the embeddings
    # g (M, B, T, D) of M masks, the layers that are still to be walked, and the numbers of the masks
    waiting = [(g.unsqueeze(0), len(layers), torch.zeros(1, dtype=torch.long, device=home))]
    while waiting:
        g, depth, numbers = waiting.pop()
        if depth == 0:
            # R = w . g over the hidden axis, for all masks of the block at once
            for name, weight in weights.items():
                out[name][numbers] = torch.einsum("nbtd,btd->nbt", g.to(home), weight)
            continue
        g, bypassed = layers[depth - 1].children(g, eps=epsilon)
        # AttnLRP's child keeps the masks' numbers, CP-LRP's has the layer's bit set
        both = numbers, numbers + 2 ** (depth - 1)
        if 2 * len(g) <= at_once:
            # breadth-first: both children go on as one block, 2 M masks wide
            waiting.append((torch.cat([g, bypassed]), depth - 1, torch.cat(both)))
        else:
            # depth-first: AttnLRP's child is walked to the words before its sibling, which waits
            waiting += [(bypassed, depth - 1, both[1]), (g, depth - 1, both[0])]
        # only `waiting` holds them now, or they would be in memory beside their children
        del g, bypassed
    return out


def masks_at_once(tape: Tape, g: Tensor, memory: int) -> int:
    """How many masks `all_masks` may carry back together: a power of two.

    This keeps the processor busy within `memory` bytes, which hold the results, one waiting block per layer,
    and the work of one layer-backward for `g` (B, T, D).
    """
    tokens, depth = g.shape[:-1].numel(), len(tape.layers)
    bytes_of_score = g.element_size() + 8  # and its copy in float64
    results = 2**depth * tokens * len(tape.embedding.parts) * bytes_of_score
    each = g.element_size() * (max(layer.working for layer in tape.layers) + depth * g.numel())
    fitting = (memory - results) // each
    if fitting < 1:
        got, least = f"{memory:,} bytes for 2**{depth} masks of {tokens} tokens", results + each
        hint = "raise memory, or shorten the text"
        raise InputError("all_masks", got=got, expected=f"at least {least:,}", hint=hint)
    # a power of two, as children double a block; at least one mask is carried
    busy = budget(None, g.device, work="masks") // tokens
    return 1 << max(1, min(fitting, busy)).bit_length() - 1


def _embedding_weights(tape: Tape, g: Tensor, epsilon: float) -> dict[str, Tensor]:
    """The weights w of each part, (B, T, D), with `R = w . g` for g at the first layer's input.

    Relevance is linear in g and the embeddings are mapped token by token, so one backward step of the rule
    itself gives its weights, and no mask runs it again.
    """
    home = next(iter(tape.embedding.parts.values())).device
    with torch.enable_grad():
        # linear in g: the gradient of sum R is w wherever it is taken, at 0 too
        leaf = torch.zeros_like(g, device=home, requires_grad=True)
        parts = relevance_parts(tape, tape.embedding.backward(leaf, eps=epsilon))
        gradients = (torch.autograd.grad(part.sum(), leaf, retain_graph=True)[0] for part in parts.values())
        return dict(zip(parts, gradients, strict=True))


def some_masks(
    tape: Tape, start: Tensor, masks: Collection[frozenset[int]], *, epsilon: float = 0.0
) -> dict[frozenset[int], dict[str, Tensor]]:
    """Relevance parts under each of these masks (sets of bypassed layers, from 1), each (B, T).

    Masks that agree from the last layer down to some layer share those layer-backwards.
    """

    def walk(g: Tensor, depth: int, group: list[frozenset[int]]) -> dict[frozenset[int], dict[str, Tensor]]:
        if depth == 0:
            parts = relevance_parts(tape, tape.embedding.backward(g, eps=epsilon))
            return dict.fromkeys(group, parts)
        layer = tape.layers[depth - 1]
        # masks that agree from the last layer to this one have the same g here
        kept, bypassing = ([m for m in group if (depth in m) == bypass] for bypass in (False, True))
        if kept and bypassing:
            g, bypassed = layer.children(g, eps=epsilon)
            return walk(g, depth - 1, kept) | walk(bypassed, depth - 1, bypassing)
        # all of the group treat this layer alike: one treatment is enough
        return walk(layer.backward(g, bypass=bool(bypassing), eps=epsilon), depth - 1, group)

    return walk(tape.head.backward(start, eps=epsilon), len(tape.layers), list(dict.fromkeys(masks)))


def parts_and_angles(
    tape: Tape, start: Tensor, mask: Collection[int], *, epsilon: float = 0.0
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Relevance parts under one mask, each (B, T), and the relevance of rotations, from the last layer down:
    (B, T) at the cosines and at the sines of each layer whose angles are factors.
    """
    g, at_angles = tape.head.backward(start, eps=epsilon), list[Tensor]()
    for number in range(len(tape.layers), 0, -1):
        g = tape.layers[number - 1].backward(g, bypass=number in mask, eps=epsilon, at_angles=at_angles)
    return relevance_parts(tape, tape.embedding.backward(g, eps=epsilon)), at_angles
