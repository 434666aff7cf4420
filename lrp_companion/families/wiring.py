"""Where a `transformers` model keeps the modules of an encoder and in which order its layers use them
(`Wiring`), and the registry of families.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from lrp_companion.families.patches import PatchEmbedding, PositionTable

READOUTS = ("first", "last", "mean", "max", "place", "two")
"""What the head reads: the first token, the last one that is not padding, the mean of all or the largest of
each coordinate, a given place, or the first two tokens, joined into one vector.
"""


class LinearMap:
    """What stands for a linear module: called with x, it gives `W x + b`."""

    @property
    def weight(self) -> Tensor:
        """Shape (out, in)."""
        raise NotImplementedError

    @property
    def bias(self) -> Tensor | None:
        raise NotImplementedError

    @property
    def in_features(self) -> int:
        return self.weight.shape[1]

    @property
    def out_features(self) -> int:
        return self.weight.shape[0]

    def __call__(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class LinearView(LinearMap):
    """Some outputs of a linear `module`, those that `_of` takes; the module's weight is read at every call,
    so that it follows a module whose weights change.
    """

    module: Any

    def _of(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def weight(self) -> Tensor:
        return self._of(self.module.weight)

    @property
    def bias(self) -> Tensor | None:
        return None if self.module.bias is None else self._of(self.module.bias)


@dataclass(frozen=True)
class LinearPart(LinearView):
    """Outputs `first` to before `last` of a linear module as a separate map; None: from or to the end.
    `transposed` where the module's weight is (in, out).
    """

    first: int | None = None
    last: int | None = None
    transposed: bool = False

    def _of(self, x: Tensor) -> Tensor:
        return (x.mT if self.transposed and x.ndim > 1 else x)[self.first : self.last]


@dataclass(frozen=True)
class PartOfHeads(LinearView):
    """One of `parts` of a linear module's outputs, which lie side by side within each head."""

    heads: int
    part: int
    parts: int = 3

    def _of(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (self.heads, self.parts, -1))[:, self.part].flatten(0, 1)


@dataclass(frozen=True)
class LinearRows(LinearView):
    """Some outputs of a linear map, in another order."""

    rows: tuple[int, ...]

    def _of(self, x: Tensor) -> Tensor:
        return x[list(self.rows)]


@dataclass(frozen=True)
class MeanOfTwo(LinearMap):
    """The mean of two linear maps, each of its half of the input: `(W_1 x_1 + b_1 + W_2 x_2 + b_2) / 2`."""

    first: Any
    second: Any

    @property
    def weight(self) -> Tensor:
        return torch.cat([self.first.weight, self.second.weight], dim=1) / 2

    @property
    def bias(self) -> Tensor:
        return (self.first.bias + self.second.bias) / 2


@dataclass(frozen=True)
class SoftCap:
    """`cap tanh(z / cap)`: Gemma's bound of scores and logits."""

    cap: float

    def __call__(self, z: Tensor) -> Tensor:
        return self.cap * (z / self.cap).tanh()


def precise(x: Tensor) -> Tensor:
    """The tensor in float32 where it has fewer digits."""
    return x.float() if x.dtype.itemsize < torch.float32.itemsize else x


