"""Frozen records and errors that every room shares. NumPy only."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

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


class CompanionError(Exception):
    """Base of every error the package raises on purpose.

    The message names the operation, what was received, what was expected, and the next step.

    >>> str(InputError("attribute", got="method 'atnlrp'", expected="one of attnlrp, cp-lrp", hint="check the name"))
    "attribute: got method 'atnlrp'; expected one of attnlrp, cp-lrp. Next step: check the name."
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
    """A model of a kind that the package cannot explain."""


def choose(operation: str, name: str, value: object, options: Sequence[str]) -> str:
    """Return `value` if it is one of `options`; else raise `InputError`.

    >>> choose("attribute", "site", "word", SITES)
    'word'
    """
    if isinstance(value, str) and value in options:
        return value
    raise InputError(
        operation,
        got=f"{name} {value!r}",
        expected=f"one of {', '.join(options)}",
        hint=f"choose a {name} from this list",
    )


def whole(
    operation: str, name: str, value: object, *, least: int = 1, most: int | None = None, hint: str
) -> int:
    """Return `value` as an int if it is a whole number from `least` to `most`; else raise `InputError`.

    A boolean is no number here.

    >>> whole("attribute", "n_steps", 50, hint="try n_steps=50")
    50
    """
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if is_whole and least <= value and (most is None or value <= most):  # type: ignore[operator]
        return int(value)  # type: ignore[call-overload]
    expected = (
        f"a whole number from {least} to {most}" if most is not None else f"a whole number, at least {least}"
    )
    raise InputError(operation, got=f"{name} {value!r}", expected=expected, hint=hint)


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
    """Return `value` as a float if it is finite, at least `least`, above `above` and below `below`; else raise `InputError`.

    >>> number("attribute", "epsilon", 1e-6, least=0, hint="try epsilon=0.0")
    1e-06
    """
    bounds = [("at least", least), ("above", above), ("below", below)]
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    out = float(value) if is_number and abs(value) <= sys.float_info.max else math.nan  # type: ignore[arg-type]
    fits = (
        math.isfinite(out)
        and (least is None or out >= least)
        and (above is None or out > above)
        and (below is None or out < below)
    )
    if fits:
        return out
    asked = " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
    expected = f"a finite number, {asked}" if asked else "a finite number"
    raise InputError(operation, got=f"{name} {value!r}", expected=expected, hint=hint)


def counted(special: np.ndarray, tokens: str) -> np.ndarray:
    """The tokens that count under a choice of `TOKEN_CHOICES`, (T,), from where tokens are special (T,).

    >>> counted(np.array([True, False]), "no-special").tolist(), counted(np.array([True, False]), "all").tolist()
    ([False, True], [True, True])
    """
    return ~special if tokens == "no-special" else np.ones(len(special), dtype=bool)


def check_layers(operation: str, layers: Iterable[int], count: int) -> frozenset[int]:
    """Return the layers as a set, counted from 1 as in the paper; raise `InputError` for any outside
    1..count.

    >>> sorted(check_layers("lrp", [3, 1], 12))
    [1, 3]
    """
    if isinstance(layers, (str, bytes)) or not isinstance(layers, Iterable):
        raise InputError(
            operation,
            got=f"layers {layers!r}",
            expected=f"integers from 1 to {count}",
            hint="pass a list such as [1, 2]",
        )
    chosen = list(layers)
    for layer in chosen:
        if (
            isinstance(layer, (bool, np.bool_))
            or not isinstance(layer, (int, np.integer))
            or not 1 <= layer <= count
        ):
            raise InputError(
                operation,
                got=f"layer {layer!r}",
                expected=f"integers from 1 to {count} (layers count from 1)",
                hint="name only layers the model has",
            )
    return frozenset(int(layer) for layer in chosen)


