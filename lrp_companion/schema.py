"""Frozen records, errors and checks of arguments that all modules share. NumPy only."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np

from lrp_companion.masks import mask_number

SITES = ("word", "word+position", "embedding")
SITE_PARTS = {
    "word": ("word",),
    "word+position": ("word", "position"),
    "embedding": ("word", "position", "type"),
}
REMOVALS = ("attention-mask", "mask-token", "pad-token", "delete")
TOKEN_CHOICES = ("no-special", "all")
MAP_CHOICES = ("raw", "sum-to-one", "absolute-sum")
TARGET_CHOICES = ("logit", "margin", "probability")
STATISTICS = ("pearson", "spearman", "kendall")
MULTI_LABEL = "multi_label_classification"
PROBLEM_TYPES = ("single_label_classification", MULTI_LABEL)
"""As `config.json` names them: a softmax over all classes, or a sigmoid for each."""


class CompanionError(Exception):
    """Base of every error the package raises on purpose.

    The message names the operation, what was received, what was expected, and the next step.

    >>> print(InputError("attribute", got="seed -1", expected="a number, at least 0", hint="try seed=0"))
    attribute: got seed -1; expected a number, at least 0. Next step: try seed=0.
    """

    def __init__(self, operation: str, *, got: str, expected: str, hint: str) -> None:
        self.operation, self.got, self.expected, self.hint = operation, got, expected, hint
        super().__init__(f"{operation}: got {got}; expected {expected}. Next step: {hint.rstrip('.')}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), self.operation, self.got, self.expected, self.hint)


def _rebuild_error(
    kind: type[CompanionError], operation: str, got: str, expected: str, hint: str
) -> CompanionError:
    return kind(operation, got=got, expected=expected, hint=hint)


class InputError(CompanionError, ValueError):
    """An argument that cannot be used: its value, shape, or combination with others."""


class SourceError(CompanionError, OSError):
    """Data or a model that cannot be reached or read."""

    def __str__(self) -> str:  # OSError would print its own arguments
        return str(self.args[0])


class ModelError(CompanionError, TypeError):
    """A model that the package cannot explain."""


def shown(value: object, longest: int = 80) -> str:
    """A value as a message shows it: in one line, cut where it is long.

    >>> shown("a film"), len(shown(10**5000))
    ("'a film'", 80)
    """
    try:
        text = repr(value)
    except Exception:  # an object of somebody else's; an integer of too many digits
        text = f"a {type(value).__name__} that cannot be printed in {longest} characters".ljust(longest)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def choose(operation: str, name: str, value: object, options: Sequence[str]) -> str:
    """Return `value` if it is one of `options`; else raise `InputError`.

    >>> choose("attribute", "site", "word", SITES)
    'word'
    """
    if isinstance(value, str) and value in options:
        return value
    raise InputError(
        operation,
        got=f"{name} {shown(value)}",
        expected=f"one of {', '.join(options)}",
        hint=f"choose a {name} from this list",
    )


def whole(
    operation: str, name: str, value: object, *, least: int = 1, most: int | None = None, hint: str
) -> int:
    """Return `value` as an int if it is a whole number from `least` to `most`; else raise `InputError`.

    A boolean is not a number here, and 2.0 is not a whole one.

    >>> whole("attribute", "n_steps", 50, hint="try n_steps=50")
    50
    """
    if is_whole(value) and least <= value and (most is None or value <= most):
        return int(value)
    expected = f", at least {least}" if most is None else f" from {least} to {most}"
    raise InputError(operation, got=f"{name} {shown(value)}", expected=f"a whole number{expected}", hint=hint)


def is_whole(value: object) -> TypeGuard[int | np.integer]:
    """Whether `value` is an integer of Python or NumPy, and no boolean.

    >>> is_whole(np.int64(3)), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def number(
    operation: str,
    name: str,
    value: object,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    hint: str,
) -> float:
    """Return `value` as a float if it is finite and within the bounds; else raise `InputError`.

    `least` is a bound that the value may take; `above` and `below` it may not.

    >>> number("attribute", "epsilon", 1e-6, least=0, hint="try epsilon=0.0")
    1e-06
    """
    bounds = (("at least", operator.ge, least), ("above", operator.gt, above), ("below", operator.lt, below))
    asked = [(words, holds, bound) for words, holds, bound in bounds if bound is not None]
    given = _finite(value)
    if given is not None and all(holds(given, bound) for _, holds, bound in asked):
        return given
    bounded = " and ".join(f"{words} {bound:g}" for words, _, bound in asked)
    expected = f"a finite number, {bounded}" if asked else "a finite number"
    raise InputError(operation, got=f"{name} {shown(value)}", expected=expected, hint=hint)