@dataclass(frozen=True)
class RootMeanSquare:
    """RMSNorm `y = gamma x / rms(x)`, `rms = sqrt(mean x**2 + eps)`; `gamma` is `offset` plus the module's
    weight.

    Works in the precision of its input, and in float32 where that is less precise.
    """

    module: Any
    eps: float
    offset: float = 0.0

    @property
    def weight(self) -> Tensor:
        return precise(self.module.weight) + self.offset if self.offset else self.module.weight

    def rms(self, x: Tensor) -> Tensor:
        """Shape (..., 1)."""
        return (precise(x).square().mean(-1, keepdim=True) + self.eps).sqrt()

    def scaled(self, x: Tensor, rms: Tensor) -> Tensor:
        """As the families do: Llama's weights meet what is rounded already, those with an offset do not."""
        normalised = x / rms
        return ((normalised if self.offset else normalised.to(x.dtype)) * self.weight).to(x.dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return self.scaled(x, self.rms(x))


@dataclass(frozen=True)
class UnitLength(RootMeanSquare):
    """A vector of length 1, `y = x / |x|`: an RMSNorm with `gamma = 1 / sqrt(D)`, in front of a linear map.

    >>> UnitLength(nn.Linear(2, 1), 0.0)(torch.tensor([3.0, 4.0])).tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    @property
    def weight(self) -> Tensor:
        width: int = self.module.weight.shape[1]
        return self.module.weight.new_full((width,), width**-0.5)


@dataclass(frozen=True)
class ScoreBias:
    """What a network adds to the scores of all its layers: a number for each head and each class of the
    distance of key and query, from a table (classes, H). `bucket` gives the class of each distance.
    """

    table: nn.Embedding
    bucket: Callable[[Tensor], Tensor]

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Shape (..., H, T, T') for positions of queries (..., T) and of keys (..., T')."""
        ahead = keys.unsqueeze(-2) - queries.unsqueeze(-1)
        return self.table(beside(self.table, self.bucket(ahead))).movedim(-1, -3)


@dataclass(frozen=True)
class RelativePositions:
    """Scores by relative positions (DeBERTa): `Z_ji = s (q_j . k_i + q_j . P_d + k_i . S_d)`.

    d is the class of the distance j - i, a row of the table, which `classes` gives; P is the `key` of each
    class and S its `query`, by head; None: without this term.
    """

    table: nn.Embedding
    norm: Norm | None
    key: Linear | None
    query: Linear | None
    classes: Callable[[Tensor], Tensor]

    def of(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """For positions of queries (..., T) and keys (..., T'): the classes that may occur (N,), and the
        place in them of each pair, (..., 1, T, T').
        """
        classes = self.classes(queries.unsqueeze(-1) - keys.unsqueeze(-2)).unsqueeze(-3)
        first, last = classes.aminmax()
        return torch.arange(int(first), int(last) + 1, device=classes.device), classes - first

    def sides(self, classes: Tensor, heads: int, width: int) -> list[Tensor]:
        """P and S of these classes, (1, H, N, d) each."""
        x = self.table(beside(self.table, classes))
        x = x if self.norm is None else self.norm(beside(self.norm, x))
        none = x.new_zeros(1, heads, len(x), width)
        return [
            none
            if part is None
            else linear(beside(part, x), part.weight, part.bias).view(1, -1, heads, width).transpose(1, 2)
            for part in (self.key, self.query)
        ]


@dataclass(frozen=True)
class Convolution(LinearMap):
    """A convolution over tokens, beside a layer: `y = N(x + phi(W * e + b))` of its output x and its input e.

    It is a linear map of windows, (..., T, D K): `weight` (D, D K).
    """

    module: nn.Conv1d
    activation: Callable[[Tensor], Tensor]
    norm: Norm | None

    @property
    def weight(self) -> Tensor:
        return self.module.weight.flatten(1)

    @property
    def bias(self) -> Tensor | None:
        return self.module.bias

    def windows(self, x: Tensor) -> Tensor:
        """Each token with its neighbours: (..., T, D) to (..., T, D K), 0 beyond the ends.

        >>> convolution = Convolution(nn.Conv1d(1, 1, 3, padding=1), torch.tanh, None)
        >>> windows = convolution.windows(torch.tensor([[[1.0], [2.0]]]))
        >>> windows.tolist(), convolution.joined(windows).tolist()
        ([[[0.0, 1.0, 2.0], [1.0, 2.0, 0.0]]], [[[2.0], [4.0]]])
        """
        (width,) = self.module.kernel_size
        return pad(x, (0, 0, width // 2, width // 2)).unfold(-2, width, 1).flatten(-2)

    def joined(self, g: Tensor) -> Tensor:
        """The transpose of `windows`: (..., T, D K) to (..., T, D)."""
        (width,), tokens = self.module.kernel_size, g.shape[-2]
        each = g.unflatten(-1, (-1, width)).unbind(-1)
        beside = [pad(part, (0, 0, k, width - 1 - k)) for k, part in enumerate(each)]
        return torch.stack(beside).sum(0)[..., width // 2 : width // 2 + tokens, :]


def norm_of(module: Any) -> Norm | None:
    """A network's norm as a wiring has it: None for the identity, and an RMSNorm by its weight and eps.

    >>> norm_of(nn.Identity()), norm_of(nn.RMSNorm(4, eps=1e-6)).eps
    (None, 1e-06)
    """
    if isinstance(module, (nn.Identity, nn.Dropout)):
        return None
    if module.weight is not None and module.weight.ndim == 1 and not hasattr(module, "running_mean"):
        if isinstance(module, nn.LayerNorm):
            return module
        if getattr(module, "bias", None) is None:
            eps = module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps
            return RootMeanSquare(module, torch.finfo(module.weight.dtype).eps if eps is None else eps)
    raise AttributeError(f"a {type(module).__name__} in the place of a norm")


Linear = nn.Linear | LinearMap
Norm = nn.LayerNorm | RootMeanSquare


@dataclass(frozen=True, kw_only=True)
class LayerWiring:
    """The modules of one Transformer layer, in an order that any family can have.

    With every part, a layer is `s = N1(x + B1(attend(P1(x))))`, `y = N2(s + B2(mlp(P2(s))))`; in a `parallel`
    one the MLP reads x, too: `y = N2(x + B1(attend(P1(x))) + B2(mlp(P2(x))))`.

    Attributes
    ----------
    query, key, value, attention_out : the maps of the attention.
    attention_norm, output_norm : N1 and N2, after the sums (post-LN); None where the sums have none.
    up, activation, down : `mlp(x) = down(activation(up(x)))`, or with a `gate`
        `down(activation(gate(x)) * up(x))`.
    attention_input_norm, mlp_input_norm : P1 and P2, before a branch (pre-LN); None where it has none.
    attention_branch_norm, mlp_branch_norm : B1 and B2, at the end of a branch (Gemma); None likewise.
    query_norm, key_norm : norms of each head's queries and keys.
    key_heads : number of heads for keys and values; None: as many as for queries. Each serves neighbouring
        query heads.
    scale : factor of the scores; None is `1 / sqrt(d)` of a head.
    cap : scores become `cap tanh(z / cap)`; None: they stay.
    window : largest distance of a key from its query, 0 for itself; None: any distance.
    kind : what `Wiring.rotary` needs to know of this layer.
    relative : scores by relative positions; None: there are none.
    convolution : what is added to the layer's output, from its input; None: nothing.
    parallel : whether attention and MLP read the same input.
    """

    query: Linear
    key: Linear
    value: Linear
    attention_out: Linear
    up: Linear
    activation: Callable[[Tensor], Tensor]
    down: Linear
    gate: Linear | None = None
    attention_norm: Norm | None = None
    output_norm: Norm | None = None
    attention_input_norm: Norm | None = None
    mlp_input_norm: Norm | None = None
    attention_branch_norm: Norm | None = None
    mlp_branch_norm: Norm | None = None
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    key_heads: int | None = None
    scale: float | None = None
    cap: float | None = None
    window: int | None = None
    kind: str | None = None
    relative: RelativePositions | None = None
    convolution: Convolution | None = None
    parallel: bool = False

    @property
    def device(self) -> torch.device:
        """Where its weights lie; all of a layer's lie together."""
        query: Any = self.query  # a family that a user adds may have a module without a weight of this name
        return (query.weight if hasattr(query, "weight") else next(query.parameters())).device

    def scale_of(self, head_width: int) -> float:
        """The factor of the products of queries and keys of one head."""
        return head_width**-0.5 if self.scale is None else self.scale


def beside(module: Any, x: Tensor) -> Tensor:
    """The tensor on the device of a module's weights."""
    return x.to(module.weight.device)


Rotary = Callable[[Tensor, Tensor, str | None], tuple[Tensor, Tensor]]
"""From an input (its type and device), positions (1, T) and a layer's kind to cosines and sines (1, T, d): of
the first d numbers of each head; what is beyond is not turned, and with d = 0 nothing is.
"""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Where a `transformers` model keeps the modules of an encoder.

    Attributes
    ----------
    word, position, type : the embeddings that are summed; `position` is None where positions are rotations,
        `type` where a family has no such table. Where images are read, `word` embeds patches.
    embedding_norm : the LayerNorm of this sum; None where there is none.
    projection : maps the embeddings to the hidden width; None where they have it already.
    layers : the Transformer layers, from the first to the last.
    head : what follows the readout: linear maps, each with its activation function or None, and norms.
    heads : attention heads per layer.
    first_position : index of the first token's position embedding.
    positions : how many positions there are; None: as many as `position` has.
    readout : what the head reads, one of `READOUTS`.
    causal : whether a token attends to none after it.
    rotary : the rotations of queries and keys; None where there are none.
    score_bias : what is added to the scores of all layers; None where there is nothing.
    final_norm : a norm of the last layer's output; None where there is none.
    base : the network below the head, if the encoder chooses the readout; None if the whole network gives the
        logits.
    task : what the logits predict, one of `families.tasks.TASKS`.
    rotary_from : length beyond which the rotations of a text depend on it; None where they never do.
    masks_whole : whether a token that is masked has an embedding of 0 and reads the mean of all values, as in
        DeBERTa; elsewhere a mask only keeps others from reading it.
    """

    word: nn.Embedding | PatchEmbedding
    layers: tuple[LayerWiring, ...]
    head: tuple[tuple[Linear | Norm, Callable[[Tensor], Tensor] | None], ...]
    heads: int
    position: nn.Embedding | PositionTable | None = None
    type: nn.Embedding | None = None
    embedding_norm: Norm | None = None
    projection: Linear | None = None
    first_position: int = 0
    positions: int | None = None
    readout: str = "first"
    causal: bool = False
    rotary: Rotary | None = None
    score_bias: ScoreBias | None = None
    final_norm: Norm | None = None
    base: nn.Module | None = None
    task: str = "classes"
    rotary_from: int | None = None
    masks_whole: bool = False

    def rotations(
        self, x: Tensor, positions: Tensor, kind: str | None, *, length: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Cosines and sines (1, T, d) at positions (1, T) of a text of this length, for a kind of layer."""
        assert self.rotary is not None
        if length is None or self.rotary_from is None:
            return self.rotary(x, positions, kind)
        if self.base is not None:
            fresh_rotations(self.base)
        # `transformers` takes the length of a text from the largest position that it is given; what is beyond
        # is padding, whose angles do not matter
        last = positions.new_full((1, 1), length - 1)
        cos, sin = self.rotary(x, torch.cat([positions.clamp(max=length - 1), last], 1), kind)
        return cos[:, :-1], sin[:, :-1]

    def logits_of(self, x: Tensor) -> Tensor:
        """The head alone: from what is read (B, D) to the logits (B, C), each step where its weights lie."""
        for module, activation in self.head:
            z = module(beside(module, x))
            x = z if activation is None else activation(z)
        return x

    @property
    def of_vocabulary(self) -> bool:
        """Whether the logits predict a token, with one logit for each of the vocabulary."""
        return self.task in ("next token", "masked token")

    @property
    def patches(self) -> PatchEmbedding | None:
        """How patches are embedded where images are read; None where texts are."""
        return self.word if isinstance(self.word, PatchEmbedding) else None

    @property
    def types(self) -> int:
        """How many token types there are; 1 where a family has no such table."""
        return 1 if self.type is None else self.type.num_embeddings

    @property
    def longest(self) -> int:
        """The number of tokens for which there are positions."""
        if self.positions is not None:
            return self.positions
        assert self.position is not None
        return self.position.num_embeddings - self.first_position

    @cached_property
    def gated(self) -> bool:
        """Whether a layer's MLP is a product of two activations."""
        return any(layer.gate is not None for layer in self.layers)

    @property
    def single_precision(self) -> bool:
        """Whether the `transformers` network works in float32 in places, whatever its weights are."""
        norms = (layer.mlp_input_norm for layer in self.layers)
        return (
            self.rotary is not None
            or self.patches is not None  # its softmax, with eager attention
            or any(isinstance(norm, RootMeanSquare) for norm in norms)
        )


def fresh_rotations(network: Any) -> None:
    """Let rotations that grow with the texts that a network has read start again, as with its first text."""
    for module in network.modules():
        if hasattr(module, "original_max_seq_len") and hasattr(module, "max_seq_len_cached"):
            for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")]:
                setattr(module, name, module.original_max_seq_len)
            for name in [name for name in module._buffers if name.endswith("original_inv_freq")]:
                first = module._buffers[name]
                module._buffers[name.replace("original_", "")] = None if first is None else first.clone()


FAMILIES: dict[str, Callable[[Any], Wiring]] = {}
"""Wiring functions by family, the `model_type` of `config.json`; `family` adds to it."""
Function = TypeVar("Function", bound=Callable[[Any], Wiring])


def family(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as the wiring of a family, its `model_type` in `config.json`, in place
    of any other of this name.

    The function takes the `transformers` classifier and returns its `Wiring`. A family with the layout of
    another one needs no new function: CamemBERT is wired as RoBERTa is.

    >>> from lrp_companion.families import roberta
    >>> wiring = family("our-roberta")(roberta)
    >>> forget_family("our-roberta")
    """

    def register(wiring_of: Function) -> Function:
        FAMILIES[name] = wiring_of
        return wiring_of

    return register


def forget_family(name: str) -> None:
    """Remove a family from the registry, if it is there."""
    FAMILIES.pop(name, None)
