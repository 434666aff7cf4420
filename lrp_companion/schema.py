"""Frozen records, protocols, and sets of bypassed layers (masks), layers counted from 1. NumPy only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from lrp_companion.attribution import Record
from lrp_companion.checks import SITES, InputError, choose, scores_at, shown
from lrp_companion.checks import check_layers as check_layers
from lrp_companion.words import Span, readable

NONE: frozenset[int] = frozenset()
"""No layer bypassed: AttnLRP."""
PATHS = ("front-to-back", "back-to-front", "single")


def mask_number(layers: frozenset[int] | set[int]) -> int:
    """The number whose bit l-1 is set if layer l (from 1) is bypassed: 0 is AttnLRP, 2**L - 1 CP-LRP."""
    return sum(1 << (layer - 1) for layer in layers)


def bypassed(mask: int) -> frozenset[int]:
    """The layers (from 1) whose bit is set."""
    return frozenset(bit + 1 for bit in range(int(mask).bit_length()) if mask >> bit & 1)


def path_masks(layers: int) -> dict[str, list[frozenset[int]]]:
    """The paper's three paths: layers bypassed from the front, from the back, and one at a time."""
    numbers = range(1, layers + 1)
    return {
        "front-to-back": [frozenset(range(1, k + 1)) for k in numbers],
        "back-to-front": [frozenset(range(k, layers + 1)) for k in reversed(numbers)],
        "single": [frozenset([k]) for k in numbers],
    }


def masks_on_paths(layers: int) -> list[frozenset[int]]:
    """Every mask on the paper's three paths once, AttnLRP (none) first."""
    on_paths = [mask for path in path_masks(layers).values() for mask in path]
    return list(dict.fromkeys([NONE, *on_paths]))


def mask_label(mask: frozenset[int]) -> str:
    """Bypassed layers in words."""
    if len(mask) > 1 and max(mask) - min(mask) == len(mask) - 1:
        return f"{min(mask)} to {max(mask)}"
    return ", ".join(map(str, sorted(mask))) or "none"


REMOVALS = ("attention-mask", "mask-token", "pad-token", "delete")
TOKEN_CHOICES = ("no-special", "all")
MAP_CHOICES = ("raw", "sum-to-one", "absolute-sum")
TARGET_CHOICES = ("logit", "margin", "probability")
STATISTICS = ("pearson", "spearman", "kendall")
AXIS_OPTIONS: dict[str, tuple[str, ...]] = {"site": SITES, "tokens": TOKEN_CHOICES, "map": MAP_CHOICES}
AXIS_OPTIONS |= {"removal": REMOVALS, "target": TARGET_CHOICES, "statistic": STATISTICS}
"""Each choice of a `Protocol` and its options."""
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"
LABELS_SHOWN = 6
"""How many labels a model card prints."""
PROBLEM_TYPES = ("single_label_classification", MULTI_LABEL, REGRESSION)
"""As `config.json` names them: a softmax over all classes, a sigmoid for each, or one number."""


def counted(special: np.ndarray, tokens: str) -> np.ndarray:
    """Return which tokens count under a choice of `TOKEN_CHOICES`: bool, shape (T,), as `special` is."""
    return ~special if tokens == "no-special" else np.ones(len(special), dtype=bool)


class Texts(tuple[str, ...]):
    """Several texts as a tuple; a part or a sum of them is never a pair, however many are left.

    >>> texts = Texts(("Fine.", "Dull.", "Fair."))
    >>> texts[:2], isinstance(texts[:2], Texts), texts == ("Fine.", "Dull.", "Fair.")
    (('Fine.', 'Dull.'), True, True)
    """

    __slots__ = ()

    def __getitem__(self, at: Any, /) -> Any:
        return Texts(super().__getitem__(at)) if isinstance(at, slice) else super().__getitem__(at)

    def __add__(self, other: Any, /) -> Texts:
        return Texts((*self, *other))


