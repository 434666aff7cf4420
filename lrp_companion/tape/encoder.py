"""Transformers as blocks: a forward that keeps the tape, and the walk back over it.

The weights stay in the `transformers` model. A family's `Wiring` says where they are and in which order a
layer uses them (`families.wiring`, `families`). This file walks them once forward and once backward.

A walk back starts from `d output / d logits`, (B, C), and needs a mask, which says for every layer whether
its attention is treated as in CP-LRP (bypassed) or as in AttnLRP. It is a set of bypassed layers, counted
from 1: none is AttnLRP, all is CP-LRP. `all_masks` walks the tree over all of them.

Shapes: B texts, T tokens, H heads, D hidden, C classes. Backward tensors may have more axes in front, so that
many masks of one text are carried back together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from lrp_companion import rules
from lrp_companion.checks import CompanionError, InputError, ModelError, reason_of, whole
from lrp_companion.families import FAMILIES
from lrp_companion.families.wiring import Wiring, beside
from lrp_companion.tape.attention import HALVES, Angles, Context, PathCut, Shares
from lrp_companion.tape.layer import LayerBlock, RecomputedLayer
from lrp_companion.tape.steps import Step, run_steps, through


@dataclass(frozen=True)
class Readout:
    """What the head reads of the last hidden states (B, T, D): a weighted sum over tokens, (B, D).

    `place` (B,) is the token that is read, None if it is the first; `weights` (B, T) sum to 1 if the mean is
    read, else None. With `two`, the first two tokens are read, joined into one vector, (B, 2 D). Of a maximum
    weights are 1 where a mask is open; `of_largest` has (B, T, D), 1 at the largest value.
    """

    tokens: int
    place: Tensor | None = None
    weights: Tensor | None = None
    two: bool = False
    largest: bool = False

    @classmethod
    def of(
        cls,
        kind: str,
        attended: Tensor,
        dtype: torch.dtype,
        *,
        place: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Readout:
        """For a mask (B, T) and what a wiring reads; a mean weighs tokens by the soft mask `keep` (B, T)."""
        tokens = attended.shape[1]
        if kind in ("first", "two"):
            return cls(tokens, two=kind == "two")
        if kind == "place":
            first = torch.zeros(len(attended), dtype=torch.long, device=attended.device)
            return cls(tokens, place=first if place is None else place)
        if kind == "last":
            # the largest position that is attended to
            last = (attended * torch.arange(tokens, device=attended.device)).argmax(-1)
            return cls(tokens, place=last if place is None else place)
        weights = attended.to(dtype) if keep is None else attended * keep
        if kind == "max":
            return cls(tokens, weights=(weights > 0).to(dtype), largest=True)
        return cls(tokens, weights=weights / weights.sum(-1, keepdim=True))

    def of_largest(self, x: Tensor) -> Readout:
        """The same for states x (B, T, D): of a maximum, which token each coordinate is read from."""
        assert self.weights is not None
        place = x.masked_fill(self.weights.to(x.device).unsqueeze(-1) == 0, -torch.inf).argmax(
            1, keepdim=True
        )
        return replace(self, weights=torch.zeros_like(x).scatter(1, place, 1.0))

    def alone(self, batch: int, device: torch.device) -> tuple[Tensor | None, Readout]:
        """The places (B, k) that are read, None if all are, and the same readout of x (B, k, D) there."""
        if self.weights is not None:
            return None, self
        if self.place is None:
            places = torch.arange(2 if self.two else 1, device=device).expand(batch, -1)
        else:
            # (B,), or (k, 1) of one text
            places = self.place.reshape(batch, -1)
        count = places.shape[1]
        place = None if self.place is None or count == 1 else torch.arange(count, device=device)[:, None]
        return places, Readout(count, place=place, two=self.two)

    def read(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, D)."""
        if self.weights is not None:
            # the mean as a weighted sum: rows of weights sum to 1, padding has 0
            if self.largest:
                return (self.weights * x).sum(1)
            return torch.einsum("bt,btd->bd", self.weights.to(x), x)
        if self.two:
            # (B, 2, D) to (B, 2 D): DeiT's two special tokens
            return x[:, :2].flatten(1)
        if self.place is None:
            return x[:, 0]
        return x[torch.arange(len(x), device=x.device), self.place.to(x.device)]

    def rows(self, x: Tensor) -> Tensor:
        """(B, T, T') to (B, T'): what is read of maps whose rows are tokens; of two tokens the mean, of a
        maximum each as often as it is read.
        """
        if self.largest and self.weights is not None:
            return torch.einsum("bt,btk->bk", self.weights.mean(-1), x)
        return x[:, :2].mean(1) if self.two else self.read(x)

    def backward(self, g: Tensor) -> Tensor:
        """(..., B, D) to (..., B, T, D)."""
        if self.two:
            # the transpose of `read`: g at the tokens that are read, 0 at all others
            return nn.functional.pad(g.unflatten(-1, (2, -1)), (0, 0, 0, self.tokens - 2))
        if self.weights is not None:
            # each token with its weight, as by Eq. (1); of a maximum all goes to the largest
            weights = self.weights.to(g)
            return g.unsqueeze(-2) * (weights if self.largest else weights.unsqueeze(-1))
        if self.place is None:
            return nn.functional.pad(g.unsqueeze(-2), (0, 0, 0, self.tokens - 1))
        # (B, T), 1 at the place
        at = nn.functional.one_hot(self.place, self.tokens).to(g)
        return g.unsqueeze(-2) * at.unsqueeze(-1)


