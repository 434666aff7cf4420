"""Exact symmetries of a Transformer: changes of its parameters that change no logit, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion.families.wiring import LayerWiring, LinearPart, RootMeanSquare, Wiring


class DoesNotFit(Exception):
    """Why a model does not have a symmetry, in a few words."""


@dataclass(frozen=True)
class Symmetry:
    """A change of parameters that changes no logit.

    Attributes
    ----------
    name : of the symmetry.
    why : why no logit changes, in a sentence.
    edit : changes a wiring's parameters in place with random numbers; raises `DoesNotFit`.
    prepare : makes of a copy a model that has the symmetry; None where the model may have it.
    """

    name: str
    why: str
    edit: Edit
    prepare: Callable[[Wiring], None] | None = None


class Draw:
    """Random numbers, in float64."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._generator, self._device = torch.Generator().manual_seed(seed), device

    def __call__(self, *shape: int) -> Tensor:
        noise = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        return 0.5 * noise.to(self._device)

    def matrices(self, count: int, width: int, *, scalar: bool = False) -> Tensor:
        """Invertible matrices (count, width, width) near the identity, or multiples of it."""
        eye = torch.eye(width, dtype=torch.float64, device=self._device)
        if scalar:
            return self(count, 1, 1).exp() * eye
        return eye + 0.3 * self(count, width, width) / width**0.5


Edit = Callable[[Wiring, Draw], None]
SYMMETRIES: dict[str, Symmetry] = {}
"""Every symmetry by name."""


def _symmetry(name: str, why: str, *, prepare: Any = None) -> Callable[[Edit], Edit]:
    def register(edit: Edit) -> Edit:
        SYMMETRIES[name] = Symmetry(name, why, edit, prepare)
        return edit

    return register


def _editable(*maps: Any) -> None:
    """Linear maps whose weights can be changed row by row."""
    if not all(isinstance(one, (nn.Linear, LinearPart)) for one in maps):
        raise DoesNotFit("a linear map is made of others")


def _heads(wiring: Wiring, layer: LayerWiring) -> tuple[int, int]:
    """Heads of keys and values, and queries for each."""
    keys = layer.key_heads or wiring.heads
    return keys, wiring.heads // keys


def _sides(layer: LayerWiring) -> list[list[Any]]:
    """The maps that make queries and those that make keys: of tokens, and of relative positions."""
    made: list[list[Any]] = [[layer.query], [layer.key]]
    if layer.relative is not None:
        for maps, other in zip(made, (layer.relative.query, layer.relative.key), strict=True):
            maps += [] if other is None or other is maps[0] else [other]
    return made


@_symmetry(
    "key bias", "A vector added to all keys adds one number to all scores of a query; softmax removes it."
)
def _key_bias(wiring: Wiring, draw: Draw) -> None:
    if wiring.rotary is not None:
        raise DoesNotFit("rotations turn a bias of its keys")
    for layer in wiring.layers:
        _editable(layer.key)
        if layer.relative is not None and layer.relative.query is not None:
            raise DoesNotFit("positions ask for its keys")
        if layer.key.bias is None or layer.key_norm is not None or layer.cap is not None:
            raise DoesNotFit("its keys have no bias")
        layer.key.bias.add_(draw(layer.key.out_features))


@_symmetry(
    "value bias", "Attention weights of a query sum to 1, so a bias of values is a bias of what is read."
)
def _value_bias(wiring: Wiring, draw: Draw) -> None:
    for layer in wiring.layers:
        value, out = layer.value, layer.attention_out
        _editable(value, out)
        if value.bias is None or out.bias is None:
            raise DoesNotFit("its values or its output have no bias")
        keys, queries = _heads(wiring, layer)
        value.bias.add_(shift := draw(value.out_features))
        out.bias.sub_(out.weight @ shift.view(keys, 1, -1).expand(-1, queries, -1).flatten())


def _turn(part: Any, turns: Tensor) -> None:
    """Outputs of a linear map, head by head, times a matrix (heads, d, d) each."""
    part.weight.copy_((turns @ part.weight.unflatten(0, (len(turns), -1))).flatten(0, 1))
    if part.bias is not None:
        part.bias.copy_((turns @ part.bias.view(len(turns), -1, 1)).flatten())


