"""The position of each token in its text, as a fast tokenizer gives it, or found by comparing the two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lrp_companion.loading.texts import EncodedText, tokenised
from lrp_companion.words import Span, plain

if TYPE_CHECKING:
    from lrp_companion.loading.classifier import Classifier


def offsets_of(clf: Classifier, text: EncodedText) -> tuple[str, tuple[Span, ...]]:
    """Return a text and the position of each token in it, (start, end) in characters; (0, 0) if special.

    The texts of a pair are joined, each on its line. If the tokenizer gives no positions and none can be
    found, or the ids are not those of the text, there are none: `()`.
    """
    if clf.reads_images:
        return "", ()
    sides = [text.text] if text.pair is None else [text.text, text.pair]
    joined = "\n".join(sides)
    if not getattr(clf.tokenizer, "is_fast", False):
        return joined, _found(clf.tokenizer, text, sides)
    ids, offsets = _read(clf.tokenizer, text, sides)
    return joined, tuple(offsets) if tuple(ids) == text.input_ids else ()


def _read(tokenizer: Any, text: EncodedText, sides: list[str]) -> tuple[list[int], list[Span]]:
    """Ids and offsets, read again; those of the second text continue after the first."""
    options: dict[str, Any] = {"return_offsets_mapping": True, "add_special_tokens": not text.bare}
    options["max_length"] = len(text) if text.cut else None
    read = tokenised(tokenizer, *([side] for side in sides), **options)
    shift = {None: 0, 0: 0, 1: len(sides[0]) + 1}
    moved = zip(read["offset_mapping"][0], read.sequence_ids(0), strict=True)
    spans = [(start + shift[k], end + shift[k]) for (start, end), k in moved]
    if text.bare:  # the template's special tokens are no words
        spans = [(0, 0) if mark else span for span, mark in zip(spans, text.special, strict=False)]
    return list(read["input_ids"][0]), spans


# -- tokenizers that exist only in Python give no positions ----------------------------------------------


def _found(tokenizer: Any, text: EncodedText, sides: list[str]) -> tuple[Span, ...]:
    """Positions from splitting each word alone; `()` where that gives other tokens than the whole text."""
    wanted = [k for k, alone in zip(text.input_ids, text.special, strict=True) if not alone]
    for space in (" ", ""):  # some spell the space before a word, others would make a token of it
        pieces = list(_pieces(tokenizer, sides, space))
        ids, count = tokenizer.convert_tokens_to_ids([token for token, _ in pieces]), len(wanted)
        if len(sides) == 2 and len(ids) != count:  # a pair that was cut, at two places
            continue
        for start in (0, len(ids) - count):  # a text that was cut has lost its end, or its beginning
            if start >= 0 and list(ids[start : start + count]) == wanted:
                places = iter(pieces[start : start + count])
                return tuple((0, 0) if alone else next(places)[1] for alone in text.special)
    return ()


def _pieces(tokenizer: Any, sides: list[str], space: str) -> Iterator[tuple[str, Span]]:
    """The tokens of each word with their positions; the second text begins on a new line."""
    known: dict[str, list[str]] = {}
    shift = 0
    for side in sides:
        for k, match in enumerate(re.finditer(r"\S+", side)):
            word = space + match[0] if k else match[0]
            if word not in known:
                known[word] = tokenizer.tokenize(word)
            start = shift + match.start()
            for token, (first, last) in zip(known[word], _within(match[0], known[word]), strict=True):
                yield token, (start + first, start + last)
        shift += len(side) + 1


def _within(word: str, tokens: Sequence[str]) -> list[Span]:
    """The part of a word that each of its tokens spells, compared without case and accents.

    What cannot be told apart, such as an unknown token or bytes, gets all characters that are left.
    """
    letters = [(letter, k) for k, c in enumerate(word) for letter in plain(c)]
    spelled = [plain(_surface(token)) for token in tokens]
    spans: list[Span] = [(0, len(word))] * len(tokens)
    low, high, first, last = 0, len(letters), 0, len(tokens)
    text = "".join(letter for letter, _ in letters)
    while first < last and text.startswith(spelled[first], low):
        low, begin = low + len(spelled[first]), low
        spans[first] = _span(letters, begin, low, len(word))
        first += 1
    while first < last and text.endswith(spelled[last - 1], low, high):
        last -= 1
        high, end = high - len(spelled[last]), high
        spans[last] = _span(letters, high, end, len(word))
    for k in range(first, last):
        spans[k] = _span(letters, low, high, len(word))
    return spans


def _span(letters: Sequence[tuple[str, int]], start: int, end: int, length: int) -> Span:
    """The characters of some letters; an empty place where there are none."""
    first = letters[start][1] if start < len(letters) else length
    return (first, letters[end - 1][1] + 1) if start < end else (first, first)


def _surface(token: str) -> str:
    """A token without the sign by which vocabularies say that a word goes on, or begins."""
    return token.removeprefix("##").lstrip("▁Ġ ").removesuffix("@@").removesuffix("</w>")
