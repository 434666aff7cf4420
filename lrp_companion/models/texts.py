"""Texts and pairs of texts as a model reads them: token ids, token types, and special tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.schema import InputError, Texts

Text = str | tuple[str, str]
"""A text, or a pair of texts that the classifier reads together."""
TEXT_OR_PAIR = "a string, a pair (first, second) of strings, or a list of these"


@dataclass(frozen=True)
class EncodedText:
    """A text as the model reads it; `special` is True where a token is special. Shape (T,) each.

    Attributes
    ----------
    text, pair : the text; for a pair the first and the second text, else `pair` is None.
    types : token types, 0 or 1; the model sums their embedding with those of words and positions.
    whole : tokens before truncation.
    read : the place that is explained, if a model reads one: that of a masked token, or of a token with
        classes.
    """

    text: str
    input_ids: tuple[int, ...]
    tokens: tuple[str, ...]
    special: np.ndarray
    pair: str | None = None
    types: tuple[int, ...] = ()
    whole: int = 0
    read: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", self.types or (0,) * len(self.input_ids))
        object.__setattr__(self, "whole", self.whole or len(self.input_ids))

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def details(self) -> dict[str, str]:
        """What a record says of its input beside tokens: of a text nothing."""
        return {}

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers that differ where texts do."""
        return self.input_ids

    @property
    def source(self) -> Text:
        """What was encoded: the text, or the pair."""
        return self.text if self.pair is None else (self.text, self.pair)


def token_types(texts: Sequence[EncodedText], device: torch.device) -> Tensor | None:
    """Token types (B, T), padded on the right; None where all are 0."""
    if not any(any(text.types) for text in texts):
        return None
    width = max(len(text) for text in texts)
    rows = [[*text.types, *[0] * (width - len(text))] for text in texts]
    return torch.tensor(rows, device=device)


def places_read(texts: Sequence[EncodedText], device: torch.device) -> Tensor | None:
    """The places that are explained, (B,); None if the model determines what it reads."""
    if all(text.read is None for text in texts):
        return None
    return torch.tensor([text.read or 0 for text in texts], device=device)


def listed(texts: Any) -> list[Text]:
    """The texts and pairs of an argument, checked; a tuple is one pair, but `Texts` of a data set are not.

    Raises
    ------
    InputError : no texts; another type; a text that is empty or that UTF-8 cannot hold.

    >>> listed(("a film", "of grace")), listed(["a film", "of grace"])
    ([('a film', 'of grace')], ['a film', 'of grace'])
    """
    if isinstance(texts, (str, tuple)) and not isinstance(texts, Texts):
        texts = [texts]
    unordered = isinstance(texts, (bytes, Mapping, Set))
    is_no_column = getattr(texts, "ndim", 1) != 1  # an array of one number, or a frame, whose items are names
    if unordered or is_no_column or not isinstance(texts, Iterable):
        got, hint = f"texts of type {type(texts).__name__}", "pass strings, or pairs as tuples of two strings"
        raise InputError("encode", got=got, expected=TEXT_OR_PAIR, hint=hint)
    items = list(texts)
    if not items:
        hint = "pass a string or a list of strings"
        raise InputError("encode", got="no texts", expected="at least one text", hint=hint)
    for k, item in enumerate(items):
        if isinstance(item, tuple) and not isinstance(item, Texts):
            _check_pair(k, item)
        else:
            _check_text(f"text {k}", item)
    return items


def _check_pair(k: int, item: tuple) -> None:
    """Refuse a tuple that is not a pair of texts."""
    if len(item) != 2:
        got, hint = f"text {k}, a tuple of {len(item)}", "put separate texts into a list"
        raise InputError("encode", got=got, expected="a pair (first, second)", hint=hint)
    for place, text in zip(("first", "second"), item, strict=True):
        _check_text(f"text {k}, {place} of its pair,", text)


def _check_text(name: str, text: object) -> None:
    """Refuse a text unless it is a string with something in it that UTF-8 can hold."""
    name = name.removesuffix(",")
    if not isinstance(text, str):
        got, expected = f"{name} of type {type(text).__name__}", "a string"
        hint = "pass strings only; a pair is a tuple of two strings"
    elif not text.strip():
        got, expected = f"{name}, which is empty or only whitespace", "a text with at least one word"
        hint = "leave it out or write a word"
    elif any("\ud800" <= c <= "\udfff" for c in text):
        got, expected = f"{name} with a lone surrogate", "valid Unicode"
        hint = "decode the text as UTF-8 first"
    else:
        return
    raise InputError("encode", got=got, expected=expected, hint=hint)