@dataclass(frozen=True)
class HeadBlock:
    """The blocks after the last layer: a norm (if the family has one), the readout, and the maps to the
    logits.
    """

    final_norm: Sequence[Step]
    readout: Readout
    pooled: Tensor
    steps: Sequence[Step]

    def backward(self, g: Tensor, *, eps: float = 0.0) -> Tensor:
        """From g at the logits (..., B, C) to g at the last hidden states (..., B, T, D)."""
        # (..., B, C) down the maps of the head to what is read, (..., B, D)
        # layers and head may lie on several devices
        g = through(self.steps, g, eps).to(self.pooled.device)
        # a mean is a sum; what one token gives is itself
        if self.readout.weights is not None and not self.readout.largest:
            g = rules.add(g, self.pooled, eps=eps)
        return through(self.final_norm, self.readout.backward(g), eps)


@dataclass(frozen=True)
class EmbeddingBlock:
    """The sum of word, position and type embeddings, its norm, and a projection to the hidden width, as far
    as there are such `steps`; 0 where a mask `heard` (B, T, 1) closes tokens whole.
    """

    parts: dict[str, Tensor]
    total: Tensor
    steps: Sequence[Step]
    output: Tensor
    heard: Tensor | None = None

    def backward(self, g: Tensor, *, eps: float = 0.0) -> Tensor:
        """From g at the first layer's input to g at the sum of the embeddings (..., B, T, E)."""
        if self.heard is not None:
            g = self.heard.to(g.device) * g
        # y = P N(word + position + type): back in the other order, (..., B, T, D) to (..., B, T, E)
        g = through(self.steps, g, eps).to(self.total.device)
        # a sum of one part is no sum: no epsilon
        return rules.add(g, self.total, eps=eps) if len(self.parts) > 1 else g


@dataclass(frozen=True)
class Tape:
    """One forward pass: the logits (B, C) and every block, ready to carry relevance back."""

    embedding: EmbeddingBlock
    layers: tuple[LayerBlock | RecomputedLayer, ...]
    head: HeadBlock
    logits: Tensor

    @property
    def attentions(self) -> list[Tensor]:
        """Attention weights of every layer, each (B, H, T, T)."""
        return [layer.attention for layer in self.layers]