def _finite(value: object) -> float | None:
    """`value` as a float; None for a boolean, another type, NaN, infinity, or too large an integer."""
    if not (is_whole(value) or isinstance(value, (float, np.floating))):
        return None
    try:
        given = float(value)
    except OverflowError:
        return None
    return given if math.isfinite(given) else None


def counted(special: np.ndarray, tokens: str) -> np.ndarray:
    """Return which tokens count under a choice of `TOKEN_CHOICES`: bool, shape (T,), as `special` is.

    >>> special = np.array([True, False])
    >>> counted(special, "no-special").tolist(), counted(special, "all").tolist()
    ([False, True], [True, True])
    """
    return ~special if tokens == "no-special" else np.ones(len(special), dtype=bool)


def check_layers(operation: str, layers: Iterable[int], count: int) -> frozenset[int]:
    """Return the layers as a set; raise `InputError` for any outside 1..count.

    Layers count from 1, as in the paper.

    >>> sorted(check_layers("lrp", [3, 1], 12))
    [1, 3]
    """
    expected = f"integers from 1 to {count}"
    if isinstance(layers, (str, bytes)) or not isinstance(layers, Iterable):
        hint = "pass a list such as [1, 2]"
        raise InputError(operation, got=f"layers {shown(layers)}", expected=expected, hint=hint)
    chosen: list[Any] = []
    if getattr(layers, "ndim", 1) == 0:  # an array or tensor of one number
        layers = [layers]
    for layer in layers:  # one by one: a range may be endless
        chosen.append(layer)
        if not is_whole(layer) or not 1 <= layer <= count:
            expected, hint = f"{expected} (layers count from 1)", "name only layers the model has"
            raise InputError(operation, got=f"layer {shown(layer)}", expected=expected, hint=hint)
    return frozenset(int(layer) for layer in chosen)


def scores_at(parts: Mapping[str, np.ndarray], site: str) -> np.ndarray:
    """Return the sum of the parts that a site reads; a part that the model does not have is left out.

    >>> scores_at({"word": np.array([1.0]), "position": np.array([0.5])}, "word+position")
    array([1.5])
    """
    return np.sum([parts[name] for name in SITE_PARTS[site] if name in parts], axis=0)


def _frozen(array: Any, dtype: Any) -> np.ndarray:
    out = np.array(array, dtype=dtype)
    out.setflags(write=False)
    return out


@dataclass(frozen=True)
class Attribution:
    """One explanation: a score for every token of a text or every pixel of an image.

    Attributes
    ----------
    tokens : the tokens, special ones included, padding left out; for an image "row,column" of each pixel.
    scores : float64, shape (T,), in units of the explained output (a logit unless `choices` says otherwise).
    target : index of the explained class.
    logit : the model's logit of that class on the whole input.
    special : bool, shape (T,); True where a token is special ([CLS], [SEP]).
    method : the method's name.
    choices : every choice the scores depend on (site, epsilon, removal, baseline, ...).
    parts : scores by site of the embedding sum (`word`, `position`, `type`), where the method has them.
    details : what else was measured on the way (a convergence delta, a label's name).
    """

    tokens: tuple[str, ...]
    scores: np.ndarray
    target: int
    logit: float
    special: np.ndarray
    method: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "tokens", tuple(self.tokens))
        put(self, "scores", _frozen(self.scores, np.float64))
        put(self, "special", _frozen(self.special, bool))
        put(self, "target", int(self.target))
        put(self, "logit", float(self.logit))
        put(self, "choices", MappingProxyType(dict(self.choices)))
        put(self, "parts", MappingProxyType({k: _frozen(v, np.float64) for k, v in self.parts.items()}))
        put(self, "details", MappingProxyType(dict(self.details)))
        for name, shape in (("scores", self.scores.shape), ("special", self.special.shape)):
            if shape != (len(self.tokens),):
                expected, hint = f"({len(self.tokens)},), one per token", "pass one value per token"
                raise InputError("Attribution", got=f"{name} of shape {shape}", expected=expected, hint=hint)

    def scores_at(self, site: str) -> np.ndarray:
        """Scores read at a site, shape (T,); a method without parts (LOO, IG, rollout) has one map only."""
        choose("Attribution.scores_at", "site", site, SITES)
        return scores_at(self.parts, site) if self.parts else self.scores

    def __repr__(self) -> str:
        where = f"tokens={len(self.tokens)}, target={self.target}, logit={self.logit:.4g}"
        return f"Attribution(method={self.method!r}, {where})"