@_symmetry("queries and keys", "(M q) . (M^-T k) = q . k for every invertible M (with rotations: a number).")
def _queries_and_keys(wiring: Wiring, draw: Draw) -> None:
    for layer in wiring.layers:
        of_queries, of_keys = _sides(layer)
        _editable(*of_queries, *of_keys)
        if layer.query_norm is not None or layer.key_norm is not None:
            raise DoesNotFit("its queries and keys have norms")
        keys, queries = _heads(wiring, layer)
        scalar = wiring.rotary is not None
        turns = draw.matrices(keys, layer.key.out_features // keys, scalar=scalar)
        for one in of_queries:
            _turn(one, turns.repeat_interleave(queries, 0))
        for one in of_keys:
            _turn(one, torch.linalg.inv(turns).mT)


@_symmetry("values and output", "W_O M^-1 (M v) = W_O v for every invertible M.")
def _values_and_output(wiring: Wiring, draw: Draw) -> None:
    for layer in wiring.layers:
        value, out = layer.value, layer.attention_out
        _editable(value, out)
        keys, queries = _heads(wiring, layer)
        turns = draw.matrices(keys, value.out_features // keys)
        _turn(value, turns)
        back = torch.linalg.inv(turns).repeat_interleave(queries, 0)
        split = out.weight.unflatten(1, (len(back), -1))  # (out, heads, d)
        out.weight.copy_(torch.einsum("ohd,hde->ohe", split, back).flatten(1))


def _tie(wiring: Wiring) -> None:
    """Give the second head of each layer the queries and keys of the first."""
    for layer in wiring.layers:
        _editable(layer.query, layer.key, layer.value, layer.attention_out)
        if layer.key_heads not in (None, wiring.heads) or wiring.heads < 2:
            raise DoesNotFit("its heads share keys, or there is one")
        width = layer.query.out_features // wiring.heads
        for one in sum(_sides(layer), []):
            one.weight[width : 2 * width] = one.weight[:width]
            if one.bias is not None:
                one.bias[width : 2 * width] = one.bias[:width]


@_symmetry(
    "tied heads", "Heads that attend alike are one head with more values, whose basis is free.", prepare=_tie
)
def _tied_heads(wiring: Wiring, draw: Draw) -> None:
    """Of a copy with tied heads."""
    if wiring.score_bias is not None:
        raise DoesNotFit("each of its heads has a bias of scores")
    for layer in wiring.layers:
        width = layer.value.out_features // wiring.heads
        turn = torch.eye(layer.value.out_features, dtype=torch.float64, device=layer.device)
        turn[: 2 * width, : 2 * width] = draw.matrices(1, 2 * width)[0]
        _turn(layer.value, turn[None])
        layer.attention_out.weight.copy_(layer.attention_out.weight @ torch.linalg.inv(turn))


def _reorder(maps: Sequence[Any], groups: int, *, inputs: Any = None) -> None:
    """Outputs of maps, and the inputs of the next one, in the order of groups moved by one."""
    for one in maps:
        one.weight.copy_(one.weight.unflatten(0, (groups, -1)).roll(1, 0).flatten(0, 1))
        if one.bias is not None:
            one.bias.copy_(one.bias.view(groups, -1).roll(1, 0).flatten())
    if inputs is not None:
        inputs.weight.copy_(inputs.weight.unflatten(1, (groups, -1)).roll(1, 1).flatten(1))


@_symmetry("order of heads", "The output of attention is a sum over heads.")
def _order_of_heads(wiring: Wiring, draw: Draw) -> None:
    for layer in wiring.layers:
        maps = *sum(_sides(layer), []), layer.value
        _editable(*maps, layer.attention_out)
        keys, _ = _heads(wiring, layer)
        if keys == 1:
            raise DoesNotFit("it has one head of keys")
        _reorder(maps, keys, inputs=layer.attention_out)
    if wiring.score_bias is not None:  # (buckets, heads), shared by the layers
        table = wiring.score_bias.table.weight
        table.copy_(table.roll(1, 1))


@_symmetry("order of hidden units", "The output of an MLP is a sum over its hidden units.")
def _order_of_units(wiring: Wiring, draw: Draw) -> None:
    for layer in wiring.layers:
        maps = [part for part in (layer.up, layer.gate) if part is not None]
        _editable(*maps, layer.down)
        _reorder(maps, layer.up.out_features, inputs=layer.down)


@_symmetry("factors of gates", "A gated unit is linear in its other factor: c up and down / c.")
def _factors_of_gates(wiring: Wiring, draw: Draw) -> None:
    for layer in wiring.layers:
        if layer.gate is None:
            raise DoesNotFit("its MLPs have no gate")
        _editable(layer.up, layer.down)
        factors = draw(layer.up.out_features).exp()
        layer.up.weight.mul_(factors[:, None])
        if layer.up.bias is not None:
            layer.up.bias.mul_(factors)
        layer.down.weight.div_(factors)


@_symmetry(
    "grouping of gates", "z sigma(z) u is one product of three factors, however two of them are grouped."
)
def _grouping_of_gates(wiring: Wiring, draw: Draw) -> None:
    """No parameter changes: LRP is asked to share between the factors in another way (`gate`)."""
    if not wiring.gated:
        raise DoesNotFit("its MLPs have no gate")


def _table(wiring: Wiring, name: str) -> nn.Embedding:
    """A table of embeddings that nothing else reads."""
    table = getattr(wiring, name)
    if not isinstance(table, nn.Embedding):
        raise DoesNotFit(f"it has no table of {name} embeddings")
    if any(getattr(step, "weight", None) is table.weight for step, _ in wiring.head):
        raise DoesNotFit("its head reads the table of words")
    return table


def _shift(source: str) -> Edit:
    def edit(wiring: Wiring, draw: Draw) -> None:
        word, other = _table(wiring, "word"), _table(wiring, source)
        shift = draw(word.embedding_dim) * float(word.weight.std())
        word.weight.add_(shift)
        other.weight.sub_(shift)

    return edit


_SUM = "Only the sum of the embeddings is read: what the words gain, the {} lose."
_symmetry("from positions to words", _SUM.format("positions"))(_shift("position"))
_symmetry("from types to words", _SUM.format("types"))(_shift("type"))


@_symmetry(
    "mean of an embedding", "LayerNorm subtracts the mean over coordinates, so that it may be any number."
)
def _mean_of_embedding(wiring: Wiring, draw: Draw) -> None:
    word = _table(wiring, "word")
    norms = [wiring.embedding_norm]
    if wiring.embedding_norm is None and wiring.projection is None:  # else the sum is read by every layer
        each = [(x.attention_input_norm, x.mlp_input_norm) for x in wiring.layers]
        norms = [wiring.final_norm, *(norm for both in each for norm in both)]
    if not all(isinstance(norm, nn.LayerNorm) for norm in norms):
        raise DoesNotFit("no LayerNorm follows the embeddings")
    word.weight.add_(draw(word.num_embeddings, 1) * float(word.weight.std()))


@_symmetry("gain of norms", "A norm's gain and the linear maps after it are one linear map.")
def _gain_of_norms(wiring: Wiring, draw: Draw) -> None:
    after: list[tuple[Any, tuple[Any, ...]]] = [(wiring.final_norm, (wiring.head[0][0],))]
    for layer in wiring.layers:
        after.append((layer.attention_input_norm, (layer.query, layer.key, layer.value)))
        after.append((layer.mlp_input_norm, (layer.up, *([] if layer.gate is None else [layer.gate]))))
    after = [(norm, maps) for norm, maps in after if norm is not None]
    if not after:
        raise DoesNotFit("its norms are read by the residual, too")
    tied = getattr(wiring.word, "weight", None)
    for norm, maps in after:
        if any(getattr(one, "weight", None) is tied for one in maps):
            continue  # the head is the table of words
        _editable(*maps)
        gain = norm.weight.clone()
        if not gain.all():
            raise DoesNotFit("a gain is 0")
        for one in maps:
            one.weight.mul_(gain)
        if isinstance(norm, RootMeanSquare):
            norm.module.weight.fill_(1.0 - norm.offset)
        else:
            norm.weight.fill_(1.0)
            if norm.bias is not None:
                norm.bias.div_(gain)