@dataclass(frozen=True, eq=False)
class Lattice(Record):
    """Relevance of one text under all 2**L bypass masks of its L layers.

    A layer is bypassed if its attention is treated as in CP-LRP.

    Attributes
    ----------
    tokens, target, logit, special : as in `Attribution`.
    scores : float64, shape (2**L, T). Row k belongs to the mask whose bit l-1 is set if layer l is bypassed,
        so `scores[0]` is AttnLRP and `scores[-1]` is CP-LRP.
    site : where the scores are read.
    parts : the same by part of the embedding sum (`word`, `position`, `type`), for `at`.
    label : name of the explained class.
    text, offsets : as in `Attribution`.
    """

    tokens: tuple[str, ...]
    scores: np.ndarray
    target: int
    logit: float
    special: np.ndarray
    site: str = "word"
    parts: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    label: str = ""
    text: str = field(default="", repr=False)
    offsets: tuple[Span, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        self._typed()

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens in readable form, as in `Attribution`."""
        return readable(self.tokens, self.text, self.offsets, self.special)

    @property
    def layers(self) -> int:
        """L, the number of layers."""
        return self.scores.shape[0].bit_length() - 1

    def at(self, site: str) -> Lattice:
        """The same lattice read at another site; needs the parts, which `layer_lattice` keeps."""
        if site == self.site:
            return self
        return replace(self, scores=scores_at(self.parts, site), site=site)

    def scores_for(self, bypass: Iterable[int]) -> np.ndarray:
        """Scores with these layers (from 1) bypassed; shape (T,)."""
        return self.scores[mask_number(check_layers("Lattice.scores_for", bypass, self.layers))]

    def mix(self, amounts: Sequence[float]) -> np.ndarray:
        """Scores at a point of [0, 1]^L, shape (T,): 0 is AttnLRP in that layer, 1 is CP-LRP.

        Exact, because relevance is multilinear in the amounts, as the primer derives:
        R(m) = sum_k prod_l (m_l if bit l-1 of k else 1 - m_l) R(k).
        """
        if len(amounts) != self.layers:
            got, expected = f"{len(amounts)} amounts", f"{self.layers}, from 0 to 1"
            raise InputError("Lattice.mix", got=got, expected=expected, hint="give one amount per layer")
        rows = self.scores
        for amount in amounts:  # bit 0 belongs to layer 1: neighbours first
            rows = (1 - amount) * rows[0::2] + amount * rows[1::2]
        return rows[0]


@dataclass(frozen=True)
class ModelCard:
    """A model's source and description, as kept in records.

    Attributes
    ----------
    name : the embedded model's name, the folder's name, or the hub id.
    source : "embedded", "folder", "hub" or "memory".
    family : `model_type` of `config.json`, such as "bert".
    layers, heads, hidden : number of layers, attention heads per layer, width of the hidden states.
    max_tokens : the longest text that the model can read, special tokens included.
    labels : names of the classes, in the order of the logits.
    dtype : the weights' type in memory, such as "float32".
    fingerprint : fingerprint of the weights on disk.
    tokenizer, config : fingerprints of the tokenizer, and of `config.json` without labels and bookkeeping; ""
        in older records.
    problem_type : one of `PROBLEM_TYPES`.
    stored : the type of most weights in a .gguf file, such as "Q4_1", from which they were unpacked; else "".
    """

    name: str
    source: str
    family: str
    layers: int
    heads: int
    hidden: int
    max_tokens: int
    labels: tuple[str, ...]
    dtype: str
    fingerprint: str
    tokenizer: str = ""
    config: str = ""
    problem_type: str = PROBLEM_TYPES[0]
    stored: str = ""

    @property
    def _few_labels(self) -> str:
        """The first labels as a tuple: a vocabulary would fill screens."""
        count, first = len(self.labels), [shown(label) for label in self.labels[:LABELS_SHOWN]]
        more = f", ... {count:,} in all" if count > LABELS_SHOWN else "," if count == 1 else ""
        return f"({', '.join(first)}{more})"

    def __repr__(self) -> str:
        names = [entry.name for entry in fields(self)]
        values = [self._few_labels if name == "labels" else repr(getattr(self, name)) for name in names]
        return f"ModelCard({', '.join(map('='.join, zip(names, values, strict=True)))})"

    def __str__(self) -> str:
        precision = f"{self.dtype}, unpacked from {self.stored}" if self.stored else self.dtype
        sizes = f"{self.layers} layers, {self.heads} heads, {self.hidden} wide, {precision}"
        prints = f"{self.fingerprint}, tokenizer {self.tokenizer or '?'}, configuration {self.config or '?'}"
        lines = [f"{self.name} from {self.source}, family {self.family}", f"network: {sizes}"]
        lines += [f"texts: at most {self.max_tokens:,} tokens", f"classes: {self._few_labels}"]
        return "\n".join([*lines, f"fingerprints: weights {prints}"])


@dataclass(frozen=True)
class Protocol:
    """The choices under which an explanation is compared with LOO.

    The paper leaves most of them open; the defaults are this project's.

    Attributes
    ----------
    site : the parts of the embedding sum whose relevance counts as a token's: one of `SITES`.
    tokens : "no-special" leaves out [CLS] and [SEP], "all" counts them.
    map : how both maps are rescaled, one of `MAP_CHOICES`; see `metrics.normalise`.
    removal : how LOO removes a token, one of `REMOVALS`.
    target : the explained output: the class's logit, its margin over the best other class, or its
        probability.
    statistic : the correlation, one of `STATISTICS`.

    Raises
    ------
    InputError : a choice that is not offered.

    >>> print(Protocol(tokens="all"))
    read at word, all tokens, raw maps, LOO by attention-mask, target logit, pearson
    """

    site: str = "word"
    tokens: str = "no-special"
    map: str = "raw"
    removal: str = "attention-mask"
    target: str = "logit"
    statistic: str = "pearson"

    def __post_init__(self) -> None:
        for name, options in AXIS_OPTIONS.items():
            choose("Protocol", name, getattr(self, name), options)

    def __str__(self) -> str:
        maps = f"read at {self.site}, {self.tokens} tokens, {self.map} maps"
        return f"{maps}, LOO by {self.removal}, target {self.target}, {self.statistic}"


DEFAULT_PROTOCOL = Protocol()
PROTOCOLS = {
    "words only (default)": DEFAULT_PROTOCOL,
    "words + positions, all tokens": Protocol(site="word+position", tokens="all"),
    "sum to one": Protocol(site="word+position", tokens="all", map="sum-to-one"),
}
"""Three protocols by name, the default first. The paper does not say which it used.

- "words only (default)": relevance of the word embeddings, special tokens left out.
- "words + positions, all tokens": positions are added to the words, and special tokens count.
- "sum to one": the second one, with each map divided by its sum.
"""