@dataclass(frozen=True)
class Lattice:
    """Relevance of one text under all 2**L bypass masks of its L layers.

    A layer is bypassed where its attention is treated as CP-LRP does.

    Attributes
    ----------
    tokens, target, logit, special : as in `Attribution`.
    scores : float64, shape (2**L, T). Row k belongs to the mask whose bit l-1 is set where layer l is
        bypassed, so `scores[0]` is AttnLRP and `scores[-1]` is CP-LRP.
    site : where the scores are read.
    parts : the same by part of the embedding sum (`word`, `position`, `type`), for `at`.
    label : name of the explained class.
    """

    tokens: tuple[str, ...]
    scores: np.ndarray
    target: int
    logit: float
    special: np.ndarray
    site: str = "word"
    parts: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    label: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "tokens", tuple(self.tokens))
        put(self, "scores", _frozen(self.scores, np.float64))
        put(self, "special", _frozen(self.special, bool))
        put(self, "parts", MappingProxyType({k: _frozen(v, np.float64) for k, v in self.parts.items()}))
        rows = self.scores.shape[0] if self.scores.ndim == 2 else 0
        if self.scores.ndim != 2 or self.scores.shape[1] != len(self.tokens) or rows < 1 or rows & (rows - 1):
            got, expected = f"scores of shape {self.scores.shape}", f"(2**L, {len(self.tokens)})"
            raise InputError("Lattice", got=got, expected=expected, hint="pass one row per mask")

    @property
    def layers(self) -> int:
        """L, the number of layers."""
        return self.scores.shape[0].bit_length() - 1

    def at(self, site: str) -> Lattice:
        """The same lattice read at another site; needs the parts, which `layer_lattice` keeps."""
        choose("Lattice.at", "site", site, SITES)
        if site == self.site:
            return self
        if not self.parts:
            got, hint = "a lattice without parts", "make it with layer_lattice"
            raise InputError("Lattice.at", got=got, expected="parts by name", hint=hint)
        return replace(self, scores=scores_at(self.parts, site), site=site)

    def scores_for(self, bypass: Iterable[int]) -> np.ndarray:
        """Scores with these layers (from 1) bypassed; shape (T,)."""
        return self.scores[mask_number(check_layers("Lattice.scores_for", bypass, self.layers))]

    def mix(self, amounts: Sequence[float]) -> np.ndarray:
        """Scores at a point of [0, 1]^L, shape (T,): 0 is AttnLRP in that layer, 1 is CP-LRP.

        Exact, because relevance is multilinear in the amounts, as the primer derives:
        R(m) = sum_k prod_l (m_l if bit l-1 of k else 1 - m_l) R(k).
        """
        try:
            point = np.asarray(amounts, dtype=np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            point = np.empty(0)
        if point.shape != (self.layers,) or not np.all((point >= 0) & (point <= 1)):
            expected, hint = f"{self.layers} numbers from 0 to 1", "give one amount per layer"
            raise InputError("Lattice.mix", got=f"amounts {shown(amounts)}", expected=expected, hint=hint)
        rows = self.scores
        for amount in point:  # bit 0 belongs to layer 1: neighbours first
            rows = (1 - amount) * rows[0::2] + amount * rows[1::2]
        return rows[0]


@dataclass(frozen=True)
class ModelCard:
    """What a record says about a model: where it came from and what it is.

    Attributes
    ----------
    name : the embedded model's name, the folder's name, or the hub id.
    source : "embedded", "folder", "hub" or "memory".
    family : `model_type` of `config.json`, such as "bert".
    layers, heads, hidden : number of layers, attention heads per layer, width of the hidden states.
    max_tokens : the longest text that the model can read, special tokens included.
    labels : names of the classes, in the order of the logits.
    dtype : the weights' type in memory, such as "float32".
    fingerprint : of the weights as they are on disk.
    tokenizer, config : fingerprints of the tokenizer, and of `config.json` without labels and bookkeeping; ""
        in records that were made before these were kept.
    problem_type : one of `PROBLEM_TYPES`.
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
    target : the explained output: the class's logit, its margin over the best other one, or its probability.
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
        for name, options in (
            ("site", SITES),
            ("tokens", TOKEN_CHOICES),
            ("map", MAP_CHOICES),
            ("removal", REMOVALS),
            ("target", TARGET_CHOICES),
            ("statistic", STATISTICS),
        ):
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