def scores_at(parts: Mapping[str, np.ndarray], site: str) -> np.ndarray:
    """Return the sum of the parts that a site reads; a family without type embeddings has none to add.

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
        for name, size in (("scores", self.scores.shape), ("special", self.special.shape)):
            if size != (len(self.tokens),):
                raise InputError(
                    "Attribution",
                    got=f"{name} of shape {size}",
                    expected=f"({len(self.tokens)},), one per token",
                    hint="pass one value per token",
                )

    def scores_at(self, site: str) -> np.ndarray:
        """Scores read at another site; a method without parts (LOO, IG, rollout) has one map only. Shape (T,)."""
        choose("Attribution.scores_at", "site", site, SITES)
        return scores_at(self.parts, site) if self.parts else self.scores

    def __repr__(self) -> str:
        return f"Attribution(method={self.method!r}, tokens={len(self.tokens)}, target={self.target}, logit={self.logit:.4g})"


@dataclass(frozen=True)
class Lattice:
    """Relevance of one text under all 2**L bypass masks of its L layers.

    `scores[k]` belongs to the mask whose bit l-1 is set where layer l is bypassed (treated as CP-LRP does),
    so `scores[0]` is AttnLRP and `scores[-1]` is CP-LRP. Shape (2**L, T). `parts` holds the same by part of
    the embedding sum (`word`, `position`, `type`), for `at`.
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
            raise InputError(
                "Lattice",
                got=f"scores of shape {self.scores.shape}",
                expected=f"(2**L, {len(self.tokens)})",
                hint="pass one row per mask",
            )

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
            raise InputError(
                "Lattice.at",
                got="a lattice without parts",
                expected="parts by name",
                hint="make it with layer_lattice",
            )
        return replace(self, scores=scores_at(self.parts, site), site=site)

    def scores_for(self, bypass: Iterable[int]) -> np.ndarray:
        """Scores with these layers (from 1) bypassed; shape (T,)."""
        return self.scores[mask_number(check_layers("Lattice.scores_for", bypass, self.layers))]

    def mix(self, amounts: Sequence[float]) -> np.ndarray:
        """Scores at a point of [0,1]^L: 0 is AttnLRP in that layer, 1 is CP-LRP; exact, as relevance is
        multilinear.

        R(m) = sum_k prod_l (m_l if bit l-1 of k else 1 - m_l) R(k), as the primer derives. Shape (T,).
        """
        point = np.asarray(amounts, dtype=np.float64)
        if point.shape != (self.layers,) or not np.all((point >= 0) & (point <= 1)):
            raise InputError(
                "Lattice.mix",
                got=f"amounts {amounts!r}",
                expected=f"{self.layers} numbers from 0 to 1",
                hint="give one amount per layer",
            )
        rows = self.scores
        for amount in point:  # bit 0 belongs to layer 1: neighbours first
            rows = (1 - amount) * rows[0::2] + amount * rows[1::2]
        return rows[0]


@dataclass(frozen=True)
class ModelCard:
    """What a record says of a model: where it came from and what it is.

    Attributes
    ----------
    fingerprint : of the weights.
    tokenizer, config : fingerprints of the tokenizer and of what `config.json` says beside labels and
        bookkeeping.
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


@dataclass(frozen=True)
class Protocol:
    """The choices under which an explanation is compared with LOO; the paper leaves most open, the defaults
    are ours.

    >>> Protocol(tokens="all").tokens
    'all'
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
        return f"read at {self.site}, {self.tokens} tokens, {self.map} maps, LOO by {self.removal}, target {self.target}, {self.statistic}"


DEFAULT_PROTOCOL = Protocol()
PROTOCOLS = {
    "words only (default)": DEFAULT_PROTOCOL,
    "words + positions, all tokens": Protocol(site="word+position", tokens="all"),
    "sum to one": Protocol(site="word+position", tokens="all", map="sum-to-one"),
}
"""Three protocols by name, the default first; the paper does not say which it used. "sum to one" is the second one
with maps divided by their sums."""