@dataclass(frozen=True)
class Reader:
    """A tokenizer with the model's limits: `max_tokens`, and the number of token `types`."""

    tokenizer: Any
    max_tokens: int
    types: int = 1
    reads_mask: bool = False

    def encode(self, texts: Any, *, truncate: bool = False) -> list[EncodedText]:
        """Tokenise texts and pairs, see `Classifier.encode`; with `reads_mask` each has one mask token."""
        items = listed(texts)
        places = {kind: [k for k, x in enumerate(items) if isinstance(x, kind)] for kind in (str, tuple)}
        out: dict[int, EncodedText] = {}
        for kind, chosen in places.items():
            if not chosen:
                continue
            sides = [items[k] for k in chosen]
            columns = [list(side) for side in zip(*sides, strict=True)] if kind is tuple else [sides]
            rows = self._rows(*columns)
            for row, k in enumerate(chosen):
                out[k] = self._encoded(k, items[k], rows, row, truncate=truncate)
        return [out[k] for k in range(len(items))]

    def _rows(self, *columns: list, **cut: Any) -> Any:
        options = {"truncation": False, "verbose": False, "return_special_tokens_mask": True}
        return self.tokenizer(*columns, **{**options, **cut})

    def _encoded(self, k: int, item: Text, rows: Any, row: int, *, truncate: bool) -> EncodedText:
        """Text k as the tokenizer gives it, cut to `max_tokens` if it may be."""
        whole = len(rows["input_ids"][row])
        if whole > self.max_tokens:
            if not truncate:
                got, expected = f"text {k} of {whole} tokens", f"at most {self.max_tokens} tokens"
                hint = "shorten it, or pass truncate=True to cut its end"
                raise InputError("encode", got=got, expected=expected, hint=hint)
            if isinstance(item, tuple):  # the longer of the two loses its end first, as in training
                sides = [[side] for side in item]
                rows = self._rows(*sides, truncation="longest_first", max_length=self.max_tokens)
                row = 0
        ids, special = list(rows["input_ids"][row]), list(rows["special_tokens_mask"][row])
        types = list(rows["token_type_ids"][row]) if "token_type_ids" in rows else [0] * len(ids)
        if len(ids) > self.max_tokens:
            ids, special, types = ([*x[: self.max_tokens - 1], x[-1]] for x in (ids, special, types))
        if all(special) or (isinstance(item, tuple) and not _both_sides(rows, row)):
            got, hint = f"text {k}, in which the tokenizer finds no token", "write a word"
            raise InputError("encode", got=got, expected="a text with at least one word", hint=hint)
        read = self._mask_place(k, ids) if self.reads_mask else None
        self._check_special(k, ids, special)
        self._check_types(k, types)
        text, pair = item if isinstance(item, tuple) else (item, None)
        tokens = tuple(self.tokenizer.convert_ids_to_tokens(ids))
        marks = np.array(special, dtype=bool)
        return EncodedText(text, tuple(ids), tokens, marks, pair, tuple(types), whole, read)

    def _mask_place(self, k: int, ids: Sequence[int]) -> int:
        """The position of the one mask token of a text."""
        mask = self.tokenizer.mask_token_id
        if list(ids).count(mask) == 1:
            return list(ids).index(mask)
        got = f"text {k} with {list(ids).count(mask)} mask tokens"
        expected = f"one {self.tokenizer.mask_token}, the token to predict"
        hint = f"such as 'The capital of France is {self.tokenizer.mask_token}.'"
        raise InputError("encode", got=got, expected=expected, hint=hint)

    def _check_special(self, k: int, ids: Sequence[int], special: Sequence[int]) -> None:
        """Refuse a special token that the text itself spells: the model would see an end inside the text.

        An unknown word is not a special token here.
        """
        allowed = {self.tokenizer.unk_token_id, self.tokenizer.mask_token_id if self.reads_mask else None}
        reserved = set(self.tokenizer.all_special_ids) - allowed
        spelled = [i for i, mark in zip(ids, special, strict=True) if i in reserved and not mark]
        if spelled:
            (name,) = self.tokenizer.convert_ids_to_tokens(spelled[:1])
            got, expected = f"text {k} with the special token {name} in it", "text without special tokens"
            hint = "pass a pair as a tuple (first, second), or write the token's text in another way"
            raise InputError("encode", got=got, expected=expected, hint=hint)

    def _check_types(self, k: int, types: Sequence[int]) -> None:
        if self.types > 1 and max(types) >= self.types:
            got, expected = f"text {k} with token type {max(types)}", f"token types below {self.types}"
            hint = "take the tokenizer that the model was trained with"
            raise InputError("encode", got=got, expected=expected, hint=hint)


def _both_sides(rows: Any, row: int) -> bool:
    """Whether each side of a pair has a token; only fast tokenizers can tell."""
    if not getattr(rows, "is_fast", False):
        return True
    return {0, 1} <= set(rows.sequence_ids(row))