class Encoder:
    """A `transformers` model of a wired family, as blocks that keep a tape; with `recompute` one layer's at a
    time (`tape.layer`).
    """

    def __init__(self, model: nn.Module, *, recompute: bool = False) -> None:
        name = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        if name not in FAMILIES:
            got, expected = f"a model of family {name!r}", f"one of {', '.join(FAMILIES)}"
            hint = "load a classifier of one of these families"
            raise ModelError("Encoder", got=got, expected=expected, hint=hint)
        self.family, self.recompute = name, recompute
        self.wiring: Wiring = _wired(name, model)

    def position_ids(self, tokens: int, device: torch.device) -> Tensor:
        """Positions of T tokens, shape (1, T); RoBERTa's start behind its padding index."""
        return torch.arange(tokens, device=device).unsqueeze(0) + self.wiring.first_position

    def embed(self, input_ids: Tensor) -> Tensor:
        """Word embeddings (B, T, E) of ids (B, T), or of patches (B, T, P) where images are read."""
        return self.wiring.word(input_ids)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        *,
        types: Tensor | None = None,
        word: Tensor | None = None,
        keep: Tensor | Sequence[Tensor | None] | None = None,
        place: Tensor | None = None,
        gate: str = "uniform",
        angles_as_factors: bool = False,
        only_read: bool = False,
        added: Sequence[Tensor | None] | None = None,
        shares: Shares = HALVES,
        cuts: Sequence[PathCut] = (),
    ) -> Tape:
        """Run the model and keep the tape; the logits equal the `transformers` model's to rounding.

        Parameters
        ----------
        input_ids, attention_mask : (B, T); no token attends to one whose mask is 0. Where images are read,
            patches (B, T, P) stand for the ids.
        types : (B, T), token types; None where all are 0. A family without such embeddings reads none.
        word : (B, T, E), in place of the word embeddings (for gradients).
        keep : (B, T), a soft mask: attention weights of every layer are proportional to `keep_i exp(Z_ji)`;
            or one (or None) for each layer, and the last for a mean that the head reads.
        place : (B,), the token that is read, for a readout of a place or of the last token (None: the last
            one of the mask).
        gate : how the backward pass treats a gated MLP, one of `tape.steps.GATES`.
        angles_as_factors : whether rotations of queries and keys get half of each product, as in PA-LRP.
        only_read : whether the last layer has outputs, and attention weights, only for what the head reads.
        added : what is added to what the heads of each layer read, (B, H, T, d), and last to what the head
            reads, (B, D), or None.
        shares, cuts : how the backward pass treats products and paths, as in `attention.Context`.
        """
        w = self.wiring
        count = len(w.layers) + 1
        kept = [keep] * count if keep is None or isinstance(keep, Tensor) else list(keep)
        heard = _heard(w, attention_mask, kept[0]) if w.masks_whole else None
        embedding = self._embedding(w.word(input_ids) if word is None else word, types, heard)
        x = embedding.output
        # made once for all layers of a kind: rotations, which keys are closed to which queries, and a bias
        places = self.position_ids(input_ids.shape[1], x.device)
        turned = {} if w.rotary is None else _turned(w, x, places, attention_mask, angles_as_factors)
        closed = _closed(w, attention_mask)
        bias = () if w.score_bias is None else (w.score_bias(places, places).to(x.device),)
        relative = w.layers[0].relative
        classes = None if relative is None else relative.of(places, places)
        added_in = [None] * count if added is None else list(added)
        home = x.device if attention_mask.device == x.device else None
        readout = Readout.of(w.readout, attention_mask, x.dtype, place=place, keep=kept[-1])
        asking, readout = readout.alone(len(x), x.device) if only_read else (None, readout)
        layers: list[LayerBlock | RecomputedLayer] = []
        for k, wiring in enumerate(w.layers):
            context = Context(
                heads=w.heads,
                masked=closed[wiring.window],
                keep=kept[k],
                angles=turned.get(wiring.kind),
                bias=bias,
                gate=gate,
                asking=asking if k == count - 2 else None,  # the last layer
                in_turn=self.recompute,
                added=added_in[k],
                shares=shares,
                cuts=tuple(one for one in cuts if one.layers is None or k + 1 in one.layers),
                classes=classes,
                heard=_heard(w, attention_mask, kept[k]) if w.masks_whole else None,
                home=home,
            )
            # a recomputed layer keeps `run` and its input instead of its inside
            run = partial(LayerBlock.run, wiring, context=context)
            layers.append(RecomputedLayer.of(run, x) if self.recompute else run(x))
            x = layers[-1].output
        x, final_norm = run_steps(x, (w.final_norm, None))
        readout = readout.of_largest(x) if readout.largest else readout
        # (B, T, D) to (B, D), or (B, 2 D)
        pooled = readout.read(x) if added_in[-1] is None else readout.read(x) + added_in[-1]
        x, steps = run_steps(pooled, *w.head)
        head = HeadBlock(final_norm, readout, pooled, steps)
        return Tape(embedding, tuple(layers), head, x.to(input_ids.device))

    def _embedding(
        self, word: Tensor, types: Tensor | None, heard: tuple[Tensor, Tensor] | None
    ) -> EmbeddingBlock:
        """The embeddings from those of the words (B, T, E), token types (B, T), and what `_heard` gives."""
        w = self.wiring
        parts = {"word": word}
        if w.position is not None:
            position = w.position(beside(w.position, self.position_ids(word.shape[1], word.device)))
            parts["position"] = position.to(word.device).expand(len(word), -1, -1)
        if w.type is not None:
            # type 0 for all tokens where no types are given
            first = w.type.weight[0].to(word.device).expand_as(word)
            many = None if types is None or w.types == 1 else w.type(beside(w.type, types))
            parts["type"] = first if many is None else many.to(word.device).expand_as(first)
        # each part (B, T, E) is kept: relevance at a part is its own value times the g of the sum
        total = torch.stack(list(parts.values())).sum(0) if len(parts) > 1 else word
        y, steps = run_steps(total, (w.embedding_norm, None), (w.projection, None))
        if heard is None:
            return EmbeddingBlock(parts, total, steps, y)
        return EmbeddingBlock(parts, total, steps, heard[0].to(y.device) * y, heard[0])


def _wired(family: str, model: nn.Module) -> Wiring:
    """Where the modules of a model of this family are."""
    try:
        return FAMILIES[family](model)
    except CompanionError:
        raise
    except Exception as error:  # a part that is missing, or of another make
        got = f"a network of family {family!r} with other modules ({reason_of(error, 160)})"
        expected = f"a network with the modules that {family} has in transformers"
        hint = "install a version of transformers that pyproject.toml names, or mend your own wiring"
        raise ModelError("Encoder", got=got, expected=expected, hint=hint) from error


def _turned(
    wiring: Wiring, x: Tensor, positions: Tensor, attention_mask: Tensor, factors: bool
) -> dict[str | None, Angles]:
    """The rotations of a forward pass, one for each kind of layer.

    Where they depend on a text's length they are made for each length in the batch: a text is turned as it is
    alone, whatever is in the batch with it.
    """
    lengths: list[int] = []
    if wiring.rotary_from is not None:  # tokens of each text, up to the last one that is not padding
        places = torch.arange(1, attention_mask.shape[1] + 1, device=attention_mask.device)
        lengths = (attention_mask * places).amax(-1).tolist()
    out = {}
    for kind in {layer.kind for layer in wiring.layers}:
        if lengths:
            by_length = {
                length: wiring.rotations(x, positions, kind, length=length) for length in set(lengths)
            }
            # (B, T, d): a row for each text, by its own length
            sides = zip(*(by_length[length] for length in lengths), strict=True)
            cos, sin = (torch.cat(rows) for rows in sides)
        else:  # (1, T, d)
            cos, sin = wiring.rotations(x, positions, kind)
        # (1 or B, 1, T, d): the same for all heads
        out[kind] = Angles(cos.unsqueeze(-3), sin.unsqueeze(-3), factors)
    return out


def _heard(wiring: Wiring, attention_mask: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Which tokens a mask closes whole (`Wiring.masks_whole`) under a soft mask (B, T): the mask (B, T, 1),
    soft or not, and the weights (B, 1, 1, T) of the mean over a text, up to its last token that is not
    padding; None where no token is closed.
    """
    mask = attention_mask
    if keep is None and mask.all():
        return None
    heard = mask.to(wiring.head[0][0].weight.dtype) if keep is None else mask * keep
    ahead = (mask.flip(-1).cummax(-1).values.flip(-1) > 0).to(heard)
    return heard.unsqueeze(-1), (ahead / ahead.sum(-1, keepdim=True))[:, None, None]


def _closed(wiring: Wiring, attention_mask: Tensor) -> dict[int | None, Tensor | None]:
    """By the window of a layer, which keys no query may attend to, (B or 1, 1, T or 1, T); None: all open."""
    mask = attention_mask
    # (B, 1, 1, T): the same for all heads and queries
    padding = None if mask.all() else mask[:, None, None, :] == 0
    places = torch.arange(mask.shape[1], device=mask.device).unsqueeze(0)
    out: dict[int | None, Tensor | None] = {}
    for window in {layer.window for layer in wiring.layers}:
        by_place = closed_by_place(wiring, window, places, places)
        out[window] = padding if by_place is None else by_place
        if by_place is not None and padding is not None:
            out[window] = by_place | padding
    return out


def closed_by_place(wiring: Wiring, window: int | None, queries: Tensor, keys: Tensor) -> Tensor | None:
    """Where a query at one position may not attend to a key at another: (..., 1, T, T'), or None if it may
    everywhere. A causal model's query reads nothing after it; with a window, nothing further away than this.
    """
    if not wiring.causal and window is None:
        return None
    # (..., T, T'): how far the key is ahead of the query
    ahead = keys.unsqueeze(-2) - queries.unsqueeze(-1)
    closed = ahead > 0 if wiring.causal else torch.zeros_like(ahead, dtype=torch.bool)
    if window is not None:
        closed = closed | (ahead.abs() > window)
    return closed.unsqueeze(-3)


@contextmanager
def as_recorded(device: torch.device, network: nn.Module | None = None) -> Iterator[None]:
    """Compute in the numbers' type and without randomness, whatever the caller has switched on.

    Autocast would change scores by several percent, inference mode forbids gradients, a network in training
    mode drops units at random, and on another default device than the processor new tensors may hold no
    numbers ("meta"), and generators do not follow them. All is restored afterwards.
    """
    # each call of PyTorch takes longer in the context of a device
    usual = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    training = [] if network is None else [module for module in network.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with usual, torch.inference_mode(False), torch.autocast(device.type, enabled=False):
            yield
    finally:
        for module in training:
            module.training = True


BUSY = {
    "tape": {"cpu": 512, "cuda": 8_192},
    "places": {"cpu": 4_096, "cuda": 65_536},
    "path": {"cpu": 1_024, "cuda": 16_384},
    "removals": {"cpu": 1_024, "cuda": 65_536},
    "masks": {"cpu": 1_536, "cuda": 65_536},
}
"""Tokens that keep a device busy, by kind of work.

"tape": work that keeps a tape. On a CPU more tokens only add padding (measured from 128 to 4,096); the
number for a GPU is a guess, about 10 GiB of tape at BERT-base width and 512 tokens.
"places": backward passes from several places of one tape.
"path": steps on a path of one text, where nothing is padded.
"removals": texts without some of their tokens, forward only.
"masks": masks of one text carried back together (measured on a CPU from 16 to 128 masks).
"""


def budget(batch_tokens: int | None, device: torch.device, *, work: str = "tape") -> int:
    """The given number, checked, or by default what keeps this device busy at a kind of work."""
    busy = BUSY[work]
    if batch_tokens is None:
        return busy.get(device.type, busy["cpu"])
    return whole("batches", "batch_tokens", batch_tokens, hint="try batch_tokens=4096")


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of sequences in batches of at most `batch_tokens` tokens, padding included.

    Sequences of similar length share a batch, and one that is longer than the budget is alone in its batch.
    The longest come first, so that memory peaks at once.

    >>> token_batches([3, 9, 4], 10)
    [[1], [2, 0]]
    """
    batches: list[list[int]] = []
    left = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if left < 1:
            batches.append([])
            left = max(1, batch_tokens // max(1, lengths[index]))
        batches[-1].append(index)
        left -= 1
    return batches


def pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (B, T) padded on the right, and the mask that is 1 on real tokens."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, (torch.arange(width, device=device) < lengths[:, None]).long()


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
